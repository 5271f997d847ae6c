//! Whether one client or several may be behind the messages of a session.
//!
//! Over HTTP a session is certain where an id holds it together: `Mcp-Session-Id`, or one in the query (the older
//! transport). Elsewhere carriers are grouped by address and program, which is a guess: several clients may be in
//! it, each with ids and tokens of its own. Then the HTTP exchange tells requests apart, and only then the id.

use std::borrow::Cow;

use super::fold::Fold;

pub(super) const SESSION_FIELD: &str = "mcp-session-id";

impl Fold {
    pub(super) fn take_session_id(&mut self, target: &str, headers: &[(String, String)]) {
        let in_query =
            || target.split_once('?').is_some_and(|(_, query)| query.to_ascii_lowercase().contains("session"));
        let in_query = in_query();
        self.has_session_id |= headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(SESSION_FIELD)) || in_query;
        self.answers_elsewhere |= in_query;
    }

    /// Nothing says that what came on this carrier and what came on others is from one client.
    pub(super) fn many_clients(&self, carrier: Option<u64>) -> bool {
        let upgraded = 101;
        !self.has_session_id
            && carrier
                .and_then(|carrier| self.carriers.get(&carrier))
                .is_some_and(|carrier| carrier.status != Some(upgraded))
    }

    /// Under what a progress token is known: clients count theirs from the same number.
    pub(super) fn token_key<'a>(&self, token: &'a str, carrier: Option<u64>) -> Cow<'a, str> {
        match carrier.filter(|_| self.many_clients(carrier)) {
            Some(carrier) => Cow::Owned(format!("#{carrier} {token}")),
            None => Cow::Borrowed(token),
        }
    }

    /// What comes on a carrier that brought a request is about that request; on others it may be about any.
    pub(super) fn brought_a_request(&self, carrier: Option<u64>) -> bool {
        carrier.and_then(|carrier| self.carriers.get(&carrier)).is_some_and(|carrier| carrier.asked)
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn clients_without_a_session_id_have_ids_and_tokens_of_their_own() {
        let call = |carrier: u64| {
            format!(
                r#"
                #{carrier} |opened POST /mcp|
                #{carrier} -> 1 tools/call {{"name":"x","_meta":{{"progressToken":1}}}}
                #{carrier} |head 200|
                #{carrier} |streaming|
                "#
            )
        };
        let progress = |carrier: u64, value: u64| {
            format!("#{carrier} <- notifications/progress {{\"progressToken\":1,\"progress\":{value}}}\n")
        };
        let mut talk = format!("0ms |note four clients at once|\n{}{}{}", call(1), call(2), call(3));
        for (carrier, value) in [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2)] {
            talk += &progress(carrier, value);
        }
        talk += "10ms #2 <- 1 result\n #2 |closed by server|\n #1 <- 1 result\n #1 |closed by server|\n";
        talk += &call(4);
        talk += "20ms #4 <- 1 result\n #4 |closed by server|\n #3 <- 1 result\n #3 |closed by server|\n";
        for protocol in ["json-rpc", "mcp-2025-06-18", "mcp-2026-07-28"] {
            check(&format!("protocol {protocol}\n{talk} = 1 answered"));
        }
    }

    #[test]
    fn clients_that_shake_hands_beside_each_other_speak_in_time() {
        check(
            r#"
            0ms   #1 |opened POST /mcp|
                  #1 -> 0 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
                  #2 |opened POST /mcp|
                  #2 -> 1 tools/list
            5ms   #2 <- 1 result
                  #2 |closed by server|
                  #1 <- 0 result {"protocolVersion":"2025-06-18"}
                  #1 |closed by server|
            1s    #3 |opened POST /mcp|
                  #3 -> notifications/cancelled {"requestId":9}
                  #3 |head 202|
                  #3 |closed by server|
            "#,
        );
    }

    #[test]
    fn one_session_id_is_one_client() {
        check(
            r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened POST /mcp Mcp-Session-Id: a|
                  #1 -> 1 tools/call {"name":"x","_meta":{"progressToken":7}}
            1ms   #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 1 tools/call {"name":"y"}
            2ms   #3 |opened POST /mcp Mcp-Session-Id: a|
                  #3 -> 3 tools/call {"name":"z","_meta":{"progressToken":7}}
            5ms   #1 <- 1 result
                  #2 <- 1 result
                  #3 <- 3 result
            6ms   #4 |opened POST /mcp Mcp-Session-Id: a|
                  #4 -> 3 tools/list
                  #4 <- 3 result
                  ! id-reuse-in-flight 1
                  ! progress-token-reuse 3
                  ! id-reused 3
            "#,
        );
    }

    #[test]
    fn an_answer_stays_on_its_exchange() {
        check(
            r#"
            protocol json-rpc
            0ms   #1 |opened POST /|
                  #1 -> 1 sum
                  #2 |opened POST /|
                  #2 -> 1 sum
            5ms   #1 <- 1 result
            6ms   #1 <- 1 result
            7ms   #1 |closed by server|
            9ms   #2 <- 1 result
                  #2 |closed by server|
                  ! duplicate-response 1
            "#,
        );
    }
}
