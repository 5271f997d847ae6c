//! One row as SQLite lays it down: what kind each value is, then the values.
//!
//! Comes in: the values of a row, in the order of its columns. Goes out: its bytes. Columns at the end that hold nothing
//! are left out: SQLite reads what is not there as NULL.

/// The longest a number of variable length gets.
pub(super) const LONGEST_VARINT: usize = 9;

/// Kind and width of an integer that needs so many bytes.
const WIDTHS: [(u8, usize); 9] = [(1, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (5, 6), (6, 8), (6, 8)];

#[derive(Default)]
pub(super) struct Record {
    /// Room for the length of the kinds, then the kinds.
    kinds: Vec<u8>,
    /// Where the last kind ends that is not NULL.
    used: usize,
    values: Vec<u8>,
}

impl Record {
    pub fn begin(&mut self) {
        self.kinds.clear();
        self.kinds.push(0);
        self.used = 1;
        self.values.clear();
    }

    #[inline(always)]
    pub fn null(&mut self) {
        self.kinds.push(0);
    }

    #[inline(always)]
    pub fn integer(&mut self, number: i64) {
        if let 0 | 1 = number {
            return self.kind(8 + number as u64);
        }
        let bits = 65 - (number ^ (number >> 63)).leading_zeros() as usize;
        let (kind, width) = WIDTHS[bits.div_ceil(8)];
        self.kind(u64::from(kind));
        // Eight bytes are copied faster than some; what is too much is taken back.
        let end = self.values.len() + width;
        self.values.extend_from_slice(&(number << (64 - 8 * width)).to_be_bytes());
        self.values.truncate(end);
    }

    #[inline(always)]
    pub fn text(&mut self, text: &[u8]) {
        self.kind(13 + 2 * text.len() as u64);
        self.values.extend_from_slice(text);
    }

    /// The last value: bytes that lie elsewhere, behind what [`Record::parts`] gives.
    pub fn blob_behind(&mut self, len: usize) {
        self.kind(12 + 2 * len as u64);
    }

    #[inline(always)]
    fn kind(&mut self, kind: u64) {
        match kind {
            0..128 => self.kinds.push(kind as u8),
            _ => {
                let mut bytes = [0; LONGEST_VARINT];
                let len = varint(kind, &mut bytes);
                self.kinds.extend_from_slice(&bytes[..len]);
            }
        }
        self.used = self.kinds.len();
    }

    /// What the row consists of.
    pub fn parts(&mut self) -> [&[u8]; 2] {
        self.kinds.truncate(self.used);
        // The length counts itself. Two bytes do for 16,383: more columns than there are.
        match self.kinds.len() {
            len @ 0..128 => self.kinds[0] = len as u8,
            len => {
                let mut bytes = [0; LONGEST_VARINT];
                varint(len as u64 + 1, &mut bytes);
                self.kinds[0] = bytes[1];
                self.kinds.insert(0, bytes[0]);
            }
        }
        [&self.kinds, &self.values]
    }
}

/// Seven bits a byte, the highest first, each but the last with its top bit set; a ninth byte holds eight.
#[inline]
pub(super) fn varint(number: u64, into: &mut [u8; LONGEST_VARINT]) -> usize {
    if number >= 1 << 56 {
        for (at, byte) in into[..8].iter_mut().enumerate() {
            *byte = (number >> (57 - 7 * at)) as u8 | 0x80;
        }
        into[8] = number as u8;
        return 9;
    }
    let len = (64 - (number | 1).leading_zeros() as usize).div_ceil(7);
    for (at, byte) in into[..len].iter_mut().enumerate() {
        *byte = (number >> (7 * (len - 1 - at))) as u8 | 0x80;
    }
    into[len - 1] &= 0x7f;
    len
}
