//! `rpctap rules`: every rule by which findings are made.

use std::process::ExitCode;

use clap::Args;

use crate::error::Result;
use crate::finding::RULES;

/// List the rules by which findings are made
#[derive(Args)]
pub struct Rules {}

impl Rules {
    pub fn run(self) -> Result<ExitCode> {
        super::print(&list())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn list() -> String {
    let widest = RULES.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for rule in RULES {
        text.push_str(&format!("{:widest$}  {}\n{:widest$}  {}\n", rule.name, rule.title, "", rule.severities));
    }
    text.push_str("\n`rpctap explain RULE` says what a rule rests on and what to do about its findings.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_listed_once() {
        let text = list();
        for rule in RULES {
            let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(rule.name));
            assert_eq!(lines.count(), 1, "{}", rule.name);
        }
    }
}
