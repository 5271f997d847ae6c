//! Raw JSON strings: escapes undone, and names shared.

use super::Name;

/// Undoes the escapes of the raw text between the quotes of a JSON string. Half a surrogate pair and bytes that
/// are not UTF-8 become U+FFFD.
pub fn unescape(raw: &[u8]) -> String {
    let mut text = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let Some(escape) = raw.get(at) else { break };
        at += 1;
        let plain = match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut point = unit(raw, at).unwrap_or(0xfffd);
                at += 4;
                if (0xd800..0xdc00).contains(&point)
                    && raw.get(at..at + 2) == Some(b"\\u")
                    && let Some(low @ 0xdc00..0xe000) = unit(raw, at + 2)
                {
                    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
                    at += 6;
                }
                let letter = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            other => *other,
        };
        text.push(plain);
    }
    match String::from_utf8(text) {
        Ok(text) => text,
        Err(broken) => String::from_utf8_lossy(broken.as_bytes()).into_owned(),
    }
}

fn unit(raw: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(raw.get(at..at + 4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// A programme uses some dozens of methods; more only cost an allocation each.
const KEPT_NAMES: usize = 128;

/// The names that were met lately, so that messages share them. Bounded: a newcomer takes another's place.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    kept: Vec<Option<Name>>,
}

impl Names {
    /// The name with these bytes; where they are not UTF-8 they are replaced.
    pub fn share(&mut self, bytes: &[u8]) -> Name {
        if self.kept.is_empty() {
            self.kept.resize(KEPT_NAMES, None);
        }
        let mut mixed = bytes.len();
        for at in
            [0, bytes.len() / 2, bytes.len() * 3 / 4, bytes.len().saturating_sub(2), bytes.len().saturating_sub(1)]
        {
            mixed = mixed.wrapping_mul(31) ^ bytes.get(at).map_or(0, |byte| *byte as usize);
        }
        let place = &mut self.kept[mixed % KEPT_NAMES];
        match place {
            Some(name) if name.as_bytes() == bytes => name.clone(),
            _ => place.insert(String::from_utf8_lossy(bytes).into()).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(br"a\n\t\\\/\u0069d"), "a\n\t\\/id");
        assert_eq!(unescape(br"\ud83d\ude00!"), "\u{1f600}!");
        assert_eq!(unescape(br"\ud83dx\udc00"), "\u{fffd}x\u{fffd}");
        assert_eq!(unescape(b"\xffz"), "\u{fffd}z");
    }

    #[test]
    fn names_are_shared() {
        let mut names = Names::default();
        let first = names.share(b"tools/call");
        assert!(std::sync::Arc::ptr_eq(&first, &names.share(b"tools/call")));
        for number in 0..1000 {
            assert_eq!(&*names.share(format!("m{number}").as_bytes()), format!("m{number}"));
        }
        assert_eq!(names.kept.len(), KEPT_NAMES);
    }
}
