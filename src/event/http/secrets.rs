//! Puts a keyed hash where heads and URLs hold credentials or session ids.
//!
//! Comes in: a header field or a request target. Goes out: the same with `hash:<16 hex digits>` in place of what
//! must not be kept. Equal values get equal hashes within one key, so that two clients, or the sessions of one, can
//! still be told apart; without the key nothing can be guessed and tried. What was hashed before stays as it is.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::secret_names::{
    KeptAs, holds_marker, is_marker, is_plain, is_secret_key, is_session_key, kept_as, looks_like_token, looks_like_url,
};
use crate::event::redact::shapes::after_scheme;

const PREFIX: &str = "hash:";
const DIGITS: usize = 16;

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
        if is_plain(name, value.as_bytes()) {
            return Cow::Borrowed(value);
        }
        let scheme = after_scheme(value.as_bytes());
        match kept_as(name) {
            KeptAs::Words => Cow::Owned(self.words(value)),
            KeptAs::Url if scheme == 0 => self.target(value),
            // Whatever the field is called: behind such a word stands a credential, and in a URL there may be one.
            KeptAs::ItIs if scheme == 0 => self.urls(value),
            KeptAs::ItIs | KeptAs::Url | KeptAs::Hash => match value.split_at_checked(scheme) {
                Some((scheme, secret)) if !secret.is_empty() => Cow::Owned(format!("{scheme}{}", self.hash(secret))),
                _ => Cow::Owned(self.hash(value)),
            },
        }
    }

    /// A text in which URLs may stand, each fit to be kept: `</x?token=…>; rel="next"`.
    fn urls<'a>(&self, value: &'a str) -> Cow<'a, str> {
        if !looks_like_url(value) {
            return Cow::Borrowed(value);
        }
        let mut kept = String::with_capacity(value.len() + 16);
        for piece in value.split_inclusive([' ', '\t', ',', '<', '>', '"', '\'']) {
            let end = piece.trim_end_matches([' ', '\t', ',', '<', '>', '"', '\'']).len();
            let (word, behind) = piece.split_at(end);
            match looks_like_url(word) {
                true => kept.push_str(&self.target(word)),
                false => kept.push_str(word),
            }
            kept.push_str(behind);
        }
        Cow::Owned(kept)
    }

    /// A request target or URL, fit to be kept.
    pub fn target<'a>(&self, target: &'a str) -> Cow<'a, str> {
        let (path, mut rest) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
        let secret_path = path.contains(['@', ';']) || path.split('/').any(looks_like_token);
        if rest.is_empty() && !secret_path {
            return Cow::Borrowed(target);
        }
        let mut kept = String::with_capacity(target.len() + 16);
        if secret_path {
            self.path(path, &mut kept);
        } else {
            kept.push_str(path);
        }
        // Tokens also come behind a `#`, written as pairs.
        while let Some((separator, after)) = rest.split_at_checked(1) {
            kept.push_str(separator);
            let (pair, behind) = after.split_at(after.find(['&', ';', '#']).unwrap_or(after.len()));
            self.pair(pair, &mut kept);
            rest = behind;
        }
        Cow::Owned(kept)
    }

    fn pair(&self, pair: &str, kept: &mut String) {
        let Some((name, value)) = pair.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return kept.push_str(pair);
        };
        kept.push_str(name);
        kept.push('=');
        match is_secret_key(&decoded(name), value) || self.holds_secret_url(value) {
            true => kept.push_str(&self.hash(value)),
            false => kept.push_str(value),
        }
    }

    /// A URL within a URL: where to go on to, with what.
    fn holds_secret_url(&self, value: &str) -> bool {
        let inner = decoded(value);
        looks_like_url(&inner) && self.target(&inner) != inner
    }

    /// A list of words, of which some may be tokens: clients that cannot set headers on a WebSocket put them here,
    /// as `bearer.…` or as the word behind `bearer`.
    fn words(&self, value: &str) -> String {
        let mut announced = false;
        let kept = value.split(',').map(|word| {
            let word = word.trim();
            let secret = announced || looks_like_token(word) || (holds_marker(word) && !is_marker(word));
            announced |= is_marker(word);
            if secret { self.hash(word) } else { word.to_string() }
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
                Some((user, host)) if !user.is_empty() => {
                    kept.push_str(&self.hash(user));
                    kept.push('@');
                    kept.push_str(host);
                }
                _ if looks_like_token(segment) => kept.push_str(&self.hash(segment)),
                _ => kept.push_str(segment),
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
            (is_session_key(name) && !value.is_empty()).then(|| self.hash(value))
        })
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
            ("Sec-WebSocket-Protocol", "mcp, bearer.v4lue"),
            ("Sec-WebSocket-Protocol", "bearer, v4lue"),
            ("X-Functions-Key", "v4lue"),
            ("X-Session-Data", "v4lue"),
            ("X-XSRF", "v4lue"),
            ("X-User-Pwd", "v4lue"),
            ("X-Original-URL", "/x?token=v4lue"),
            ("X-Rewrite-Url", "/x?a=1,2&token=v4lue"),
            ("X-Forwarded-Uri", "/x#access_token=v4lue"),
            ("X-Whatever", "see https://h/x?api_key=v4lue, or not"),
            ("Referer", "http://h/?next=%2Fx%3Ftoken%3Dv4lue"),
            ("Link", "</x?access_token=v4lue>; rel=\"next\""),
            ("Forwarded", "for=1.2.3.4;host=\"me:v4lue@h\""),
            ("Host", "me:v4lue@evil"),
            ("X-Forwarded-Host", "me:v4lue@evil"),
            ("Origin", "http://me:v4lue@h"),
        ] {
            let kept = secrets.field(name, value);
            assert!(kept.contains("hash:") && !kept.contains("v4lue"), "{name}: {kept}");
        }
        assert_ne!(secrets.hash("a"), Secrets::new(&[8; 32]).hash("a"));
        for (name, plain) in [
            ("Host", "127.0.0.1:80"),
            (":authority", "example.org"),
            ("Origin", "http://localhost:6274"),
            ("Sec-WebSocket-Protocol", "mcp, graphql-transport-ws, v12.stomp"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Link", "</x?page=2>; rel=\"next\", </x>; rel=\"first\""),
            ("Location", "http://h/a/b?limit=1#top"),
            ("From", "me@example.org"),
            ("X-Author", "me"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ] {
            assert_eq!(secrets.field(name, plain), plain, "{name}");
        }
    }

    #[test]
    fn urls_keep_their_shape_and_lose_their_secrets() {
        let secrets = Secrets::new(&[7; 32]);
        for plain in [
            "/mcp",
            "/mcp?limit=10&cursor=abc#x",
            "/",
            "/a/b.json",
            "/.well-known/oauth-protected-resource/mcp",
            "/@org/sk-SK/x",
        ] {
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
            "/sk-zz9/mcp",
            "/mcp#access_token=zz9",
        ] {
            let kept = secrets.target(secret);
            assert!(kept.contains("hash:") && !kept.contains("zz9"), "{kept}");
        }
        let user = secrets.target("http://me:pw@host/x");
        assert!(!user.contains("pw") && user.contains("@host/x"), "{user}");
        assert_eq!(secrets.session_of_target("/messages/?session_id=0123"), Some(secrets.hash("0123")));
    }
}
