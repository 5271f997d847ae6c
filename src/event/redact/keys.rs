//! Which keys hold a secret.
//!
//! Comes in: the name of a JSON member, a header, a flag or an environment variable, in whatever spelling
//! (`X-Api-Key`, `apiKey`, `API_KEY`). Goes out: what to do with its value. Names that JSON-RPC and the protocols
//! on it need for pairing (`progressToken`, `requestId`, ids) are never secret, however they end.

/// What a key says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The value is a secret.
    Secret,
    /// Everything below it is: `credentials: {…}`, `cookies: {…}`.
    SecretTree,
    /// A header whose value runs to the end of the line: `Authorization: Basic …`, `Cookie: a=b; c=d`.
    SecretLine,
    /// Needed for pairing; its value stays as it is.
    Kept,
    Plain,
}

impl Class {
    pub fn is_secret(self) -> bool {
        matches!(self, Class::Secret | Class::SecretTree | Class::SecretLine)
    }
}

/// A longer name is data, not a name.
const LONGEST_KEY_BYTES: usize = 100;

const KEPT: &[&str] = &[
    "id",
    "method",
    "jsonrpc",
    "requestid",
    "progresstoken",
    "workdonetoken",
    "partialresulttoken",
    "sessionid",
    "taskid",
    "contextid",
    "subscriptionid",
    "messageid",
    "toolcallid",
    "eventid",
    "lasteventid",
    "cursor",
    "nextcursor",
    "requeststate",
];

const SECRET_LINES: &[&str] = &["authorization", "proxyauthorization", "cookie", "setcookie", "wwwauthenticate"];

const SECRET_TREES: &[&str] = &["credentials", "credential", "cookies", "secrets", "passwords"];

/// A name that ends so, its words run together, is a secret.
const SECRET_ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "apikey",
    "apisecret",
    "apitoken",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "authtoken",
    "bearertoken",
    "sessiontoken",
    "securitytoken",
    "csrftoken",
    "xsrftoken",
    "usertoken",
    "secretkey",
    "privatekey",
    "accesskey",
    "accesskeyid",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
    "storagekey",
    "sharedkey",
    "sessionkey",
    "sshkey",
    "webhookkey",
    "deploykey",
    "licensekey",
    "subscriptionkey",
    "hmackey",
    "connectionstring",
    "clientassertion",
    "authorization",
    "amzsignature",
    "amzcredential",
    "jwt",
];

/// `…Token` is a secret unless the word before says that it only tells one thing from another.
const HARMLESS_TOKENS: &[&str] = &[
    "progress",
    "partial",
    "done",
    "result",
    "page",
    "continuation",
    "cancellation",
    "cancel",
    "next",
    "prev",
    "previous",
    "sync",
    "semantic",
    "eos",
    "bos",
    "pad",
    "unk",
    "stop",
    "special",
    "end",
    "start",
    "max",
    "per",
    "resume",
    "paging",
    "first",
    "last",
    "unexpected",
    "invalid",
];

pub fn class(key: &[u8]) -> Class {
    if key.is_empty() || key.len() > LONGEST_KEY_BYTES {
        return Class::Plain;
    }
    let mut joined = String::with_capacity(key.len());
    let mut last_word = 0;
    let mut word_before = (0, 0);
    let mut before = b' ';
    for &byte in key {
        let new_word = !before.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && byte.is_ascii_uppercase());
        if byte.is_ascii_alphanumeric() {
            if new_word && joined.len() > last_word {
                word_before = (last_word, joined.len());
                last_word = joined.len();
            }
            joined.push(byte.to_ascii_lowercase() as char);
        } else if byte >= 0x80 {
            return Class::Plain;
        }
        before = byte;
    }
    let joined = joined.as_str();
    let last = &joined[last_word..];
    let previous = &joined[word_before.0..word_before.1];
    if KEPT.contains(&joined) {
        return Class::Kept;
    }
    if SECRET_LINES.contains(&joined) {
        return Class::SecretLine;
    }
    if SECRET_TREES.contains(&joined) {
        return Class::SecretTree;
    }
    let secret = match last {
        "token" => !HARMLESS_TOKENS.contains(&previous),
        "pass" => last_word > 0 && previous != "by",
        "cookie" | "credential" => true,
        _ => SECRET_ENDINGS.iter().any(|ending| joined.ends_with(ending)),
    };
    if secret { Class::Secret } else { Class::Plain }
}

/// Values that stand below such keys in schemas and documentation and tell nothing.
pub fn is_harmless_value(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "",
        "string",
        "number",
        "boolean",
        "object",
        "array",
        "integer",
        "null",
        "true",
        "false",
        "none",
        "undefined",
        "bearer",
        "basic",
        "oauth2",
        "optional",
        "required",
    ];
    let variable = value.strip_prefix(b"${").and_then(|rest| rest.strip_suffix(b"}"));
    if let Some(name) = variable {
        return name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    }
    value.len() <= 9 && WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_in_every_spelling() {
        for key in [
            "api_key",
            "apiKey",
            "API_KEY",
            "x-api-key",
            "OPENAI_API_KEY",
            "token",
            "access_token",
            "refreshToken",
            "GITHUB_TOKEN",
            "password",
            "userPassword",
            "DB_PASS",
            "client_secret",
            "AWS_SECRET_ACCESS_KEY",
            "aws_access_key_id",
            "private_key",
            "_authToken",
            "X-Amz-Security-Token",
            "jwt",
            "sessionToken",
        ] {
            assert_eq!(class(key.as_bytes()), Class::Secret, "{key}");
        }
        for key in ["Authorization", "proxy-authorization", "Set-Cookie", "cookie"] {
            assert_eq!(class(key.as_bytes()), Class::SecretLine, "{key}");
        }
    }

    #[test]
    fn what_pairing_needs_is_no_secret() {
        for key in ["progressToken", "requestId", "id", "method", "workDoneToken", "partialResultToken", "sessionId"] {
            assert_eq!(class(key.as_bytes()), Class::Kept, "{key}");
        }
        for key in
            ["maxTokens", "max_tokens", "tokenCount", "nextPageToken", "eos_token", "semanticTokens", "compass", "name"]
        {
            assert_eq!(class(key.as_bytes()), Class::Plain, "{key}");
        }
    }
}
