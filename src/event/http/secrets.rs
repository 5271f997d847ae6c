//! Puts a keyed hash where heads and URLs hold credentials or session ids.
//!
//! Comes in: a header field or a request target. Goes out: the same with `hash:<16 hex digits>` in place of what
//! must not be kept. Equal values get equal hashes within one key, so that two clients, or the sessions of one, can
//! still be told apart; without the key nothing can be guessed and tried. What was hashed before stays as it is.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::event::redact::keys;
use crate::event::redact::shapes::after_scheme;

const PREFIX: &str = "hash:";
const DIGITS: usize = 16;

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
const SECRET_PARTS: &[&str] =
    &["auth", "token", "secret", "signature", "cookie", "credential", "apikey", "password", "dpop", "jwt", "assertion"];

/// A longer path segment that mixes letters and digits is taken for a token (`/hooks/T02AB…/x8Jf…`).
const LONGEST_PLAIN_SEGMENT: usize = 24;

#[derive(Clone)]
pub struct Secrets {
    mac: Hmac<Sha256>,
}

impl Secrets {
    pub fn new(key: &[u8; 32]) -> Secrets {
        Secrets { mac: Hmac::new_from_slice(key).expect("a key of any length will do") }
    }

    /// `hash:<16 hex digits>`.
    pub fn hash(&self, value: &str) -> String {
        if is_hash(value) {
            return value.to_string();
        }
        let mut mac = self.mac.clone();
        mac.update(value.as_bytes());
        let digest = mac.finalize().into_bytes();
        let mut text = String::with_capacity(PREFIX.len() + DIGITS);
        text.push_str(PREFIX);
        for byte in &digest[..DIGITS / 2] {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        text
    }

    /// The value of a header field, fit to be kept.
    pub fn field<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        match kind_of(name) {
            // Whatever the field is called: behind such a word stands a credential.
            Kept::AsItIs if after_scheme(value.as_bytes()) == 0 => Cow::Borrowed(value),
            Kept::Words => Cow::Owned(self.words(value)),
            Kept::AsItIs | Kept::Hashed => {
                let scheme = after_scheme(value.as_bytes()).min(value.len());
                match value.split_at_checked(scheme) {
                    Some((scheme, secret)) if !secret.is_empty() => {
                        Cow::Owned(format!("{scheme}{}", self.hash(secret)))
                    }
                    _ => Cow::Owned(self.hash(value)),
                }
            }
            Kept::Url => self.target(value),
        }
    }

    /// A request target or URL, fit to be kept.
    pub fn target<'a>(&self, target: &'a str) -> Cow<'a, str> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let secret_path = path.contains(['@', ';']) || path.split('/').any(looks_like_token);
        if query.is_none() && !secret_path {
            return Cow::Borrowed(target);
        }
        let mut kept = String::with_capacity(target.len() + 16);
        if secret_path {
            self.path(path, &mut kept);
        } else {
            kept.push_str(path);
        }
        let mut before = '?';
        for pairs in query.into_iter().flat_map(|query| query.split('&')) {
            for pair in pairs.split(';') {
                kept.push(before);
                self.pair(pair, &mut kept);
                before = ';';
            }
            before = '&';
        }
        Cow::Owned(kept)
    }

    fn pair(&self, pair: &str, kept: &mut String) {
        match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret_key(&decoded(name), value) => {
                kept.push_str(name);
                kept.push('=');
                kept.push_str(&self.hash(value));
            }
            _ => kept.push_str(pair),
        }
    }

    /// A list of words, of which some may be tokens: clients that cannot set headers on a WebSocket put them here.
    fn words(&self, value: &str) -> String {
        let kept = value.split(',').map(|word| match looks_like_token(word.trim()) {
            true => self.hash(word.trim()),
            false => word.trim().to_string(),
        });
        kept.collect::<Vec<_>>().join(", ")
    }

    fn path(&self, path: &str, kept: &mut String) {
        for (number, segment) in path.split('/').enumerate() {
            if number > 0 {
                kept.push('/');
            }
            let (segment, pairs) = match segment.split_once(';') {
                Some((segment, pairs)) => (segment, Some(pairs)),
                None => (segment, None),
            };
            match segment.rsplit_once('@') {
                // user:password@host
                Some((user, host)) => {
                    kept.push_str(&self.hash(user));
                    kept.push('@');
                    kept.push_str(host);
                }
                None if looks_like_token(segment) => kept.push_str(&self.hash(segment)),
                None => kept.push_str(segment),
            }
            for pair in pairs.into_iter().flat_map(|pairs| pairs.split(';')) {
                kept.push(';');
                self.pair(pair, kept);
            }
        }
    }

    /// The id of the session that a query names, hashed: `?session_id=…` of the older HTTP+SSE transport.
    pub fn session_of_target(&self, target: &str) -> Option<String> {
        let (_, query) = target.split_once('?')?;
        query.split('&').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            (SESSION_KEYS.contains(&plain_key(name).as_str()) && !value.is_empty()).then(|| self.hash(value))
        })
    }
}

enum Kept {
    AsItIs,
    Hashed,
    Url,
    Words,
}

fn kind_of(name: &str) -> Kept {
    if is_plain_field(name) {
        return Kept::AsItIs;
    }
    let lower = name.to_ascii_lowercase();
    if is_plain_field(&lower) {
        return Kept::AsItIs;
    }
    let plain = plain_key(&lower);
    match lower.as_str() {
        "mcp-session-id" | "x-session" => Kept::Hashed,
        "referer" | "location" | "content-location" | "link" => Kept::Url,
        "sec-websocket-protocol" => Kept::Words,
        "author" | "x-author" => Kept::AsItIs,
        _ if keys::class(name.as_bytes()).is_secret() || plain.ends_with("sessionid") => Kept::Hashed,
        _ if SECRET_PARTS.iter().any(|part| plain.contains(part)) => Kept::Hashed,
        _ => Kept::AsItIs,
    }
}

/// A name without its percent signs: `t%6Fken` is `token`.
fn decoded(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.first_chunk::<2>().and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The fields nearly every message carries, in lower case: told apart before the long lists are asked.
pub fn is_plain_field(lower: &str) -> bool {
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

fn plain_key(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_secret_key(name: &str, value: &str) -> bool {
    let plain = plain_key(name);
    SESSION_KEYS.contains(&plain.as_str())
        || URL_SECRETS.contains(&plain.as_str())
        || plain.ends_with("signature")
        || (keys::class(name.as_bytes()).is_secret() && !keys::is_harmless_value(value.as_bytes()))
        || looks_like_token(value)
}

fn looks_like_token(segment: &str) -> bool {
    segment.len() > LONGEST_PLAIN_SEGMENT
        && segment.bytes().any(|byte| byte.is_ascii_digit())
        && segment.bytes().any(|byte| byte.is_ascii_alphabetic())
        && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'=' | b':' | b'%'))
}

fn is_hash(value: &str) -> bool {
    value.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_session_ids_leave_only_a_hash() {
        let secrets = Secrets::new(&[7; 32]);
        let bearer = secrets.field("Authorization", "Bearer s3cr3t");
        assert!(bearer.starts_with("Bearer hash:") && !bearer.contains("s3cr3t"), "{bearer}");
        assert_eq!(bearer, secrets.field("authorization", "Bearer s3cr3t"));
        assert_ne!(bearer, secrets.field("authorization", "Bearer other"));
        for name in ["Cookie", "Set-Cookie", "X-Api-Key", "Proxy-Authorization", "Mcp-Session-Id", "X-Auth-Token"] {
            let kept = secrets.field(name, "v4lue-of-mine");
            assert!(kept.contains("hash:") && !kept.contains("v4lue"), "{name}: {kept}");
        }
        for name in ["Accept", "MCP-Protocol-Version", "Last-Event-ID", "Content-Length"] {
            assert_eq!(secrets.field(name, "2025-06-18"), "2025-06-18", "{name}");
        }
        for (name, value) in [
            ("X-Auth-Key", "v4lue"),
            ("X-Custom-Auth", "v4lue"),
            ("Authentication", "v4lue"),
            ("DPoP", "v4lue"),
            ("X-Session", "v4lue"),
            ("X-Signature", "v4lue"),
            ("X-Anything", "Bearer v4lue"),
            ("Sec-WebSocket-Protocol", "mcp, v4lueAAAAAAAAAAAAAAAAAAAAAAAA"),
        ] {
            let kept = secrets.field(name, value);
            assert!(kept.contains("hash:") && !kept.contains("v4lue"), "{name}: {kept}");
        }
        assert_ne!(secrets.hash("a"), Secrets::new(&[8; 32]).hash("a"));
    }

    #[test]
    fn urls_keep_their_shape_and_lose_their_secrets() {
        let secrets = Secrets::new(&[7; 32]);
        for plain in ["/mcp", "/mcp?limit=10&cursor=abc", "/", "/a/b.json", "/.well-known/oauth-protected-resource/mcp"]
        {
            assert_eq!(secrets.target(plain), plain);
        }
        let kept = secrets.target("/messages/?session_id=0123abcd&x=1&api_key=zzz&code=qq");
        assert!(!kept.contains("0123abcd") && !kept.contains("zzz") && !kept.contains("qq"), "{kept}");
        assert!(kept.starts_with("/messages/?session_id=hash:") && kept.contains("&x=1&"), "{kept}");
        assert_eq!(secrets.target(&kept), kept, "hashing again changes nothing");
        let path = secrets.target("/s/Ab12Cd34Ef56Gh78Ij90Kl12Mn/mcp");
        assert!(path.starts_with("/s/hash:") && path.ends_with("/mcp"), "{path}");
        for secret in [
            "/mcp?api%5Fkey=zz9",
            "/mcp?t%6Fken=zz9",
            "/mcp?a=1;token=zz9",
            "/mcp;token=zz9/x",
            "/mcp?pass=zz9",
            "/mcp?X-Goog-Signature=zz9",
            "/bot123456:zz9ABCDEFGHIJKLMNOPQRSTUVWXYZ/send",
        ] {
            let kept = secrets.target(secret);
            assert!(kept.contains("hash:") && !kept.contains("zz9"), "{kept}");
        }
        let user = secrets.target("http://me:pw@host/x");
        assert!(!user.contains("pw") && user.contains("@host/x"), "{user}");
        assert_eq!(secrets.session_of_target("/messages/?session_id=0123"), Some(secrets.hash("0123")));
    }
}
