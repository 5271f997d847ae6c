//! A captured packet → the TCP segment in it.
//!
//! Link headers (Ethernet with VLAN tags, Linux cooked, BSD loopback, raw IP) are taken off here; IP and TCP are read by
//! `etherparse` in its lax way, which allows for packets the capture cut.

use std::net::{IpAddr, SocketAddr};

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};

use crate::event::Micros;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    pub at: Micros,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub payload: &'a [u8],
    /// Bytes behind `payload` that were in the packet and not in the capture.
    pub cut: u64,
}

/// Why a packet holds no segment for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSegment {
    /// ARP, UDP, ICMP and the like: nothing of ours.
    OtherTraffic,
    /// A link type that is not known.
    UnknownLink,
    /// A piece of an IP datagram; pieces are not put together.
    Fragment,
    /// Too short, or broken.
    Broken,
}

const ETHERNET: i32 = 1;
const NULL: i32 = 0;
const LOOP: i32 = 108;
const LINUX_COOKED: i32 = 113;
const LINUX_COOKED_2: i32 = 276;
/// LINKTYPE_RAW, and the numbers systems wrote for it.
const RAW: [i32; 5] = [101, 12, 14, 228, 229];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// VLAN tags upon VLAN tags: two are usual.
const MOST_TAGS: usize = 4;

pub fn read(link: i32, data: &[u8], cut: u64, at: Micros) -> Result<Segment<'_>, NoSegment> {
    let ip = match link {
        ETHERNET => behind_type(data, 12)?,
        LINUX_COOKED => behind_type(data, 14)?,
        LINUX_COOKED_2 => {
            let kind = u16_at(data, 0)?;
            of_type(kind, data.get(20..).ok_or(NoSegment::Broken)?)?
        }
        NULL | LOOP => {
            let family: [u8; 4] = data.get(..4).and_then(|head| head.try_into().ok()).ok_or(NoSegment::Broken)?;
            // In the order of the machine that captured, so either is tried; the numbers are those of the BSDs and Darwin.
            let known = |family: u32| matches!(family, 2 | 10 | 23 | 24 | 28 | 30);
            if !known(u32::from_le_bytes(family)) && !known(u32::from_be_bytes(family)) {
                return Err(NoSegment::OtherTraffic);
            }
            &data[4..]
        }
        link if RAW.contains(&link) => data,
        _ => return Err(NoSegment::UnknownLink),
    };
    of_ip(ip, cut, at)
}

fn u16_at(data: &[u8], at: usize) -> Result<u16, NoSegment> {
    let two = data.get(at..at + 2).ok_or(NoSegment::Broken)?;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}

/// The payload behind an EtherType, past any VLAN tags.
fn behind_type(data: &[u8], at: usize) -> Result<&[u8], NoSegment> {
    let mut at = at;
    for _ in 0..=MOST_TAGS {
        let kind = u16_at(data, at)?;
        let rest = data.get(at + 2..).ok_or(NoSegment::Broken)?;
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
            return of_type(kind, rest);
        }
        at += 4;
    }
    Err(NoSegment::Broken)
}

fn of_type(kind: u16, rest: &[u8]) -> Result<&[u8], NoSegment> {
    if matches!(kind, IPV4 | IPV6) { Ok(rest) } else { Err(NoSegment::OtherTraffic) }
}

fn of_ip(ip: &[u8], cut: u64, at: Micros) -> Result<Segment<'_>, NoSegment> {
    let packet = LaxSlicedPacket::from_ip(ip).map_err(|_| NoSegment::Broken)?;
    let (from, to, told_len, fragment): (IpAddr, IpAddr, usize, bool) = match &packet.net {
        Some(LaxNetSlice::Ipv4(net)) => {
            let header = net.header();
            let told = usize::from(header.total_len());
            (header.source_addr().into(), header.destination_addr().into(), told, net.is_payload_fragmented())
        }
        Some(LaxNetSlice::Ipv6(net)) => {
            let header = net.header();
            let payload = usize::from(header.payload_length());
            let told = if payload == 0 { 0 } else { payload + 40 };
            (header.source_addr().into(), header.destination_addr().into(), told, net.is_payload_fragmented())
        }
        _ => return Err(NoSegment::OtherTraffic),
    };
    if fragment {
        return Err(NoSegment::Fragment);
    }
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else {
        return Err(if packet.stop_err.is_some() { NoSegment::Broken } else { NoSegment::OtherTraffic });
    };
    // Padding of a short Ethernet frame is cut as well: only what IP says was there can be missing. A length of 0 is
    // what offloading leaves in a capture; then the capture's own count must do.
    let missing = if told_len == 0 { cut } else { cut.min(told_len.saturating_sub(ip.len()) as u64) };
    Ok(Segment {
        at,
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload: tcp.payload(),
        cut: missing,
    })
}
