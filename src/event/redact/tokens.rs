//! The kinds of tokens that are known by their looks. To add one: a row in the list.

/// A token is known by how it begins and by how many characters of its alphabet follow at least.
pub(super) struct Shape {
    pub prefix: &'static str,
    pub alphabet: fn(u8) -> bool,
    pub at_least: usize,
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

pub(super) fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

pub(super) fn dotted(byte: u8) -> bool {
    word(byte) || byte == b'.' || byte == b'~' || byte == b'+' || byte == b'/' || byte == b'='
}

pub(super) const SHAPES: &[Shape] = &[
    // AWS access key ids.
    Shape { prefix: "AKIA", alphabet: upper, at_least: 16 },
    Shape { prefix: "ASIA", alphabet: upper, at_least: 16 },
    Shape { prefix: "AROA", alphabet: upper, at_least: 16 },
    Shape { prefix: "AIDA", alphabet: upper, at_least: 16 },
    Shape { prefix: "ABIA", alphabet: upper, at_least: 16 },
    Shape { prefix: "ACCA", alphabet: upper, at_least: 16 },
    // GitHub, GitLab, package registries.
    Shape { prefix: "ghp_", alphabet: alnum, at_least: 20 },
    Shape { prefix: "gho_", alphabet: alnum, at_least: 20 },
    Shape { prefix: "ghu_", alphabet: alnum, at_least: 20 },
    Shape { prefix: "ghs_", alphabet: alnum, at_least: 20 },
    Shape { prefix: "ghr_", alphabet: alnum, at_least: 20 },
    Shape { prefix: "github_pat_", alphabet: word, at_least: 20 },
    Shape { prefix: "glpat-", alphabet: word, at_least: 16 },
    Shape { prefix: "npm_", alphabet: alnum, at_least: 30 },
    Shape { prefix: "pypi-", alphabet: word, at_least: 40 },
    Shape { prefix: "hf_", alphabet: alnum, at_least: 28 },
    // OpenAI and Anthropic (`sk-proj-…`, `sk-ant-…`), Stripe.
    Shape { prefix: "sk-", alphabet: word, at_least: 20 },
    Shape { prefix: "sk_live_", alphabet: alnum, at_least: 16 },
    Shape { prefix: "sk_test_", alphabet: alnum, at_least: 16 },
    Shape { prefix: "rk_live_", alphabet: alnum, at_least: 16 },
    Shape { prefix: "whsec_", alphabet: dotted, at_least: 20 },
    // Slack.
    Shape { prefix: "xoxa-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxb-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxe-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxo-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxp-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxr-", alphabet: word, at_least: 10 },
    Shape { prefix: "xoxs-", alphabet: word, at_least: 10 },
    Shape { prefix: "xapp-", alphabet: word, at_least: 10 },
    // Google.
    Shape { prefix: "AIza", alphabet: word, at_least: 30 },
    Shape { prefix: "ya29.", alphabet: dotted, at_least: 20 },
    Shape { prefix: "GOCSPX-", alphabet: word, at_least: 20 },
];
