//! Whether what stands below a status that refuses is JSON-RPC.
//!
//! Comes in: a short body. Goes out: yes or no. There a message is optional, and anything else may stand in its place:
//! `{"detail":"busy"}`, `{"error":"invalid_token"}`, the error object of some other API.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
struct Refusal {
    jsonrpc: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
}

/// Versions are left out by some, so an id beside an error or a result will do.
pub(super) fn is_rpc_refusal(text: &[u8]) -> bool {
    match text.first() {
        Some(b'[') => memmem::find(text, b"\"jsonrpc\"").is_some(),
        Some(b'{') => match serde_json::from_slice::<Refusal>(text) {
            Ok(said) => {
                said.jsonrpc.is_some() || (said.id.is_some() && (said.error.is_some() || said.result.is_some()))
            }
            // Broken, and by its looks a message.
            Err(_) => memmem::find(text, b"\"jsonrpc\"").is_some(),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_the_words_of_others() {
        for message in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"x"}}"#,
            r#"{"id":1,"error":{"code":-32000,"message":"x"}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"#,
        ] {
            assert!(is_rpc_refusal(message.as_bytes()), "{message}");
        }
        for other in [
            r#"{"detail":"busy"}"#,
            r#"{"error":"invalid_token"}"#,
            r#"{"error":{"code":401,"message":"x","status":"UNAUTHENTICATED"}}"#,
            r#"{"detail":"not allowed","method":"POST"}"#,
            r#"{"id":"req-1","detail":"busy"}"#,
            r#"["busy"]"#,
            "busy",
            "{",
        ] {
            assert!(!is_rpc_refusal(other.as_bytes()), "{other}");
        }
    }
}
