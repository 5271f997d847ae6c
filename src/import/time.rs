//! Times as logs write them → microseconds since the epoch.
//!
//! Seconds with a fraction, milliseconds, microseconds or nanoseconds as numbers (told apart by their size), and
//! RFC 3339 texts. A clock without a date or a zone gives what it can; the importer says so in its notes.

use crate::event::Micros;

pub const SECOND: Micros = 1_000_000;
pub const DAY: Micros = 86_400 * SECOND;

/// A JSON number: seconds, milliseconds, microseconds or nanoseconds since the epoch, by its size. Digits are read
/// exactly, as a float of seconds would lose the last microsecond.
pub fn from_number(text: &[u8]) -> Option<Micros> {
    if let Some(micros) = seconds_and_micros(text) {
        return Some(micros);
    }
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let mut whole: i64 = 0;
    let mut at = 0;
    while at < digits.len() && digits[at].is_ascii_digit() {
        whole = whole.checked_mul(10)?.checked_add(i64::from(digits[at] - b'0'))?;
        at += 1;
    }
    if at == 0 {
        return None;
    }
    let mut nanos: i64 = 0;
    if at < digits.len() && digits[at] == b'.' {
        at += 1;
        let mut scale = 100_000_000;
        while at < digits.len() && digits[at].is_ascii_digit() {
            nanos += i64::from(digits[at] - b'0') * scale;
            scale /= 10;
            at += 1;
        }
    }
    if at != digits.len() {
        let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        return (number.is_finite() && number.abs() < 9.0e12).then(|| (number * 1e6).round() as Micros);
    }
    // Seconds reach 10^11 in the year 5138, milliseconds reached it in 1973: the ranges do not meet.
    let micros = match whole {
        0..=99_999_999_999 => whole * SECOND + (nanos + 500) / 1_000,
        100_000_000_000..=99_999_999_999_999 => whole * 1_000 + (nanos + 500_000) / 1_000_000,
        100_000_000_000_000..=99_999_999_999_999_999 => whole,
        _ => whole / 1_000,
    };
    Some(if negative { -micros } else { micros })
}

/// What nearly all logs of today write: ten digits, a point, and six more.
#[inline]
fn seconds_and_micros(text: &[u8]) -> Option<Micros> {
    let text: &[u8; 17] = text.try_into().ok()?;
    let [high @ .., a, b, b'.', c, d, e, f, g, h] = *text else { return None };
    Some(eight_digits(high)? * 100_000_000 + eight_digits([a, b, c, d, e, f, g, h])?)
}

/// Read two, then four, then all at a time.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<i64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let text = u64::from_le_bytes(text);
    // A byte is a digit where it begins with 3, and still does with 6 more.
    if text & HIGH != ZEROS || text.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let ones = text ^ ZEROS;
    let twos = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    Some(((fours * 10_000 + (fours >> 32)) & 0xffff_ffff) as i64)
}

/// `2026-11-18T00:47:52.716169+00:00`, with `T` or a space, any number of decimals, `Z`, an offset or nothing
/// (taken as UTC).
pub fn from_text(text: &str) -> Option<Micros> {
    let bytes = text.trim().as_bytes();
    let number = |from: usize, len: usize| -> Option<i64> {
        let digits = bytes.get(from..from + len)?;
        digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') || !matches!(bytes.get(10), Some(b'T' | b't' | b' '))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (time, rest) = clock(&bytes[11..])?;
    let zone = zone_of(rest)?;
    Some(days_since_epoch(year, month, day)? * DAY + time - zone)
}

/// `12:45:43`, `12:45:43.123`, `12:45:43,123`: microseconds since midnight, and what stands behind.
pub fn clock(bytes: &[u8]) -> Option<(Micros, &[u8])> {
    let mut at = 0;
    let mut parts = [0i64; 3];
    for (index, part) in parts.iter_mut().enumerate() {
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() && at - start < 2 {
            *part = *part * 10 + i64::from(bytes[at] - b'0');
            at += 1;
        }
        if at == start {
            return None;
        }
        if index < 2 {
            if bytes.get(at) != Some(&b':') {
                return None;
            }
            at += 1;
        }
    }
    if parts[0] > 24 || parts[1] > 59 || parts[2] > 60 {
        return None;
    }
    let mut fraction = 0;
    if matches!(bytes.get(at), Some(b'.' | b',')) && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at += 1;
        let mut scale = SECOND / 10;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            fraction += i64::from(bytes[at] - b'0') * scale;
            scale /= 10;
            at += 1;
        }
    }
    Some(((parts[0] * 3600 + parts[1] * 60 + parts[2]) * SECOND + fraction, &bytes[at..]))
}

fn zone_of(bytes: &[u8]) -> Option<Micros> {
    let (sign, digits) = match bytes {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let digits: Vec<i64> = digits.iter().filter(|byte| **byte != b':').map(|byte| i64::from(*byte) - 48).collect();
    if !matches!(digits.len(), 2 | 4) || digits.iter().any(|digit| !(0..=9).contains(digit)) {
        return None;
    }
    let minutes = if digits.len() == 4 { digits[2] * 10 + digits[3] } else { 0 };
    Some(sign * ((digits[0] * 10 + digits[1]) * 60 + minutes) * 60 * SECOND)
}

/// Days of the proleptic Gregorian calendar since 1970-01-01.
pub fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart_by_size() {
        assert_eq!(from_number(b"1794962996.28205"), Some(1_794_962_996_282_050));
        assert_eq!(from_number(b"1794962996.282059"), Some(1_794_962_996_282_059));
        assert_eq!(from_number(b"0123456789.012345"), Some(123_456_789_012_345));
        assert_eq!(from_number(b"9999999999.999999"), Some(9_999_999_999_999_999));
        assert_eq!(from_number(b"1794962743669"), Some(1_794_962_743_669_000));
        assert_eq!(from_number(b"1794962743669123"), Some(1_794_962_743_669_123));
        assert_eq!(from_number(b"1794962743669123456"), Some(1_794_962_743_669_123));
        assert_eq!(from_number(b"1.5e3"), Some(1_500_000_000));
        assert_eq!(from_number(b"0"), Some(0));
        assert_eq!(from_number(b"-1.5"), Some(-1_500_000));
        for bad in [
            &b""[..],
            b"x",
            b"179496299:.282059",
            b"1794962996.28205/",
            b"1794962996x282059",
            b"1e999",
            b"99999999999999999999",
            b"1.2.3",
            b"-",
        ] {
            assert_eq!(from_number(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn dates_with_and_without_zone() {
        let base = 1_794_962_872_716_169;
        assert_eq!(from_text("2026-11-18T00:47:52.716169+00:00"), Some(base));
        assert_eq!(from_text("2026-11-18T00:47:52.716169Z"), Some(base));
        assert_eq!(from_text("2026-11-18 02:17:52,716169+01:30"), Some(base));
        assert_eq!(from_text("2026-11-17T16:47:52.716169-0800"), Some(base));
        assert_eq!(from_text("1970-01-01T00:00:00"), Some(0));
        for bad in ["", "2026-13-01T00:00:00", "2026-11-18", "2026-11-18T99:00:00Z", "2026-11-18T00:00:00 somewhere"] {
            assert_eq!(from_text(bad), None, "{bad}");
        }
    }
}
