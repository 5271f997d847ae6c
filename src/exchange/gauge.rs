//! Numbers beside the wire's own: read out of responses (`--gauge`), or sampled from the tapped process.
//!
//! Comes in: events and, for responses that a gauge asks for, their bodies. Goes out: a [`Series`] that holds only
//! gauges, to be joined to the session's. It refuses to guess: what is no number at that place is not read.

use std::collections::HashMap;

use serde_json::Value;

use super::Series;
use crate::event::{Bodies, Event, Happening, Micros, Sample, Side, What};
use crate::rpc::{Id, Kind, Mark};

pub const MEMORY: &str = "process-memory";
pub const THREADS: &str = "process-threads";
pub const FILES: &str = "process-files";
pub const SOCKETS: &str = "process-sockets";
pub const CPU: &str = "process-cpu";
/// The measures of a process, in the order in which they are drawn.
pub const MEASURES: [&str; 5] = [MEMORY, THREADS, FILES, SOCKETS, CPU];

/// A response that holds a gauge's number is small; of larger ones nothing is read.
const MOST_BODY: usize = 1 << 20;
/// Requests of gauges that wait for an answer. A server that never answers its gauges is not worth more.
const MOST_WAITING: usize = 4096;

/// `NAME=METHOD[:TOOL]#/json/pointer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauge {
    pub name: String,
    pub method: String,
    pub tool: Option<String>,
    /// Within the response's `result`.
    pub pointer: String,
}

impl Gauge {
    pub fn parse(text: &str) -> Result<Gauge, String> {
        let wrong = |what: &str| {
            format!(
                "gauge {text:?}: {what}; write NAME=METHOD[:TOOL]#/json/pointer, \
                 as in tasks=tools/call:task_count#/structuredContent/result"
            )
        };
        let (name, rest) = text.split_once('=').ok_or_else(|| wrong("has no name"))?;
        let (place, pointer) = rest.split_once('#').ok_or_else(|| wrong("has no #/pointer"))?;
        let (method, tool) = match place.split_once(':') {
            Some((method, tool)) => (method, Some(tool.to_string())),
            None => (place, None),
        };
        if name.is_empty() || method.is_empty() {
            return Err(wrong("has no name or no method"));
        }
        if !(pointer.is_empty() || pointer.starts_with('/')) {
            return Err(wrong("the pointer does not start with /"));
        }
        Ok(Gauge { name: name.into(), method: method.into(), tool, pointer: pointer.into() })
    }
}

/// Reads gauges and samples while the events of one session pass by.
#[derive(Debug, Default)]
pub struct GaugeReader {
    gauges: Vec<Gauge>,
    waiting: HashMap<(Side, Id), usize>,
    series: Series,
    last_sample: Option<(Micros, Sample)>,
}

impl GaugeReader {
    pub fn new(gauges: &[Gauge]) -> GaugeReader {
        GaugeReader { gauges: gauges.to_vec(), ..GaugeReader::default() }
    }

    pub fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        match &event.what {
            What::Happening(Happening::Sample(sample)) => self.sample(event.at, sample),
            What::Message { from, message, body } if !self.gauges.is_empty() => {
                let Some(id) = &message.id else { return };
                match message.kind {
                    Kind::Request if self.waiting.len() < MOST_WAITING => {
                        let asks = |gauge: &Gauge| {
                            gauge.method == message.method()
                                && gauge.tool.as_deref().is_none_or(|tool| message.marks.text(Mark::Tool) == Some(tool))
                        };
                        // Several gauges may read one answer: the first stands for all that ask alike.
                        if let Some(place) = self.gauges.iter().position(asks) {
                            self.waiting.insert((*from, id.clone()), place);
                        }
                    }
                    Kind::Result if !self.waiting.is_empty() => {
                        let Some(place) = self.waiting.remove(&(from.other(), id.clone())) else { return };
                        let Some(bytes) = bodies.read(event.session, *body, MOST_BODY) else { return };
                        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return };
                        let value = match message.batch_index {
                            Some(index) => value.get(index as usize).and_then(|item| item.get("result")),
                            None => value.get("result"),
                        };
                        if let Some(result) = value {
                            self.read(place, event.at, result);
                        }
                    }
                    Kind::Error => {
                        self.waiting.remove(&(from.other(), id.clone()));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The gauges read, as a series beside the session's.
    pub fn finish(self) -> Series {
        self.series
    }

    fn read(&mut self, place: usize, at: Micros, result: &Value) {
        let asked = self.gauges[place].clone();
        for gauge in self.gauges.iter().filter(|gauge| gauge.method == asked.method && gauge.tool == asked.tool) {
            let number = match result.pointer(&gauge.pointer) {
                Some(Value::Number(number)) => number.as_f64(),
                // MCP's text content: servers write their counts as text.
                Some(Value::String(text)) => text.trim().parse().ok(),
                _ => None,
            };
            if let Some(number) = number {
                self.series.measured(&gauge.name, at, number);
            }
        }
    }

    fn sample(&mut self, at: Micros, sample: &Sample) {
        self.series.measured(MEMORY, at, sample.rss_bytes as f64);
        self.series.measured(THREADS, at, sample.threads as f64);
        self.series.measured(FILES, at, sample.files as f64);
        self.series.measured(SOCKETS, at, sample.sockets as f64);
        if let Some((before, last)) = self.last_sample.filter(|(before, _)| *before < at) {
            let used_ms = sample.cpu_ms.saturating_sub(last.cpu_ms) as f64;
            self.series.measured(CPU, at, used_ms * 1000.0 / (at - before) as f64 * 100.0);
        }
        self.last_sample = Some((at, *sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_read_as_written() {
        let gauge = Gauge::parse("tasks=tools/call:task_count#/structuredContent/result").unwrap();
        assert_eq!((gauge.name.as_str(), gauge.method.as_str()), ("tasks", "tools/call"));
        assert_eq!((gauge.tool.as_deref(), gauge.pointer.as_str()), (Some("task_count"), "/structuredContent/result"));
        assert_eq!(Gauge::parse("n=stats#").unwrap().pointer, "");
        for wrong in ["", "tasks", "tasks=stats", "=stats#/n", "n=#/n", "n=stats#n"] {
            assert!(Gauge::parse(wrong).is_err(), "{wrong}");
        }
    }
}
