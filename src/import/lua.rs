//! Lua tables as Neovim's `vim.inspect` prints them → JSON text.
//!
//! `{ id = 1, ["a/b"] = 'x "y"', { 1, 2 } }`. What JSON has no word for (functions, metatables, cycles) becomes a
//! string that says so. An empty table may have been `{}` or `[]`: it is written `{}`.

use super::json::quote;

/// Depth is bounded because the reader calls itself; no honest message comes near it.
const MOST_DEPTH: usize = 200;

/// Reads one value at the start of `text`; gives its JSON and what stands behind it.
pub fn to_json(text: &str) -> Option<(String, &str)> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let mut out = String::new();
    reader.value(&mut out, 0)?;
    Some((out, text.get(reader.at..)?))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: &[u8]) -> bool {
        let found = self.bytes[self.at..].starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.space();
        match *self.bytes.get(self.at)? {
            b'{' if depth < MOST_DEPTH => self.table(out, depth),
            quote @ (b'"' | b'\'') => {
                let text = self.string(quote)?;
                out.push_str(&super::json::quote(&text));
                Some(())
            }
            b'<' => self.angled(out, depth),
            b'-' | b'0'..=b'9' => self.number(out),
            _ => self.word(out),
        }
    }

    fn number(&mut self, out: &mut String) -> Option<()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)) {
            self.at += 1;
        }
        let raw = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        if serde_json::from_str::<serde_json::Number>(raw).is_ok() {
            out.push_str(raw);
        } else {
            out.push_str(&quote(raw));
        }
        Some(())
    }

    /// `true`, `false`, `nil`, `vim.NIL`, `vim.empty_dict()`.
    fn word(&mut self, out: &mut String) -> Option<()> {
        for (lua, json) in [
            ("true", "true"),
            ("false", "false"),
            ("nil", "null"),
            ("vim.NIL", "null"),
            ("vim.empty_dict()", "{}"),
            ("inf", "null"),
            ("nan", "null"),
        ] {
            if self.take(lua.as_bytes()) {
                out.push_str(json);
                return Some(());
            }
        }
        None
    }

    /// `<function 1>`, `<table 2>`, `<userdata 1>` as strings; `<1>{…}` as its table.
    fn angled(&mut self, out: &mut String, depth: usize) -> Option<()> {
        let start = self.at;
        let len = self.bytes[start..].iter().take(100).position(|byte| *byte == b'>')?;
        self.at = start + len + 1;
        if self.bytes.get(self.at) == Some(&b'{') {
            return self.value(out, depth + 1);
        }
        out.push_str(&quote(&String::from_utf8_lossy(&self.bytes[start..self.at])));
        Some(())
    }

    fn string(&mut self, mark: u8) -> Option<String> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'\\' => {
                    let escaped = *self.bytes.get(self.at)?;
                    self.at += 1;
                    match escaped {
                        b'n' => text.push(b'\n'),
                        b't' => text.push(b'\t'),
                        b'r' => text.push(b'\r'),
                        b'a' => text.push(7),
                        b'b' => text.push(8),
                        b'v' => text.push(11),
                        b'f' => text.push(12),
                        b'0'..=b'9' => {
                            let mut code = u32::from(escaped - b'0');
                            for _ in 0..2 {
                                match self.bytes.get(self.at) {
                                    Some(digit) if digit.is_ascii_digit() => {
                                        code = code * 10 + u32::from(digit - b'0');
                                        self.at += 1;
                                    }
                                    _ => break,
                                }
                            }
                            text.push(code as u8);
                        }
                        other => text.push(other),
                    }
                }
                byte if byte == mark => return Some(String::from_utf8_lossy(&text).into_owned()),
                other => text.push(other),
            }
        }
    }

    fn table(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        let mut items: Vec<String> = Vec::new();
        let mut pairs: Vec<(String, String)> = Vec::new();
        loop {
            self.space();
            if self.take(b"}") {
                break;
            }
            let mut value = String::new();
            match self.key(depth)? {
                Some(key) => {
                    self.value(&mut value, depth + 1)?;
                    // A metatable is about the table, not in it.
                    if key != "<metatable>" {
                        pairs.push((key, value));
                    }
                }
                None => {
                    self.value(&mut value, depth + 1)?;
                    items.push(value);
                }
            }
            self.space();
            if !self.take(b",") && self.bytes.get(self.at) != Some(&b'}') {
                return None;
            }
        }
        if pairs.is_empty() && !items.is_empty() {
            out.push('[');
            out.push_str(&items.join(","));
            out.push(']');
            return Some(());
        }
        for (number, item) in items.into_iter().enumerate() {
            pairs.push(((number + 1).to_string(), item));
        }
        out.push('{');
        for (number, (key, value)) in pairs.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&quote(key));
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Some(())
    }

    /// `name = `, `["any text"] = `, `[3] = `, `<metatable> = `; `None` inside when an item without a key follows.
    fn key(&mut self, depth: usize) -> Option<Option<String>> {
        let start = self.at;
        let name = match *self.bytes.get(start)? {
            b'[' => {
                self.at += 1;
                let mut raw = String::new();
                self.value(&mut raw, depth + 1)?;
                self.space();
                if !self.take(b"]") {
                    return None;
                }
                serde_json::from_str::<String>(&raw).unwrap_or(raw)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'<' => {
                while self.bytes.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_<>".contains(byte))
                {
                    self.at += 1;
                }
                String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()
            }
            _ => return Some(None),
        };
        self.space();
        let is_key = self.bytes.get(self.at) == Some(&b'=') && self.bytes.get(self.at + 1) != Some(&b'=');
        if is_key {
            self.at += 1;
            return Some(Some(name));
        }
        self.at = start;
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_objects_and_arrays() {
        for (lua, json) in [
            (r#"{  id = 1,  jsonrpc = "2.0"}"#, r#"{"id":1,"jsonrpc":"2.0"}"#),
            (r#"{ { a = 1 }, { a = -2.5 } }"#, r#"[{"a":1},{"a":-2.5}]"#),
            (r#"{ ["a/b"] = 'say "hi"', [3] = true, x = vim.NIL }"#, r#"{"a/b":"say \"hi\"","3":true,"x":null}"#),
            (r#"{ 1, 2, n = {} }"#, r#"{"n":{},"1":1,"2":2}"#),
            (
                r#"<1>{ me = <table 1>, f = <function 2>, <metatable> = <3>{} }"#,
                r#"{"me":"<table 1>","f":"<function 2>"}"#,
            ),
            ("\"a\\nb\\\\c\\0\\127\"", "\"a\\nb\\\\c\\u0000\u{7f}\""),
            ("vim.empty_dict()", "{}"),
            ("{ true, false, nil }", "[true,false,null]"),
        ] {
            assert_eq!(to_json(lua).map(|(json, _)| json).as_deref(), Some(json), "{lua}");
        }
        assert_eq!(to_json("{ a = 1 } \"rest\"").map(|(_, rest)| rest), Some(" \"rest\""));
        for broken in ["{", "{ a = }", "{ a = 1", "\"x", "'", "{ a 1 }", "{ [1 = 2 }", "", "<", &"{".repeat(100_000)] {
            assert!(to_json(broken).is_none(), "{}", &broken[..broken.len().min(20)]);
        }
    }
}
