//! Stand-in until the event stream parser of `wire` is there.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// A further part of the current event's data.
    Data(&'a [u8]),
    /// The current event is whole.
    End { event: &'a str, id: Option<&'a str>, empty: bool },
}

#[derive(Debug, Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    lines: usize,
    event: String,
    id: Option<String>,
}

impl Sse {
    pub(super) fn feed(&mut self, bytes: &[u8], tell: &mut dyn FnMut(Told<'_>)) {
        for byte in bytes {
            if self.after_cr && *byte == b'\n' {
                self.after_cr = false;
                continue;
            }
            self.after_cr = *byte == b'\r';
            match byte {
                b'\r' | b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    self.line(&line, tell);
                    self.line = line;
                    self.line.clear();
                }
                _ => self.line.push(*byte),
            }
        }
    }

    fn line(&mut self, line: &[u8], tell: &mut dyn FnMut(Told<'_>)) {
        let mut line = line;
        if !self.started {
            self.started = true;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let empty = self.lines == 0;
            if !empty || self.id.is_some() {
                tell(Told::End { event: &self.event, id: self.id.as_deref(), empty });
            }
            self.lines = 0;
            self.event.clear();
            self.id = None;
            return;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.lines > 0 {
                    tell(Told::Data(b"\n"));
                }
                self.lines += 1;
                tell(Told::Data(value));
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
    }
}
