//! Changes single values inside a raw message and leaves every other byte as it was.
//!
//! Comes in: raw JSON and a question asked of each scalar (and each empty place to stand). Goes out: the text
//! with the answers put in. No tree is built, so numbers, key order, escapes and spacing survive. Text that is
//! not JSON is not touched.

use serde_json::value::RawValue;

/// One step on the way to a value. Keys are as written, escapes and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Asks `replace` for every scalar of `raw`, with the way to it and its literal; `Some` puts another literal there.
/// `None` when `raw` is not JSON.
pub fn rewrite(raw: &str, replace: &mut dyn FnMut(&[Step<'_>], &str) -> Option<String>) -> Option<String> {
    serde_json::from_str::<&RawValue>(raw).ok()?;
    let bytes = raw.as_bytes();
    let mut out = String::with_capacity(raw.len());
    let mut done = 0;
    let mut path: Vec<Step<'_>> = Vec::new();
    let mut at = 0;
    // In an object the next string is a key unless a colon was just passed.
    let mut wants_key = false;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => {
                path.push(Step::Key(""));
                wants_key = true;
                at += 1;
            }
            b'[' => {
                path.push(Step::Index(0));
                wants_key = false;
                at += 1;
            }
            b'}' | b']' => {
                path.pop();
                wants_key = false;
                at += 1;
            }
            b',' => {
                match path.last_mut() {
                    Some(Step::Index(index)) => *index += 1,
                    Some(Step::Key(_)) => wants_key = true,
                    None => {}
                }
                at += 1;
            }
            b':' => {
                wants_key = false;
                at += 1;
            }
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'"' => {
                let end = string_end(bytes, at + 1);
                if wants_key {
                    if let Some(last) = path.last_mut() {
                        *last = Step::Key(&raw[at + 1..end]);
                    }
                } else if let Some(other) = replace(&path, &raw[at..end + 1]) {
                    out.push_str(&raw[done..at]);
                    out.push_str(&other);
                    done = end + 1;
                }
                at = end + 1;
            }
            _ => {
                let end = bytes[at..]
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
                    .map_or(bytes.len(), |len| at + len);
                if let Some(other) = replace(&path, &raw[at..end]) {
                    out.push_str(&raw[done..at]);
                    out.push_str(&other);
                    done = end;
                }
                at = end;
            }
        }
    }
    out.push_str(&raw[done..]);
    Some(out)
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len().saturating_sub(1)
}

/// Is this the way `keys` lead?
pub fn is_at(path: &[Step<'_>], keys: &[&str]) -> bool {
    path.len() == keys.len() && path.iter().zip(keys).all(|(step, key)| matches!(step, Step::Key(name) if name == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_changes() {
        let raw = r#" {"id" : 1.0, "params":{"a":[1,{"id":2},"x\"y"],"e":{},"l":[]} , "z":null}"#;
        let out = rewrite(raw, &mut |path, literal| {
            if is_at(path, &["id"]) {
                assert_eq!(literal, "1.0");
                return Some("\"new\"".to_string());
            }
            (path == [Step::Key("params"), Step::Key("a"), Step::Index(2)]).then(|| "7".to_string())
        });
        assert_eq!(out.unwrap(), r#" {"id" : "new", "params":{"a":[1,{"id":2},7],"e":{},"l":[]} , "z":null}"#);
    }

    #[test]
    fn all_scalars_are_visited_once_and_broken_text_is_left_alone() {
        let mut seen = Vec::new();
        let raw = r#"{"a":[true,null,-1e3,"s",[[]],{"b":{"c":"d"}}],"k":"v"}"#;
        let same = rewrite(raw, &mut |path, literal| {
            seen.push(format!("{} {literal}", path.len()));
            None
        });
        assert_eq!(same.as_deref(), Some(raw));
        assert_eq!(seen, ["2 true", "2 null", "2 -1e3", "2 \"s\"", "4 \"d\"", "1 \"v\""]);
        assert_eq!(rewrite("{\"a\":", &mut |_, _| None), None);
        assert_eq!(rewrite("hello", &mut |_, _| None), None);
    }
}
