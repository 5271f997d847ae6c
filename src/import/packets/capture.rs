//! pcap and pcapng files → packets with their times and link types.
//!
//! Both byte orders, micro- and nanoseconds, several interfaces. A file that breaks off gives the packets before the
//! break and says where it is.

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

use crate::event::Micros;
use crate::import::Input;

/// A packet or block longer than this is not read: above the largest snap length tools use (256 KiB).
const MOST_BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Interfaces of one pcapng section.
const MOST_INTERFACES: usize = 10_000;

pub struct Packet<'a> {
    pub at: Micros,
    pub link: i32,
    pub data: &'a [u8],
    /// Bytes of the packet the capture did not keep.
    pub cut: u64,
}

#[derive(Clone, Copy)]
struct Interface {
    link: i32,
    /// Units in a second.
    resolution: u64,
    offset_seconds: i64,
}

/// What a capture tells of itself besides its packets.
#[derive(Debug, Default)]
pub struct Told {
    pub packets: u64,
    /// Why reading stopped before the end.
    pub broken: Option<String>,
    /// Packets the capturing machine says it dropped.
    pub dropped: u64,
}

/// Gives every packet in the order of the file.
pub fn each_packet(input: Input, give: &mut dyn FnMut(Packet<'_>)) -> Told {
    let mut told = Told::default();
    let mut reader = match create_reader(MOST_BLOCK_BYTES, input) {
        Ok(reader) => reader,
        Err(cause) => {
            told.broken = Some(reason(&cause));
            return told;
        }
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut old = Interface { link: 1, resolution: 1_000_000, offset_seconds: 0 };
    let mut last_at = 0;
    // A refill that brings nothing new must end the loop: a length in the file may promise bytes that never come.
    let mut idle = 0;
    loop {
        let (taken, found) = match reader.next() {
            Ok((taken, block)) => {
                idle = 0;
                (taken, block)
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) if idle < 2 => {
                idle += 1;
                if reader.refill().is_err() {
                    told.broken = Some("it cannot be read further".to_string());
                    break;
                }
                continue;
            }
            Err(cause) => {
                told.broken = Some(format!("after packet {}: {}", told.packets, reason(&cause)));
                break;
            }
        };
        match found {
            PcapBlockOwned::LegacyHeader(header) => {
                old.link = header.network.0;
                old.resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            }
            PcapBlockOwned::Legacy(block) => {
                told.packets += 1;
                let part = u64::from(block.ts_usec) * 1_000_000 / old.resolution;
                last_at = i64::from(block.ts_sec) * 1_000_000 + part.min(999_999) as i64;
                let cut = u64::from(block.origlen).saturating_sub(block.data.len() as u64);
                give(Packet { at: last_at, link: old.link, data: block.data, cut });
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
                if interfaces.len() < MOST_INTERFACES {
                    interfaces.push(Interface {
                        link: about.linktype.0,
                        resolution: about.ts_resolution().filter(|units| *units > 0).unwrap_or(1_000_000),
                        offset_seconds: about.ts_offset(),
                    });
                }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                told.packets += 1;
                if let Some(interface) = interfaces.get(block.if_id as usize) {
                    let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                    last_at = time_of(units, interface);
                    let data = block.packet_data();
                    let cut = u64::from(block.origlen).saturating_sub(data.len() as u64);
                    give(Packet { at: last_at, link: interface.link, data, cut });
                }
            }
            PcapBlockOwned::NG(Block::SimplePacket(block)) => {
                told.packets += 1;
                if let Some(interface) = interfaces.first() {
                    let data = block.packet_data();
                    let cut = u64::from(block.origlen).saturating_sub(data.len() as u64);
                    give(Packet { at: last_at, link: interface.link, data, cut });
                }
            }
            PcapBlockOwned::NG(Block::InterfaceStatistics(block)) => {
                if let Some(Ok(dropped)) = block.isb_ifdrop() {
                    told.dropped = told.dropped.saturating_add(dropped);
                }
            }
            PcapBlockOwned::NG(_) => {}
        }
        reader.consume(taken);
    }
    told
}

fn time_of(units: u64, interface: &Interface) -> Micros {
    let seconds = units / interface.resolution;
    let part = u128::from(units % interface.resolution) * 1_000_000 / u128::from(interface.resolution);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_add(interface.offset_seconds);
    seconds.saturating_mul(1_000_000).saturating_add(part as i64)
}

fn reason<I>(cause: &PcapError<I>) -> String {
    match cause {
        PcapError::Eof => "it is empty".to_string(),
        PcapError::BufferTooSmall => "a packet longer than can be".to_string(),
        PcapError::UnexpectedEof | PcapError::Incomplete(_) => "the last packet is cut off".to_string(),
        PcapError::ReadError => "it cannot be read further".to_string(),
        PcapError::HeaderNotRecognized => "it is no packet capture".to_string(),
        PcapError::NomError(..) | PcapError::OwnedNomError(..) => "what follows is no packet".to_string(),
    }
}
