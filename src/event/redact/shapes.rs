//! Finds secrets in running text by their shape: known kinds of tokens, `key=value` pairs, home folders, names.
//!
//! Comes in: decoded text of any kind: a JSON string, a stderr line, a command line, a URL. Goes out: the ranges
//! to replace. One pass, no backtracking beyond a word; it refuses to know where the text came from.

use std::ops::Range;

use super::keys::{self, Class};
use super::tokens::{SHAPES, dotted, word};

/// What a range holds; a placeholder for a user's name should still look like a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Secret,
    UserName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub range: Range<usize>,
    pub kind: Kind,
}

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const SLACK_HOOK: &[u8] = b"hooks.slack.com/services/";

/// A Bearer or Basic credential shorter than this is a word of prose.
const SHORTEST_CREDENTIAL_BYTES: usize = 8;

/// Names of accounts that name nobody, and words that stand in every message.
const NOBODY: &[&str] = &[
    "root",
    "user",
    "users",
    "admin",
    "runner",
    "ubuntu",
    "debian",
    "node",
    "app",
    "home",
    "shared",
    "public",
    "default",
    "guest",
    "nobody",
    "www",
    "data",
    "test",
    "name",
    "text",
    "type",
    "content",
    "method",
    "params",
    "result",
    "error",
    "tools",
    "linuxbrew",
    "vscode",
    "codespace",
    "runneradmin",
    "administrator",
    "username",
    "you",
    "me",
];

/// More names than this are not learned from one recording; the rest are still taken out of home folders.
const MOST_NAMES: usize = 32;

pub fn is_nobody(name: &[u8]) -> bool {
    name.len() < 3 || NOBODY.iter().any(|nobody| name.eq_ignore_ascii_case(nobody.as_bytes()))
}

/// Finds what must go. Hits come in order and do not overlap. Names seen in home folders join `names`.
pub fn find(text: &[u8], names: &mut Vec<Box<[u8]>>, with_keys: bool, hits: &mut Vec<Hit>) {
    let first = hits.len();
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if !(word(byte) || byte >= 0x80) {
            if byte == b':'
                && let Some(range) = url_password(text, at)
            {
                at = range.end;
                hits.push(Hit { range, kind: Kind::Secret });
                continue;
            }
            at += 1;
            continue;
        }
        if byte == b'-'
            && text[at..].starts_with(PEM_BEGIN)
            && let Some(range) = pem(text, at)
        {
            at = range.end;
            hits.push(Hit { range, kind: Kind::Secret });
            continue;
        }
        let end = at + text[at..].iter().position(|&b| !(word(b) || b >= 0x80)).unwrap_or(text.len() - at);
        at = in_word(text, at..end, names, with_keys, hits);
    }
    let names_hits = hits.split_off(first);
    hits.extend(merged(names_hits));
}

fn merged(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.range.start, std::cmp::Reverse(hit.range.end)));
    let mut end = 0;
    hits.retain(|hit| {
        let keep = hit.range.start >= end && !hit.range.is_empty();
        if keep {
            end = hit.range.end;
        }
        keep
    });
    hits
}

/// Looks at one run of word characters; gives where to go on.
fn in_word(text: &[u8], run: Range<usize>, names: &mut Vec<Box<[u8]>>, with_keys: bool, hits: &mut Vec<Hit>) -> usize {
    // A percent-encoded character before a token belongs to neither.
    let mut start = run.start;
    if start > 0 && text[start - 1] == b'%' && run.len() > 2 && text[start..start + 2].iter().all(u8::is_ascii_hexdigit)
    {
        start += 2;
    }
    for at in start..run.end {
        let at_edge = at == start || !text[at - 1].is_ascii_alphanumeric();
        if at_edge && let Some(range) = token(text, at) {
            let end = range.end;
            hits.push(Hit { range, kind: Kind::Secret });
            return end.max(run.end);
        }
    }
    if let Some(range) = home(text, &run, names) {
        let end = range.end;
        hits.push(Hit { range, kind: Kind::UserName });
        return end;
    }
    if let Some(range) = credential(text, &run) {
        let end = range.end;
        hits.push(Hit { range, kind: Kind::Secret });
        return end;
    }
    if with_keys && let Some((range, go_on)) = pair(text, &run) {
        if range.is_empty() {
            return go_on;
        }
        hits.push(Hit { range, kind: Kind::Secret });
        return go_on;
    }
    if text[run.clone()].starts_with(b"hooks")
        && let Some(rest) = text[run.start..].strip_prefix(SLACK_HOOK)
    {
        let from = run.start + SLACK_HOOK.len();
        let len = rest.iter().position(|&b| !(word(b) || b == b'/')).unwrap_or(rest.len());
        if len > 8 {
            hits.push(Hit { range: from..from + len, kind: Kind::Secret });
            return from + len;
        }
    }
    if !names.is_empty() {
        let mut from = run.start;
        for part in text[run.clone()].split(|b| *b == b'-' || *b == b'_') {
            if names.iter().any(|name| **name == *part) {
                hits.push(Hit { range: from..from + part.len(), kind: Kind::UserName });
            }
            from += part.len() + 1;
        }
        // Names with a hyphen or an underscore in them.
        if names.iter().any(|name| **name == text[run.clone()]) {
            hits.push(Hit { range: run.clone(), kind: Kind::UserName });
        }
    }
    run.end
}

fn token(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    if rest.starts_with(b"eyJ") {
        return jwt(text, at);
    }
    let first = *rest.first()?;
    for shape in SHAPES.iter().filter(|shape| shape.prefix.as_bytes()[0] == first) {
        if let Some(tail) = rest.strip_prefix(shape.prefix.as_bytes()) {
            let len = tail.iter().position(|&b| !(shape.alphabet)(b)).unwrap_or(tail.len());
            if len >= shape.at_least {
                return Some(at..at + shape.prefix.len() + len);
            }
        }
    }
    None
}

/// Three parts with dots between them, of which the first two are JSON objects in base64.
fn jwt(text: &[u8], at: usize) -> Option<Range<usize>> {
    let part = |from: usize| from + text[from..].iter().position(|&b| !word(b)).unwrap_or(text.len() - from);
    let first = part(at);
    if first - at < 8 || text.get(first) != Some(&b'.') {
        return None;
    }
    let second = part(first + 1);
    if second - first < 6 {
        return None;
    }
    let mut end = second;
    while text.get(end) == Some(&b'.') {
        let next = part(end + 1);
        if next == end + 1 {
            break;
        }
        end = next;
    }
    Some(at..end)
}

/// The whole block, or all that is left of the text when its end is missing.
fn pem(text: &[u8], at: usize) -> Option<Range<usize>> {
    let head_end = at + PEM_BEGIN.len() + memchr::memmem::find(&text[at + PEM_BEGIN.len()..], b"-----")?;
    if head_end - at > 80 || memchr::memmem::find(&text[at..head_end], b"PRIVATE").is_none() {
        return None;
    }
    let body = head_end + 5;
    match memchr::memmem::find(&text[body..], PEM_END) {
        Some(end) => Some(body..body + end),
        None => Some(body..text.len()),
    }
    .filter(|range| !range.is_empty())
}

/// `/home/NAME`, `/Users/NAME`, `\Users\NAME`: the name.
fn home(text: &[u8], run: &Range<usize>, names: &mut Vec<Box<[u8]>>) -> Option<Range<usize>> {
    let folder = &text[run.clone()];
    let separator = |byte: Option<&u8>| matches!(byte, Some(b'/' | b'\\'));
    let encoded = |from: usize| {
        text.get(from..from + 3).is_some_and(|c| c.eq_ignore_ascii_case(b"%5c") || c.eq_ignore_ascii_case(b"%2f"))
    };
    let is_home = folder == b"home" || folder.eq_ignore_ascii_case(b"users");
    // `%5CUsers%5Calice`: the run begins with the digits of the encoded backslash.
    let is_encoded_home =
        folder.len() > 2 && folder[2..].eq_ignore_ascii_case(b"users") && run.start > 0 && text[run.start - 1] == b'%';
    if !is_encoded_home && (!is_home || run.start == 0 || !separator(text.get(run.start - 1))) {
        return None;
    }
    let mut from = run.end;
    if encoded(from) {
        from += 3;
    } else {
        if !separator(text.get(from)) {
            return None;
        }
        while separator(text.get(from)) {
            from += 1;
        }
    }
    let len = text[from..].iter().position(|b| !(word(*b) || *b == b'.' || *b >= 0x80)).unwrap_or(text.len() - from);
    let name = &text[from..from + len];
    if is_nobody(name) {
        return None;
    }
    if names.len() < MOST_NAMES && !names.iter().any(|known| **known == *name) {
        names.push(name.into());
    }
    Some(from..from + len)
}

/// `Bearer …`, `Basic …`: what follows, when it does not look like prose.
fn credential(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let scheme = &text[run.clone()];
    if !scheme.eq_ignore_ascii_case(b"bearer") && !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let mut from = run.end;
    while text.get(from) == Some(&b' ') || text[from..].starts_with(b"%20") {
        from += if text[from] == b' ' { 1 } else { 3 };
    }
    if from == run.end {
        return None;
    }
    let len = text[from..].iter().position(|&b| !dotted(b)).unwrap_or(text.len() - from);
    let value = &text[from..from + len];
    let prose = value.iter().all(u8::is_ascii_alphabetic) && len < 20;
    (len >= SHORTEST_CREDENTIAL_BYTES && !prose).then_some(from..from + len)
}

/// `scheme://user:PASSWORD@host`, seen from the colon before `//`.
fn url_password(text: &[u8], colon: usize) -> Option<Range<usize>> {
    let rest = text[colon..].strip_prefix(b"://")?;
    let authority = rest
        .iter()
        .position(|b| matches!(b, b'/' | b'?' | b'#' | b' ' | b'"' | b'\'' | b'<' | b'>' | b'\n'))
        .unwrap_or(rest.len());
    let at = memchr::memrchr(b'@', &rest[..authority])?;
    let user_end = memchr::memchr(b':', &rest[..at])?;
    let from = colon + 3 + user_end + 1;
    (from < colon + 3 + at).then_some(from..colon + 3 + at)
}

/// `key=value`, `key: value`, `"key": "value"` (also escaped once more), `--key value`. Gives the value's range
/// (empty when nothing is to be hidden there) and where to go on.
fn pair(text: &[u8], run: &Range<usize>) -> Option<(Range<usize>, usize)> {
    let raw_key = &text[run.clone()];
    let dashes = raw_key.iter().take_while(|b| **b == b'-').count();
    let key = &raw_key[dashes..];
    let byte = |at: usize| text.get(at).copied().unwrap_or(b'\n');
    let skip = |mut at: usize, these: &[u8]| {
        while at < text.len() && these.contains(&text[at]) {
            at += 1;
        }
        at
    };
    let mut at = skip(run.end, b"\\");
    let key_quoted = matches!(byte(at), b'"' | b'\'' | b'`');
    at += usize::from(key_quoted);
    let spaces_from = at;
    at = skip(at, b" \t");
    let separator = byte(at);
    let mut flag = false;
    let by_colon = match separator {
        b'=' | b':' => {
            at += 1;
            if byte(at) == b'>' || (byte(at) == b'=' && separator == b':') {
                at += 1;
            }
            separator == b':'
        }
        _ if dashes > 0 && at > spaces_from => {
            flag = true;
            false
        }
        _ => return None,
    };
    let class = keys::class(key);
    if class == Class::Kept {
        return None;
    }
    if !class.is_secret() {
        return None;
    }
    at = skip(at, b" \t");
    let escapes = at;
    at = skip(at, b"\\");
    let quote = byte(at);
    let quoted = matches!(quote, b'"' | b'\'' | b'`');
    if quoted {
        at += 1;
    } else {
        at = escapes;
    }
    if flag && byte(at) == b'-' {
        return None;
    }
    let mut from = at;
    let scheme_end = after_scheme(&text[from..]);
    let ends = |b: u8| {
        if quoted {
            b == quote || (b == b'\\' && escapes + 1 < at) || b == b'\n'
        } else if class == Class::SecretLine {
            matches!(b, b'\n' | b'\r' | b'"' | b'\'')
        } else {
            b.is_ascii_whitespace()
                || matches!(b, b',' | b';' | b'&' | b'"' | b'\'' | b'`' | b'}' | b']' | b'<' | b'>' | b')' | b'\\')
        }
    };
    let len = text[from..].iter().position(|&b| ends(b)).unwrap_or(text.len() - from);
    let end = from + len;
    if scheme_end > 0 && scheme_end < len {
        from += scheme_end;
    } else if scheme_end > 0 && class != Class::SecretLine {
        // `token = Bearer abc`: the credential after the scheme is found when its word comes.
        return None;
    }
    let value = &text[from..end];
    if value.is_empty() || keys::is_harmless_value(value) || matches!(value[0], b'{' | b'[' | b'(') {
        return None;
    }
    let loose = by_colon && !quoted && !key_quoted && class == Class::Secret;
    let wordlike = value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'!' | b'?'));
    let strong = key.to_ascii_lowercase().windows(4).any(|w| w == b"pass" || w == b"secr");
    if loose && wordlike && !strong && value.len() < 16 {
        return None;
    }
    if value.iter().all(u8::is_ascii_digit) && !strong && value.len() < 9 {
        return None;
    }
    Some((from..end, end))
}

/// Whether a word begins as known kinds of tokens do, however long it is.
pub fn begins_like_token(word: &[u8]) -> bool {
    SHAPES.iter().any(|shape| word.starts_with(shape.prefix.as_bytes()))
}

/// How long the authentication scheme before a credential is, with its space.
pub fn after_scheme(value: &[u8]) -> usize {
    for scheme in [&b"bearer "[..], b"basic ", b"token ", b"digest ", b"negotiate "] {
        if value.len() > scheme.len() && value[..scheme.len()].eq_ignore_ascii_case(scheme) {
            return scheme.len();
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> Vec<String> {
        let mut names = vec![b"mallory".to_vec().into_boxed_slice()];
        let mut hits = Vec::new();
        find(text.as_bytes(), &mut names, true, &mut hits);
        hits.into_iter().map(|hit| text[hit.range].to_string()).collect()
    }

    #[test]
    fn tokens_are_known_by_shape() {
        for secret in [
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_0123456789abcdefghijABCDEFGHIJ456789",
            "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
            "sk-proj-abcdefghijklmnopqrstuvwx",
            "sk-ant-api03-abcdefghijklmnopqrstuvwx-AA",
            "xoxb-123456789012-abcdefghijkl",
            "AIzaSyA0123456789abcdefghijklmnopqrstuv",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        ] {
            for text in [secret.to_string(), format!("x {secret} y"), format!("q=%20{secret}&z"), format!("({secret})")]
            {
                assert_eq!(hidden(&text), [secret], "{text}");
            }
        }
    }

    #[test]
    fn pairs_flags_urls_and_homes_are_found() {
        for (text, secrets) in [
            ("api_key=hunter2", vec!["hunter2"]),
            ("--api-key hunter2 --verbose", vec!["hunter2"]),
            ("--token=abc123 file", vec!["abc123"]),
            ("{\"password\":\"hun ter\",\"a\":1}", vec!["hun ter"]),
            ("{\\\"password\\\":\\\"hun ter\\\",\\\"a\\\":1}", vec!["hun ter"]),
            ("Authorization: Basic dXNlcjpwYXNz", vec!["dXNlcjpwYXNz"]),
            ("Cookie: a=b; sid=77", vec!["a=b; sid=77"]),
            ("https://bob:s3cret@example.org/x?access_token=zzz&b=1", vec!["s3cret", "zzz"]),
            ("open /home/alice/notes", vec!["alice"]),
            ("open C:\\Users\\alice\\notes", vec!["alice"]),
            ("by mallory, not mallorys", vec!["mallory"]),
            ("Bearer abcdef123456", vec!["abcdef123456"]),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----", vec!["\nMIIE\nabc\n"]),
        ] {
            assert_eq!(hidden(text), secrets, "{text}");
        }
    }

    #[test]
    fn prose_and_pairing_stay() {
        for text in [
            "unexpected token: }",
            "Invalid token: unexpected end",
            "Bearer authentication is required",
            "progressToken: 7, requestId=abc",
            "max_tokens=4096",
            "/home/user/x and /root/y",
            "the secret of success",
            "token: 5",
        ] {
            assert_eq!(hidden(text), Vec::<String>::new(), "{text}");
        }
    }
}
