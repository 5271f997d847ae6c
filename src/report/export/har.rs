//! HAR 1.2: one entry for each HTTP exchange; for stdio one for each message of the client, with what the server said
//! until it was answered as an event stream.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::event::{Happening, Line, Micros, Recording, Side, What};
use crate::report::words::timestamp;
use crate::rpc::Id;

struct Entry {
    at: Micros,
    end: Micros,
    method: String,
    url: String,
    request_headers: Vec<(String, String)>,
    response_headers: Vec<(String, String)>,
    sent: Vec<String>,
    heard: Vec<String>,
    status: u16,
    streams: bool,
}

impl Entry {
    fn new(at: Micros, method: &str, url: String) -> Entry {
        Entry {
            at,
            end: at,
            method: method.to_string(),
            url,
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            sent: Vec::new(),
            heard: Vec::new(),
            status: 0,
            streams: false,
        }
    }

    fn json(&self) -> Value {
        let headers = |headers: &[(String, String)]| -> Vec<Value> {
            headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
        };
        let millis = (self.end - self.at).max(0) as f64 / 1000.0;
        let mut request = json!({
            "method": self.method, "url": self.url, "httpVersion": "HTTP/1.1", "cookies": [],
            "headers": headers(&self.request_headers), "queryString": [], "headersSize": -1,
            "bodySize": self.sent.iter().map(String::len).sum::<usize>(),
        });
        if !self.sent.is_empty() {
            let text = if self.sent.len() == 1 { self.sent[0].clone() } else { format!("[{}]", self.sent.join(",")) };
            request["postData"] = json!({"mimeType": "application/json", "text": text});
        }
        let text = match (self.streams || self.heard.len() > 1, self.heard.first()) {
            (true, _) => {
                self.heard.iter().map(|body| format!("event: message\ndata: {}\n\n", body.replace('\n', " "))).collect()
            }
            (false, Some(body)) => body.clone(),
            (false, None) => String::new(),
        };
        let mime = if self.streams || self.heard.len() > 1 { "text/event-stream" } else { "application/json" };
        let mut response_headers = headers(&self.response_headers);
        if !self.response_headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) && !text.is_empty()
        {
            response_headers.push(json!({"name": "content-type", "value": mime}));
        }
        json!({
            "startedDateTime": timestamp(self.at),
            "time": millis,
            "request": request,
            "response": {
                "status": self.status, "statusText": "", "httpVersion": "HTTP/1.1", "cookies": [],
                "headers": response_headers, "redirectURL": "", "headersSize": -1, "bodySize": text.len(),
                "content": {"size": text.len(), "mimeType": mime, "text": text},
            },
            "cache": {},
            "timings": {"send": 0, "wait": millis, "receive": 0},
        })
    }
}

pub fn write(recording: &Recording) -> String {
    let mut entries = if recording.lines.iter().any(|line| line.carrier.is_some()) {
        of_carriers(recording)
    } else {
        of_lines(recording)
    };
    entries.sort_by_key(|entry| entry.at);
    let all = json!({"log": {
        "version": "1.2",
        "creator": {"name": "rpctap", "version": env!("CARGO_PKG_VERSION")},
        "entries": entries.iter().map(Entry::json).collect::<Vec<_>>(),
    }});
    format!("{all:#}\n")
}

fn of_carriers(recording: &Recording) -> Vec<Entry> {
    let mut entries: BTreeMap<u64, Entry> = BTreeMap::new();
    let base = recording.session.target.trim_end_matches('/').to_string();
    let base = if base.contains("://") { base } else { "http://localhost".to_string() };
    for event in &recording.others {
        let (Some(carrier), What::Happening(happening)) = (event.carrier, &event.what) else { continue };
        if let Happening::CarrierOpened { method, target, headers } = happening {
            let url = if target.contains("://") { target.clone() } else { join(&base, target) };
            let mut entry = Entry::new(event.at, method, url);
            entry.request_headers = headers.clone();
            entries.insert(carrier, entry);
        }
        let Some(entry) = entries.get_mut(&carrier) else { continue };
        entry.end = event.at;
        match happening {
            Happening::CarrierHead { status, headers } => {
                entry.status = *status;
                entry.response_headers = headers.clone();
            }
            Happening::CarrierStreaming { .. } => entry.streams = true,
            _ => {}
        }
    }
    for line in &recording.lines {
        let carrier = line.carrier.unwrap_or(0);
        let entry = entries.entry(carrier).or_insert_with(|| Entry::new(line.at, "POST", base.clone()));
        entry.end = entry.end.max(line.at);
        match line.from {
            Side::Client => entry.sent.push(line.text()),
            Side::Server => {
                entry.heard.push(line.text());
                if entry.status == 0 {
                    entry.status = 200;
                }
            }
        }
    }
    entries.into_values().collect()
}

/// The origin of the base with this path.
fn join(base: &str, path: &str) -> String {
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    let origin = base[after_scheme..].find('/').map_or(base, |at| &base[..after_scheme + at]);
    format!("{origin}{}{path}", if path.starts_with('/') { "" } else { "/" })
}

fn of_lines(recording: &Recording) -> Vec<Entry> {
    const URL: &str = "http://stdio.invalid/";
    let mut entries: Vec<Entry> = Vec::new();
    let mut open: HashMap<Id, usize> = HashMap::new();
    let mut latest_open: Vec<usize> = Vec::new();
    let mut aside: Option<usize> = None;
    for line in &recording.lines {
        if line.from == Side::Client {
            let mut entry = Entry::new(line.at, "POST", URL.to_string());
            entry.request_headers = vec![("content-type".to_string(), "application/json".to_string())];
            entry.sent.push(line.text());
            if line.is_request() {
                open.insert(id_of(line), entries.len());
                latest_open.push(entries.len());
            } else {
                entry.status = 202;
            }
            entries.push(entry);
            continue;
        }
        let answered = line.is_response().then(|| open.remove(&id_of(line))).flatten();
        let place = answered.or_else(|| latest_open.last().copied()).unwrap_or_else(|| {
            *aside.get_or_insert_with(|| {
                let mut entry = Entry::new(line.at, "GET", URL.to_string());
                entry.request_headers = vec![("accept".to_string(), "text/event-stream".to_string())];
                entry.streams = true;
                entries.push(entry);
                entries.len() - 1
            })
        });
        if let Some(answered) = answered {
            latest_open.retain(|open| *open != answered);
        } else {
            entries[place].streams = true;
        }
        entries[place].heard.push(line.text());
        entries[place].status = 200;
        entries[place].end = line.at;
    }
    entries
}

fn id_of(line: &Line) -> Id {
    line.message.id.as_ref().map_or(Id::Null, Id::canonical)
}
