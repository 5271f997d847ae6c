//! Which header fields, query keys and path segments hold what must not be kept.
//!
//! Comes in: a name, or a word that stands by itself. Goes out: whether a secret is behind it. Rather too much is hidden
//! than too little: what is hashed can still be told apart, what was kept cannot be taken back.

use crate::event::redact::keys;
use crate::event::redact::shapes::begins_like_token;

/// Query keys that carry a session's id, spelled without separators.
const SESSION_KEYS: &[&str] = &["sessionid", "session", "sid", "mcpsessionid", "transportid"];

/// Query keys that carry a credential and are too short or too common elsewhere for the general list.
const URL_SECRETS: &[&str] = &[
    "key",
    "userkey",
    "token",
    "code",
    "sig",
    "signature",
    "auth",
    "state",
    "pass",
    "bearer",
    "hmac",
    "hash",
    "ticket",
];

/// A header field with one of these in its name, spelled without separators, carries a credential.
const SECRET_PARTS: &[&str] = &[
    "auth",
    "token",
    "secret",
    "signature",
    "cookie",
    "credential",
    "key",
    "session",
    "csrf",
    "xsrf",
    "password",
    "passwd",
    "passphrase",
    "bearer",
    "dpop",
    "jwt",
    "assertion",
    "hmac",
];

/// Too short to be looked for within other words.
const SECRET_WORDS: &[&str] = &["pass", "pwd", "sig", "sid", "otp", "pat"];

/// Fields that have one of those parts in their name and nothing to hide.
const PLAIN_IN_SPITE: &[&str] = &[
    "author",
    "x-author",
    "sec-websocket-key",
    "surrogate-key",
    "access-control-allow-credentials",
    "origin-agent-cluster",
];

/// The value of a field whose name ends so is one URL, or a part of one.
const URL_ENDINGS: &[&str] = &["host", "authority", "origin", "referer", "referrer", "location", "url", "uri"];

/// Words that say in a list of WebSocket protocols that a credential is near.
const MARKERS: &[&str] = &[
    "bearer",
    "token",
    "access_token",
    "access-token",
    "authorization",
    "auth",
    "jwt",
    "apikey",
    "api-key",
    "api_key",
];

/// A longer path segment that mixes letters and digits is taken for a token (`/hooks/T02AB…/x8Jf…`).
const LONGEST_PLAIN_SEGMENT: usize = 24;

/// How the value of a field is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptAs {
    /// But for the URLs in it.
    ItIs,
    Hash,
    /// All of it is a URL, a path, or a host with perhaps a user and a password before it.
    Url,
    /// A list of words, each by its looks.
    Words,
}

pub(super) fn kept_as(name: &str) -> KeptAs {
    let lower = name.to_ascii_lowercase();
    if lower == "sec-websocket-protocol" {
        return KeptAs::Words;
    }
    if URL_ENDINGS.iter().any(|ending| lower.ends_with(ending)) {
        return KeptAs::Url;
    }
    if is_plain_field(&lower) || PLAIN_IN_SPITE.contains(&lower.as_str()) {
        return KeptAs::ItIs;
    }
    let plain = plain_key(&lower);
    let secret = keys::class(name.as_bytes()).is_secret()
        || SECRET_PARTS.iter().any(|part| plain.contains(part))
        || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SECRET_WORDS.contains(&word));
    if secret { KeptAs::Hash } else { KeptAs::ItIs }
}

/// The fields nearly every message carries, in lower case: told apart before the long lists are asked.
fn is_plain_field(lower: &str) -> bool {
    matches!(
        lower,
        "host"
            | "accept"
            | "content-type"
            | "content-length"
            | "user-agent"
            | "accept-encoding"
            | "connection"
            | "date"
            | "server"
            | "transfer-encoding"
            | "cache-control"
            | "mcp-protocol-version"
            | "mcp-method"
            | "mcp-name"
            | "origin"
            | "last-event-id"
            | "content-encoding"
            | "vary"
            | "x-accel-buffering"
    )
}

/// Whether a field, its name in lower case, may be kept without a closer look.
pub fn is_plain(lower: &str, value: &[u8]) -> bool {
    is_plain_field(lower) && (!matches!(lower, "host" | "origin") || memchr::memchr(b'@', value).is_none())
}

fn plain_key(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

pub(super) fn is_session_key(name: &str) -> bool {
    SESSION_KEYS.contains(&plain_key(name).as_str())
}

pub(super) fn is_secret_key(name: &str, value: &str) -> bool {
    let plain = plain_key(name);
    SESSION_KEYS.contains(&plain.as_str())
        || URL_SECRETS.contains(&plain.as_str())
        || plain.ends_with("signature")
        || (keys::class(name.as_bytes()).is_secret() && !keys::is_harmless_value(value.as_bytes()))
        || looks_like_token(value)
}

pub(super) fn looks_like_token(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    (bytes.len() > LONGEST_PLAIN_SEGMENT || begins_like_token(bytes))
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'=' | b':' | b'%'))
}

/// Whether somewhere in it a URL may stand, a path with a query, or a password before a host.
pub(super) fn looks_like_url(value: &str) -> bool {
    value.contains("://")
        || value.starts_with('/')
        || value.contains('?')
        || value.split_once('@').is_some_and(|(user, _)| user.contains(':'))
}

pub(super) fn is_marker(word: &str) -> bool {
    MARKERS.iter().any(|marker| word.eq_ignore_ascii_case(marker))
}

/// Whether it is made of several words and one of them is a marker: `bearer.…`, `base64url.bearer.authorization.…`.
pub(super) fn holds_marker(word: &str) -> bool {
    word.split(['.', '-', '_', ':', '=', '|']).any(is_marker)
}
