//! The id of a request, exactly as it was written.
//!
//! `1`, `"1"` and `1.0` are three different ids here: which of them a peer takes for the same one is a question
//! for the pairing (`exchange`), which asks [`Id::loosely`]. Comparing, hashing and printing go by kind and text.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer written the plain way (`0`, `-7`, `92`) that fits 64 bits.
    Int(i64),
    /// Any other number, as written: `1.0`, `1e3`, `18446744073709551616`.
    Number(Box<str>),
    /// A string, as the raw text between the quotes (escapes kept as written).
    Text(Box<str>),
    Null,
    /// Not an id at all (`true`, an object, an array): the beginning of its raw text.
    Invalid(Box<str>),
}

impl Id {
    /// Reads a raw JSON literal. What is no number, string or null becomes [`Id::Invalid`].
    pub fn from_raw(raw: &str) -> Id {
        match raw.as_bytes().first() {
            Some(b'"') if raw.len() >= 2 && raw.ends_with('"') => Id::Text(raw[1..raw.len() - 1].into()),
            Some(b'-' | b'0'..=b'9') => match raw.parse::<i64>() {
                Ok(int) if raw != "-0" => Id::Int(int),
                _ => Id::Number(raw.into()),
            },
            _ if raw == "null" => Id::Null,
            _ => Id::Invalid(raw.into()),
        }
    }

    /// The raw JSON literal, as it came.
    pub fn to_raw(&self) -> String {
        match self {
            Id::Int(int) => int.to_string(),
            Id::Number(raw) | Id::Invalid(raw) => raw.to_string(),
            Id::Text(text) => format!("\"{text}\""),
            Id::Null => "null".to_string(),
        }
    }

    /// `number`, `string`, `null` or `invalid`.
    pub fn kind(&self) -> &'static str {
        match self {
            Id::Int(_) | Id::Number(_) => "number",
            Id::Text(_) => "string",
            Id::Null => "null",
            Id::Invalid(_) => "invalid",
        }
    }

    /// The same number in its plainest writing: `1.0` and `1e0` become `Int(1)`. Other ids are themselves.
    pub fn canonical(&self) -> Id {
        if let Id::Number(raw) = self
            && let Ok(value) = raw.parse::<f64>()
            && value.fract() == 0.0
            && value.abs() <= 9_007_199_254_740_992.0
        {
            return Id::Int(value as i64);
        }
        self.clone()
    }

    /// What the id becomes in a peer that mixes up kinds: numeric strings as numbers, integers beyond 2^53 as
    /// the nearest double. Two ids with the same loose form may be one id to such a peer; never key by it.
    pub fn loosely(&self) -> Option<u64> {
        let number = match self {
            Id::Int(int) => *int as f64,
            Id::Number(raw) => raw.parse().ok()?,
            Id::Text(text) if !text.is_empty() && !text.starts_with(' ') => text.parse().ok()?,
            _ => return None,
        };
        number.is_finite().then(|| (number + 0.0).to_bits())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Int(int) => write!(f, "{int}"),
            Id::Number(raw) | Id::Invalid(raw) => f.write_str(raw),
            Id::Text(text) => write!(f, "\"{text}\""),
            Id::Null => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_and_print_as_written() {
        for raw in ["0", "1", "\"1\"", "1.0", "null", "18446744073709551616", "-0", "true", "\"a\\\"b\"", "1e3"] {
            assert_eq!(Id::from_raw(raw).to_raw(), raw);
        }
        assert_ne!(Id::from_raw("92"), Id::from_raw("\"92\""));
        assert_ne!(Id::from_raw("1"), Id::from_raw("1.0"));
        assert_eq!(Id::from_raw("1.0").canonical(), Id::Int(1));
        assert_eq!(Id::from_raw("1.5").canonical(), Id::Number("1.5".into()));
    }

    #[test]
    fn loose_forms_meet_where_peers_mix_them_up() {
        assert_eq!(Id::from_raw("7").loosely(), Id::from_raw("\"7\"").loosely());
        assert_eq!(Id::from_raw("9007199254740993").loosely(), Id::from_raw("9007199254740992").loosely());
        assert_eq!(Id::from_raw("\"seven\"").loosely(), None);
        assert_eq!(Id::Null.loosely(), None);
    }
}
