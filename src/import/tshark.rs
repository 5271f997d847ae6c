//! tshark's JSON (`tshark -T json`): the packets it dissected.
//!
//! What matters stands in a few fields of each packet: time, addresses, ports, sequence numbers, flags and the TCP payload in
//! hex, within their layers or, with `-e`, side by side. With them the packets go through the same reassembly as a capture.
//! Where only some packets were written (`-Y http`), what tshark put together itself stands for the others. A file
//! made without `tcp.payload` holds no bytes, and that is said.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_json::Value;

use crate::error::Result;
use crate::event::Knows;

use super::array::Elements;
use super::packets::flows::Flows;
use super::packets::segment::Segment;
use super::{Importer, Reading, Sureness, time};

pub struct Tshark;

#[derive(Deserialize)]
struct Packet {
    #[serde(rename = "_source")]
    source: Source,
}

#[derive(Deserialize)]
struct Source {
    layers: Layers,
}

#[derive(Deserialize)]
struct Layers {
    frame: Option<Value>,
    ip: Option<Value>,
    ipv6: Option<Value>,
    tcp: Option<Value>,
    #[serde(rename = "tcp.segments")]
    together: Option<Value>,
}

/// What every packet must tell, in the words of `-e`.
const NEEDED: [&str; 8] =
    ["frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.flags", "tcp.payload"];

/// A packet of `-e`: all fields stand side by side.
fn flat(text: &[u8]) -> Option<Layers> {
    #[derive(Deserialize)]
    struct Flat {
        #[serde(rename = "_source")]
        source: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        layers: Value,
    }
    memchr::memmem::find(text, b"\"tcp.srcport\"")?;
    let layers = Some(serde_json::from_slice::<Flat>(text).ok()?.source.layers);
    Some(Layers { frame: layers.clone(), ip: layers.clone(), ipv6: layers.clone(), tcp: layers, together: None })
}

impl Importer for Tshark {
    fn name(&self) -> &'static str {
        "tshark"
    }

    fn about(&self) -> &'static str {
        "tshark -T json, with the TCP payloads in it"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        if head.trim_ascii_start().first() != Some(&b'[') {
            return 0;
        }
        let look = &head[..head.len().min(8192)];
        let has = |word: &[u8]| memchr::memmem::find(look, word).is_some();
        if has(b"\"_source\"") && has(b"\"layers\"") { 95 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut flows = Flows::new(reading, self.name());
        let mut elements = Elements::new(reading.input(), &[]);
        let (mut packets, mut segments, mut without_payload) = (0u64, 0u64, 0u64);
        while let Some(element) = elements.next_element() {
            packets += 1;
            let bytes = element.text.len() as u64 + element.left_out;
            let packet = match serde_json::from_slice::<Packet>(element.text) {
                Ok(packet) => packet,
                Err(cause) => {
                    reading.unread(bytes, format!("packet {}: {cause}", element.number));
                    continue;
                }
            };
            let mut layers = packet.source.layers;
            if layers.tcp.is_none() {
                let Some(flat) = flat(element.text) else { continue };
                layers = flat;
            }
            let Some(told) = told(&layers) else {
                let why = format!("packet {}: one of the fields {} is missing", element.number, NEEDED[..7].join(" "));
                reading.unread(bytes, why);
                continue;
            };
            segments += 1;
            without_payload += u64::from(told.payload.is_none() && told.length > 0);
            let payload = told.payload.unwrap_or_default();
            let segment = Segment {
                at: told.at,
                from: told.from,
                to: told.to,
                seq: told.seq,
                ack: told.ack,
                syn: told.syn,
                fin: told.fin,
                rst: told.rst,
                cut: told.length.saturating_sub(payload.len() as u64),
                payload: &payload,
            };
            flows.segment(&segment, reading);
        }
        let mut notes = Vec::new();
        if elements.found && !elements.closed {
            notes.push("the file ends before its list of packets does".to_string());
        }
        if without_payload > 0 {
            let text = format!("{without_payload} of {packets} packets have no tcp.payload (was it left out with -j?)");
            reading.unread(0, text);
        }
        if packets > 0 && segments == 0 {
            reading.unread(0, format!("none of {packets} packets has the fields {}", NEEDED.join(" ")));
        }
        flows.finish(reading, &notes, 0);
        Ok(())
    }
}

struct Told {
    at: i64,
    from: SocketAddr,
    to: SocketAddr,
    seq: u32,
    ack: Option<u32>,
    syn: bool,
    fin: bool,
    rst: bool,
    length: u64,
    payload: Option<Vec<u8>>,
}

fn told(layers: &Layers) -> Option<Told> {
    let tcp = layers.tcp.as_ref()?;
    let number = |name: &str| field(tcp, name).and_then(|text| text.parse::<u64>().ok());
    let epoch = layers.frame.as_ref().and_then(|frame| field(frame, "frame.time_epoch"))?;
    let at = time::from_number(epoch.as_bytes()).or_else(|| time::from_text(epoch))?;
    let address = |four: &str, six: &str| -> Option<IpAddr> {
        let four = layers.ip.as_ref().and_then(|ip| field(ip, four));
        four.or_else(|| layers.ipv6.as_ref().and_then(|ip| field(ip, six)))?.parse().ok()
    };
    let from = SocketAddr::new(address("ip.src", "ipv6.src")?, u16::try_from(number("tcp.srcport")?).ok()?);
    let to = SocketAddr::new(address("ip.dst", "ipv6.dst")?, u16::try_from(number("tcp.dstport")?).ok()?);
    let flags = field(tcp, "tcp.flags").and_then(|text| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u32::from_str_radix(digits, 16).ok()
    })?;
    // Relative numbers serve as well as raw ones, as long as one file keeps to one kind.
    let seq = number("tcp.seq_raw").or_else(|| number("tcp.seq"))? as u32;
    let ack = number("tcp.ack_raw").or_else(|| number("tcp.ack")).map(|ack| ack as u32);
    let told = Told {
        at,
        from,
        to,
        seq,
        ack: ack.filter(|_| flags & 0x10 != 0),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        length: number("tcp.len").unwrap_or(0),
        payload: field(tcp, "tcp.payload").and_then(hex),
    };
    Some(put_together(told, layers.together.as_ref()))
}

/// The last packet of a message brings the whole of it, in case those before were not written.
fn put_together(told: Told, together: Option<&Value>) -> Told {
    let whole = together.and_then(|together| field(together, "tcp.reassembled.data")).and_then(hex);
    match (whole, &told.payload) {
        (Some(whole), Some(payload)) if whole.len() > payload.len() && whole.ends_with(payload) => {
            let before = whole.len() - payload.len();
            let seq = told.seq.wrapping_sub(before as u32);
            Told { seq, length: told.length + before as u64, payload: Some(whole), ..told }
        }
        _ => told,
    }
}

/// A field's text; tshark writes a list where a field came more than once, and the first is the outermost.
fn field<'a>(layer: &'a Value, name: &str) -> Option<&'a str> {
    match layer.get(name)? {
        Value::String(text) => Some(text),
        Value::Array(list) => list.first()?.as_str(),
        _ => None,
    }
}

/// `7b:22:6a` or `7b226a`.
fn hex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for byte in text.bytes().filter(|byte| *byte != b':') {
        let digit = (byte as char).to_digit(16)? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    high.is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_side_by_side_and_what_was_put_together() {
        let text = br#"{"_source":{"layers":{"frame.time_epoch":["1.5"],"ip.src":["127.0.0.1"],"ip.dst":["127.0.0.2"],
            "tcp.srcport":["5"],"tcp.dstport":["6"],"tcp.seq_raw":["9"],"tcp.flags":["0x0018"],"tcp.len":["2"],
            "tcp.payload":["6364"]}}}"#;
        let mut layers = flat(text).expect("a packet of -e");
        let plain = told(&layers).expect("all that is needed");
        assert_eq!((plain.seq, plain.payload.as_deref()), (9, Some(&b"cd"[..])));
        layers.together = Some(serde_json::json!({"tcp.reassembled.data": "61:62:63:64"}));
        let whole = told(&layers).expect("all that is needed");
        assert_eq!((whole.seq, whole.length, whole.payload.as_deref()), (7, 4, Some(&b"abcd"[..])));
        assert!(flat(br#"{"_source":{"layers":{"udp.port":["1"]}}}"#).is_none());
    }

    #[test]
    fn hex_with_and_without_colons() {
        assert_eq!(hex("7b:22").as_deref(), Some(&b"{\""[..]));
        assert_eq!(hex("7b22").as_deref(), Some(&b"{\""[..]));
        assert!(hex("7").is_none() && hex("zz").is_none());
    }
}
