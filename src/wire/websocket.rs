//! WebSocket: the frames of one direction, read from a copy of its bytes.
//!
//! Comes in: what follows the upgrade, in any pieces. Goes out: [`Told`]: the payload of messages in parts,
//! unmasked, put together over fragments and inflated where permessage-deflate was agreed on; and what the
//! control frames said. Frames that break the rules are told and passed over by their length. Where the place in the
//! stream is lost, the next piece that looks like the beginning of a frame is taken for one; what lies before is told.
//! Nothing longer than a control frame is held.

use flate2::{Decompress, FlushDecompress, Status};

/// What one message may become when inflated; the rest of it is passed over. Keeps a small message from costing
/// hours.
pub const LONGEST_INFLATED_BYTES: u64 = 1 << 30;

const LONGEST_CONTROL_BYTES: usize = 125;
const PART_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<'a> {
    /// A further part of the current message.
    Data(&'a [u8]),
    /// The current message is whole. `readable` is false when it was compressed and could not be inflated: then
    /// the parts are what came, as it came.
    Message {
        kind: Kind,
        len: u64,
        readable: bool,
    },
    Ping,
    Pong,
    Close {
        code: Option<u16>,
        reason: &'a [u8],
    },
    Fault(Fault),
    /// So many bytes were passed over because the place in the stream is lost.
    PassedOver(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Reserved bits or an opcode that means nothing.
    Reserved,
    /// A control frame that is long or in fragments.
    BadControl,
    /// A continuation of nothing, or a new message before the last was whole.
    OutOfOrder,
    /// A length of more than 63 bits: the place in the stream is lost.
    BadLength,
    /// The message would not inflate, or became too long.
    NotInflated,
    /// The stream ended within a message or a frame.
    CutShort,
    /// Bytes are missing from the capture.
    Gap,
}

impl Fault {
    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Fault::Reserved => "a WebSocket frame uses what is reserved",
            Fault::BadControl => "a control frame of the WebSocket is long or in fragments",
            Fault::OutOfOrder => "the fragments of a WebSocket message are out of order",
            Fault::BadLength => "the length of a WebSocket frame is no length: the rest cannot be read",
            Fault::NotInflated => "a WebSocket message could not be inflated",
            Fault::CutShort => "the connection ended within a WebSocket message",
            Fault::Gap => "bytes of the WebSocket are missing from the capture",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Data,
    Control(u8),
    PassOver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Payload {
        left: u64,
        used: Use,
    },
    /// Behind a gap: a piece that looks like the beginning of a frame is looked for.
    Gap,
    /// The place in the stream is lost for good.
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    kind: Kind,
    compressed: bool,
    told: u64,
    readable: bool,
}

pub struct WebSocket {
    state: State,
    head: Vec<u8>,
    mask: Option<[u8; 4]>,
    mask_at: usize,
    last_of_message: bool,
    control: Vec<u8>,
    current: Option<Current>,
    inflater: Option<Decompress>,
    /// The inflater has lost its history: what is compressed cannot be read any more.
    inflater_lost: bool,
    /// The history was lost in a gap: what is packed says nothing, and is not given as if it had come like that.
    gapped: bool,
    /// Whether this side masks what it sends, once a frame has shown it.
    masks: Option<bool>,
}

impl WebSocket {
    /// `deflate`: whether permessage-deflate was agreed on in the upgrade.
    pub fn new(deflate: bool) -> WebSocket {
        WebSocket {
            state: State::Head,
            head: Vec::with_capacity(14),
            mask: None,
            mask_at: 0,
            last_of_message: false,
            control: Vec::new(),
            current: None,
            inflater: deflate.then(|| Decompress::new(false)),
            inflater_lost: false,
            gapped: false,
            masks: None,
        }
    }

    /// Reads the `Sec-WebSocket-Extensions` of the response.
    pub fn agreed(extensions: Option<&str>) -> WebSocket {
        let names = extensions.unwrap_or("").split(',').map(|one| one.split(';').next().unwrap_or("").trim());
        WebSocket::new(names.into_iter().any(|name| name.eq_ignore_ascii_case("permessage-deflate")))
    }

    pub fn feed(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        let mut at = 0;
        if self.state == State::Gap && self.looks_like_frame(bytes) {
            self.state = State::Head;
        }
        while at < bytes.len() {
            match self.state {
                State::Head => {
                    self.head.push(bytes[at]);
                    at += 1;
                    if self.head.len() == head_length(&self.head) {
                        self.begin_frame(tell);
                    }
                }
                State::Payload { left, used } => {
                    let room = usize::try_from(left).unwrap_or(usize::MAX);
                    let part = &bytes[at..at + room.min(bytes.len() - at).min(PART_BYTES)];
                    at += part.len();
                    self.take_payload(part, used, tell);
                    let left = left - part.len() as u64;
                    self.state = State::Payload { left, used };
                    if left == 0 {
                        self.end_frame(used, tell);
                    }
                }
                State::Gap => return tell(Told::PassedOver((bytes.len() - at) as u64)),
                State::Lost => return,
            }
        }
    }

    /// Programs write whole frames, so one may well begin with a piece. It is believed when it holds JSON that can be
    /// read, or ends where the piece does.
    fn looks_like_frame(&self, bytes: &[u8]) -> bool {
        let [first, second, ..] = *bytes else { return false };
        let (head, opcode, masked) = (head_length(bytes), first & 0x0f, second & 0x80 != 0);
        let packed = first & 0x70 == 0x40 && self.inflater.is_some() && matches!(opcode, 1 | 2);
        if bytes.len() < head || self.masks.is_some_and(|masks| masks != masked) || (first & 0x70 != 0 && !packed) {
            return false;
        }
        let mask = if masked { bytes[head - 4] } else { 0 };
        let json = bytes.get(head).is_some_and(|byte| matches!(byte ^ mask, b'{' | b'['));
        let mut rest = &bytes[2..];
        let length = match second & 0x7f {
            126 => take_number(&mut rest, 2),
            127 => take_number(&mut rest, 8),
            short => u64::from(short),
        };
        let ends = (head as u64).saturating_add(length) == bytes.len() as u64;
        match opcode {
            1 | 2 => ends || (json && !packed),
            8..=10 => first & 0x80 != 0 && ends && length <= LONGEST_CONTROL_BYTES as u64,
            _ => false,
        }
    }

    fn begin_frame(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        let (first, second) = (self.head[0], self.head[1]);
        let masked = second & 0x80 != 0;
        let mut rest = &self.head[2..];
        let left = match second & 0x7f {
            126 => take_number(&mut rest, 2),
            127 => take_number(&mut rest, 8),
            short => u64::from(short),
        };
        self.mask = masked.then(|| [rest[0], rest[1], rest[2], rest[3]]);
        self.masks = Some(masked);
        self.mask_at = 0;
        self.head.clear();
        if left > i64::MAX as u64 {
            tell(Told::Fault(Fault::BadLength));
            self.state = State::Lost;
            return;
        }
        let (whole, opcode) = (first & 0x80 != 0, first & 0x0f);
        let used = self.judge(first & 0x70, whole, opcode, left, tell);
        self.last_of_message = used == Use::Data && whole;
        self.state = State::Payload { left, used };
        if left == 0 {
            self.end_frame(used, tell);
        }
    }

    fn judge(
        &mut self,
        reserved: u8,
        whole: bool,
        opcode: u8,
        length: u64,
        tell: &mut (impl FnMut(Told<'_>) + ?Sized),
    ) -> Use {
        let compressed = reserved == 0x40 && self.inflater.is_some() && matches!(opcode, 1 | 2);
        let fault = match opcode {
            _ if reserved != 0 && !compressed => Fault::Reserved,
            8..=10 if whole && length <= LONGEST_CONTROL_BYTES as u64 => {
                self.control.clear();
                return Use::Control(opcode);
            }
            8..=10 => Fault::BadControl,
            0 if self.current.is_some() => return Use::Data,
            0 => Fault::OutOfOrder,
            1 | 2 => {
                if self.current.is_some() {
                    self.end_message(false, tell);
                    tell(Told::Fault(Fault::OutOfOrder));
                }
                let kind = if opcode == 1 { Kind::Text } else { Kind::Binary };
                let readable = !(compressed && self.inflater_lost);
                self.current = Some(Current { kind, compressed, told: 0, readable });
                return Use::Data;
            }
            _ => Fault::Reserved,
        };
        tell(Told::Fault(fault));
        Use::PassOver
    }

    fn take_payload(&mut self, part: &[u8], used: Use, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        let mut plain = [0; PART_BYTES];
        let plain = &mut plain[..part.len()];
        plain.copy_from_slice(part);
        if let Some(mask) = self.mask {
            for byte in plain.iter_mut() {
                *byte ^= mask[self.mask_at % 4];
                self.mask_at += 1;
            }
            self.mask_at %= 4;
        }
        match used {
            Use::Control(_) => self.control.extend_from_slice(plain),
            Use::PassOver => {}
            Use::Data => match &mut self.current {
                Some(current) if current.compressed && current.readable => self.inflate(plain, tell),
                Some(current) if current.compressed && self.gapped => {}
                Some(current) => {
                    current.told += plain.len() as u64;
                    tell(Told::Data(plain));
                }
                None => {}
            },
        }
    }

    fn inflate(&mut self, mut input: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        let (Some(inflater), Some(current)) = (&mut self.inflater, &mut self.current) else { return };
        let mut output = [0; PART_BYTES];
        loop {
            let (before_in, before_out) = (inflater.total_in(), inflater.total_out());
            let status = inflater.decompress(input, &mut output, FlushDecompress::Sync);
            let taken = (inflater.total_in() - before_in) as usize;
            let made = (inflater.total_out() - before_out) as usize;
            input = &input[taken..];
            if made > 0 {
                current.told += made as u64;
                tell(Told::Data(&output[..made]));
            }
            let broken = match status {
                Ok(Status::StreamEnd) => {
                    // A final block: the peer begins anew with the next one.
                    inflater.reset(false);
                    false
                }
                Ok(_) => false,
                Err(_) => true,
            };
            if broken || current.told > LONGEST_INFLATED_BYTES {
                tell(Told::Fault(Fault::NotInflated));
                current.readable = false;
                self.inflater_lost = true;
                return;
            }
            // Without progress the inflater waits for more; it is done only when it left room in the output.
            if (taken == 0 && made == 0) || (input.is_empty() && made < output.len()) {
                return;
            }
        }
    }

    fn end_frame(&mut self, used: Use, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        self.state = State::Head;
        match used {
            Use::Control(9) => tell(Told::Ping),
            Use::Control(10) => tell(Told::Pong),
            Use::Control(_) => {
                let code = self.control.first_chunk::<2>().map(|code| u16::from_be_bytes(*code));
                tell(Told::Close { code, reason: self.control.get(2..).unwrap_or(&[]) });
            }
            Use::Data if self.last_of_message => {
                if self.current.is_some_and(|current| current.compressed && current.readable) {
                    // The sender leaves these out of every message.
                    self.inflate(&[0x00, 0x00, 0xff, 0xff], tell);
                }
                self.end_message(true, tell);
            }
            Use::Data | Use::PassOver => {}
        }
    }

    fn end_message(&mut self, whole: bool, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        if let Some(current) = self.current.take() {
            // What was compressed and broken off cannot be inflated past its end: the history has a hole.
            self.inflater_lost |= current.compressed && !whole;
            tell(Told::Message { kind: current.kind, len: current.told, readable: current.readable && whole });
        }
    }

    /// `missing` bytes were not captured. Within a payload the place is known; elsewhere it is lost.
    pub fn gap(&mut self, missing: u64, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::Fault(Fault::Gap));
        // What was packed in the missing bytes is missing from the history of all that follows.
        self.inflater_lost |= self.inflater.is_some();
        self.gapped = true;
        if let Some(current) = &mut self.current {
            current.readable = false;
        }
        match self.state {
            State::Payload { left, used } if missing <= left => {
                self.mask_at = (self.mask_at + (missing % 4) as usize) % 4;
                self.state = State::Payload { left: left - missing, used };
                if left == missing {
                    self.end_frame(used, tell);
                }
            }
            State::Lost => {}
            _ => {
                self.end_message(false, tell);
                self.head.clear();
                self.state = State::Gap;
            }
        }
    }

    /// The connection is over.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        let within = !self.head.is_empty() || matches!(self.state, State::Payload { .. }) || self.current.is_some();
        if within {
            self.end_message(false, tell);
            tell(Told::Fault(Fault::CutShort));
        }
        self.head.clear();
        self.state = State::Lost;
    }
}

fn take_number(bytes: &mut &[u8], count: usize) -> u64 {
    let (number, rest) = bytes.split_at(count);
    *bytes = rest;
    number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// How long the head is, as far as its first bytes tell.
fn head_length(head: &[u8]) -> usize {
    let Some(second) = head.get(1) else { return usize::MAX };
    let length = match second & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    length + if second & 0x80 != 0 { 4 } else { 0 }
}

#[cfg(test)]
#[path = "websocket_tests.rs"]
mod tests;
