//! Makes text from the wire safe to show.
//!
//! Comes in: anything a peer may have sent. Goes out: text in which nothing is obeyed by a terminal and nothing
//! hides: escape sequences, control and format characters, bidi overrides and bytes that are no UTF-8 (overlong
//! forms too) are shown as `\x1b`, `\u{202e}`, `\xff`; line breaks as `\n`. Text that is already safe is given
//! back as it is. Widths are those of a terminal: wide characters count two, combining ones none. The same
//! cleaning serves pictures and pages: what comes out holds no character that XML forbids.

use std::borrow::Cow;
use std::fmt::Write;

/// Combining marks that may follow one character. Real scripts need two or three; towers of them paint over
/// neighbouring lines.
const MARKS_IN_A_ROW: usize = 4;

/// One line, safe to print. Line breaks and tabs are shown, not obeyed.
pub fn safe(text: &str) -> Cow<'_, str> {
    if is_safe(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    push_safe(&mut out, text, false);
    Cow::Owned(out)
}

/// Like [`safe`], for bytes of which nobody has yet said that they are text.
pub fn safe_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        push_safe(&mut out, chunk.valid(), false);
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Like [`safe`], but line feeds and tabs stay what they are: for blocks of text. A CRLF becomes a line feed.
pub fn safe_block(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        push_safe(&mut out, line.strip_suffix('\r').unwrap_or(line), true);
    }
    out
}

/// [`safe`], and at most `columns` wide; what is cut off is told by `…`.
pub fn clip(text: &str, columns: usize) -> String {
    // An escaped character takes more columns than it had bytes to begin with, never fewer than one; so this
    // much input is always enough, and a name of a gigabyte costs no more than a short one.
    let enough =
        text.char_indices().nth(columns.saturating_mul(1 + MARKS_IN_A_ROW) + 1).map_or(text.len(), |(at, _)| at);
    let clean = safe(&text[..enough]);
    if enough == text.len() && width(&clean) <= columns {
        return clean.into_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in clean.chars() {
        let wide = char_width(c);
        if used + wide > columns.saturating_sub(1) {
            break;
        }
        used += wide;
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// [`clip`], filled up with spaces to exactly `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let mut out = clip(text, columns);
    for _ in width(&out)..columns {
        out.push(' ');
    }
    out
}

/// How many columns of a terminal a (safe) text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn is_safe(text: &str) -> bool {
    // Most names are plain ASCII; only others are looked at closely.
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return true;
    }
    let mut marks = 0;
    text.chars().all(|c| {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        !must_show(c) && marks <= MARKS_IN_A_ROW
    })
}

fn push_safe(out: &mut String, text: &str, keep_tabs: bool) {
    let mut marks = 0;
    for c in text.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            '\t' if keep_tabs => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            _ if must_show(c) || marks > MARKS_IN_A_ROW => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            _ => out.push(c),
        }
    }
}

/// Characters that act on the text around them instead of being seen, and those that are none.
pub fn must_show(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'      // C0, DEL, C1
        | '\u{ad}' | '\u{34f}' | '\u{61c}'     // soft hyphen, grapheme joiner, Arabic letter mark
        | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers: letters that show nothing
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'              // zero width, left-to-right and right-to-left marks
        | '\u{2028}'..='\u{202e}'              // line and paragraph separators, bidi embeddings and overrides
        | '\u{2060}'..='\u{206f}'              // invisible operators, bidi isolates
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' // variation selectors, byte order mark
        | '\u{fdd0}'..='\u{fdef}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')           // tags: a whole hidden alphabet
        || (c as u32) & 0xfffe == 0xfffe
}

fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}'
        | '\u{5c4}'..='\u{5c5}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}'
        | '\u{6df}'..='\u{6e4}' | '\u{6e7}'..='\u{6e8}' | '\u{6ea}'..='\u{6ed}' | '\u{900}'..='\u{902}' | '\u{93c}'
        | '\u{941}'..='\u{948}' | '\u{94d}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}'
        | '\u{eb1}' | '\u{eb4}'..='\u{ebc}' | '\u{ec8}'..='\u{ece}' | '\u{f71}'..='\u{f7e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}'..='\u{309a}'
        | '\u{fe20}'..='\u{fe2f}')
}

fn char_width(c: char) -> usize {
    if is_mark(c) {
        return 0;
    }
    let wide = matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{231a}'..='\u{231b}' | '\u{23e9}'..='\u{23ec}' | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{33ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a000}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{16fe0}'..='\u{18dff}' | '\u{1aff0}'..='\u{1b2ff}'
        | '\u{1f004}' | '\u{1f0cf}' | '\u{1f18e}' | '\u{1f191}'..='\u{1f19a}' | '\u{1f200}'..='\u{1f265}'
        | '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6ff}' | '\u{1f7e0}'..='\u{1f7eb}'
        | '\u{1f90c}'..='\u{1f9ff}' | '\u{1fa70}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    if wide { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(safe("\x1b]0;owned\x07\x1b[2J"), "\\x1b]0;owned\\x07\\x1b[2J");
        assert_eq!(safe("a\nb\r\tc\x08\x7f"), "a\\nb\\r\\tc\\x08\\x7f");
        assert_eq!(safe("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(safe("user\u{202e}gpj.exe"), "user\\u{202e}gpj.exe");
        assert_eq!(
            safe("a\u{200b}b\u{feff}c\u{2028}d\u{2066}e\u{e0041}"),
            "a\\u{200b}b\\u{feff}c\\u{2028}d\\u{2066}e\\u{e0041}"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_one_by_one() {
        assert_eq!(safe_bytes(b"ok\xff\xfe"), "ok\\xff\\xfe");
        assert_eq!(safe_bytes(b"\xc0\xaf"), "\\xc0\\xaf", "an overlong slash is not a slash");
        assert_eq!(safe_bytes(b"\xed\xa0\x80"), "\\xed\\xa0\\x80", "half a surrogate pair");
        assert_eq!(safe_bytes("né\x1b".as_bytes()), "né\\x1b");
    }

    #[test]
    fn good_text_stays_itself_and_is_not_copied() {
        for text in ["tools/call", "größe", "検索", "поиск", "🔍 go", "e\u{301}"] {
            assert!(matches!(safe(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn towers_of_marks_do_not_grow() {
        let tower = format!("a{}", "\u{301}".repeat(50));
        let shown = safe(&tower);
        assert_eq!(shown.matches('\u{301}').count(), MARKS_IN_A_ROW);
    }

    #[test]
    fn clipping_counts_columns() {
        assert_eq!(clip("tools/call", 10), "tools/call");
        assert_eq!(clip("tools/call", 9), "tools/ca…");
        assert_eq!(clip("検索検索", 5), "検索…");
        assert_eq!(width(&clip("検索検索", 4)), 3);
        assert_eq!(pad("検索", 6), "検索  ");
        assert_eq!(clip("\x1b[2J", 20), "\\x1b[2J");
        assert_eq!(clip("abc", 0), "");
        assert_eq!(clip(&"x".repeat(1 << 20), 4), "xxx…");
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn blocks_keep_their_lines() {
        assert_eq!(safe_block("a\r\n\tb\x1b\nc\rd"), "a\n\tb\\x1b\nc\\rd");
    }

    #[test]
    fn every_character_comes_out_printable() {
        for code in 0..=0x10_ffff_u32 {
            let Some(c) = char::from_u32(code) else { continue };
            let text = c.to_string();
            let shown = safe(&text);
            assert!(!shown.chars().any(|c| c.is_control() || must_show(c)), "{code:x}");
            assert_eq!(safe(&shown), shown, "{code:x} is safe after one pass");
        }
    }
}
