//! Packet captures: pcap and pcapng.
//!
//! Bytes of a file → packets ([`capture`]) → TCP segments ([`segment`], [`order`]) → bytes in order ([`half`]) → what is
//! spoken ([`talk`], [`flow`], [`flows`]): HTTP/1.1 with its event streams and WebSockets through the same code as the HTTP tap, bare
//! JSON-RPC in either framing. TLS and HTTP/2 are told, not guessed at.

#[cfg(test)]
mod by_hand;
pub mod capture;
mod flow;
pub mod flows;
mod half;
mod http;
#[cfg(test)]
mod loss_tests;
mod order;
pub mod segment;
mod talk;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::event::Knows;

use super::{Importer, Reading, Sureness};
use capture::each_packet;
use flows::Flows;
use segment::NoSegment;

pub struct Pcap;

impl Importer for Pcap {
    fn name(&self) -> &'static str {
        "pcap"
    }

    fn about(&self) -> &'static str {
        "packet captures (pcap, pcapng) of HTTP/1.1, WebSocket and JSON-RPC over TCP"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let magic: [&[u8]; 6] = [
            b"\xa1\xb2\xc3\xd4",
            b"\xd4\xc3\xb2\xa1",
            b"\xa1\xb2\x3c\x4d",
            b"\x4d\x3c\xb2\xa1",
            b"\x34\xcd\xb2\xa1",
            b"\x0a\x0d\x0d\x0a",
        ];
        if magic.iter().any(|magic| head.starts_with(magic)) { 100 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut flows = Flows::new(reading, self.name());
        let input = reading.input();
        let (mut fragments, mut broken, mut cut, mut unknown_link) = (0u64, 0u64, 0u64, None);
        let told =
            each_packet(input, &mut |packet| match segment::read(packet.link, packet.data, packet.cut, packet.at) {
                Ok(segment) => {
                    cut += u64::from(segment.cut > 0);
                    flows.segment(&segment, reading);
                }
                Err(NoSegment::OtherTraffic) => {}
                Err(NoSegment::UnknownLink) => unknown_link = Some(packet.link),
                Err(NoSegment::Fragment) => fragments += 1,
                Err(NoSegment::Broken) => broken += 1,
            });
        flows.flush(reading);
        let mut notes = Vec::new();
        if let Some(link) = unknown_link {
            reading.unread(0, format!("packets of the unknown link type {link} were not read"));
        }
        if fragments > 0 {
            reading.unread(0, format!("{fragments} IP fragments were not put together"));
        }
        if broken > 0 {
            reading.unread(0, format!("{broken} packets are too short or broken"));
        }
        if cut > 0 {
            let of = told.packets;
            notes.push(format!("{cut} of {of} packets are cut by the snap length of the capture (tcpdump: -s 0)"));
        }
        if let Some(why) = told.broken {
            notes.push(format!("the capture breaks off: {why}"));
        }
        if told.packets > 0 && flows.sums.connections == 0 {
            notes.push(format!("no TCP connections in {} packets", told.packets));
        }
        flows.finish(reading, &notes, told.dropped);
        Ok(())
    }
}
