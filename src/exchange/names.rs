//! Methods and tools by number, with what they mean and what became of their requests.
//!
//! Whoever invents a new method name with every message must not fill memory: past a limit the rest share one row.

use std::sync::Arc;

use crate::event::Side;
use crate::protocol::{Protocol, Role};
use crate::rpc::{Mark, Name};

use super::hash::Map;
use super::{Latency, Outcomes};

const MOST_METHODS: usize = 1 << 12;
const MOST_TOOLS: usize = 1 << 12;
/// What the rest is called.
pub const OTHERS: &str = "(others)";

#[derive(Debug)]
pub struct Method {
    pub name: Name,
    pub role: Role,
    tool: Option<Mark>,
    /// The rows of requests without a tool, by who asked.
    plain: [Option<u32>; 2],
    tools: [Map<Box<str>, u32>; 2],
}

/// What became of the requests of one side for one method and tool.
#[derive(Debug)]
pub struct Row {
    pub asked_by: Side,
    pub method: Name,
    pub tool: Option<Name>,
    pub count: u64,
    pub outcomes: Outcomes,
    pub latency: Latency,
    /// Answered although the asker had sent another request meanwhile: it does not wait for each answer.
    pub overlapped: u64,
}

#[derive(Debug, Default)]
pub struct Names {
    numbers: Map<Name, u32>,
    pub methods: Vec<Method>,
    pub rows: Vec<Row>,
    tools: usize,
}

impl Names {
    /// The number of a method, and whether it is new.
    pub fn method(&mut self, name: &Name, protocol: &dyn Protocol) -> (u32, bool) {
        if let Some(number) = self.numbers.get(&**name) {
            return (*number, false);
        }
        let name: Name = if self.methods.len() >= MOST_METHODS { OTHERS.into() } else { Arc::clone(name) };
        if let Some(number) = self.numbers.get(&*name) {
            return (*number, false);
        }
        let number = self.methods.len() as u32;
        self.methods.push(Method {
            role: protocol.role(&name),
            tool: protocol.tool(&name),
            plain: [None; 2],
            tools: Default::default(),
            name: Arc::clone(&name),
        });
        self.numbers.insert(name, number);
        (number, true)
    }

    /// Another protocol was recognised: names mean something else now.
    pub fn translate(&mut self, protocol: &dyn Protocol) {
        for method in &mut self.methods {
            method.role = protocol.role(&method.name);
            method.tool = protocol.tool(&method.name);
        }
    }

    pub fn tool_mark(&self, method: u32) -> Option<Mark> {
        self.methods[method as usize].tool
    }

    pub fn row(&mut self, asked_by: Side, method: u32, tool: Option<&str>) -> u32 {
        let known = &mut self.methods[method as usize];
        let fits = self.tools < MOST_TOOLS;
        match tool {
            None => {
                if let Some(row) = known.plain[asked_by as usize] {
                    return row;
                }
            }
            Some(tool) => {
                let tools = &known.tools[asked_by as usize];
                if let Some(row) = tools.get(tool).or_else(|| if fits { None } else { tools.get(OTHERS) }) {
                    return *row;
                }
            }
        }
        let row = self.rows.len() as u32;
        let tool = tool.map(|tool| if fits { tool } else { OTHERS });
        match tool {
            None => known.plain[asked_by as usize] = Some(row),
            Some(tool) => {
                known.tools[asked_by as usize].insert(tool.into(), row);
                self.tools += 1;
            }
        }
        self.rows.push(Row {
            asked_by,
            method: Arc::clone(&known.name),
            tool: tool.map(Into::into),
            count: 0,
            outcomes: Outcomes::default(),
            latency: Latency::default(),
            overlapped: 0,
        });
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::plain::Plain;

    #[test]
    fn inventors_of_names_share_one_row_in_the_end() {
        let mut names = Names::default();
        for number in 0..10_000 {
            let (method, _) = names.method(&format!("m{number}").into(), &Plain);
            names.row(Side::Client, method, None);
            names.row(Side::Client, method, Some(&format!("t{number}")));
        }
        assert!(names.methods.len() <= MOST_METHODS + 1);
        assert!(names.rows.len() <= 2 * MOST_METHODS + MOST_TOOLS + 2, "{}", names.rows.len());
        let (first, new) = names.method(&"m0".into(), &Plain);
        assert!(!new && &*names.methods[first as usize].name == "m0");
    }
}
