//! `strace -f -T -e trace=read,write,… -s N` of a stdio server → its traffic.
//!
//! Reads of descriptor 0 are the client's bytes, writes to 1 the server's, writes to 2 stderr; whose, says [`speakers`]. A
//! call that another thread interrupted (`<unfinished ...>`, `<... read resumed>`) is joined by thread; a write counts
//! from its beginning, as its bytes may be answered before it returns, a read from its end. Strings cut by `-s` are told
//! as lost bytes. With `-ttt` times are exact; with `-t`, `-tt` or `-r` they have no date; without, there are none.

mod descriptors;
mod line;
mod speakers;
#[cfg(test)]
mod tests;
pub(super) mod threads;

use std::collections::HashMap;
use std::path::Path;

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::{Importer, Reading, Sureness, time};
use descriptors::{carries, descriptor, is_socket};
use line::{Line, Stamp, begun, call_name, is_talk, outcome, signal_number, split};
use speakers::{Heard, Speakers};

pub struct Strace;

/// Threads with an unfinished call at one time: far more than a traced server has.
const MOST_THREADS: usize = 10_000;

impl Importer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn about(&self) -> &'static str {
        "strace -f -ttt -T -y -e trace=read,write -s 1000000 of a stdio server"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        let lines: Vec<&str> = text.lines().filter(|line| !is_talk(line)).take(200).collect();
        let calls = lines.iter().filter(|line| split(line).is_some_and(|line| call_name(line.rest).is_some())).count();
        match calls * 2 > lines.len() && calls > 0 {
            true => 90,
            false => 0,
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let one_sided = silent_side(&String::from_utf8_lossy(&reading.head()));
        let of_one_thread = threads::is_named_so(Path::new(reading.file()));
        let mut state = State { one_sided, of_one_thread, ..State::default() };
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            if text.trim().is_empty() || is_talk(&text) {
                continue;
            }
            let Some(parts) = split(&text) else {
                reading.unread_line(line.number, line.text.len() as u64, "not a line of strace");
                continue;
            };
            if line.left_out > 0 {
                let bytes = line.text.len() as u64 + line.left_out;
                reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                continue;
            }
            state.line(reading, &parts, line.number);
        }
        state.finish(reading);
        Ok(())
    }
}

/// The bytes of one call.
struct Moved {
    /// Nobody for stderr.
    from: Option<Side>,
    thread: u64,
    /// What `-y` says of the descriptor.
    target: Option<String>,
    text: Vec<u8>,
    /// How many there were, with what `-s` cut.
    count: u64,
    number: u64,
}

struct Unfinished {
    text: String,
    /// So many bytes were told when it began.
    told: Option<u64>,
}

#[derive(Default)]
struct State {
    scribe: Option<Scribe>,
    unfinished: HashMap<u64, Unfinished>,
    /// A read without `-T`: when it ended says only the next line.
    waiting: Option<Moved>,
    days: i64,
    last_clock: Micros,
    last: Micros,
    ended: [bool; 2],
    /// Somebody who has not spoken met the end of input.
    end_of_unknown: bool,
    heard: [bool; 2],
    /// Who says nothing as far as the first lines show, in a trace of one thread.
    one_sided: Option<Side>,
    /// The file has the name that `-ff` gives to what one thread of several did.
    of_one_thread: bool,
    /// Texts that `-s` cut.
    cuts: u64,
    threads: HashMap<u64, ()>,
    numbered_threads: bool,
    speakers: Speakers,
    noted_untimed: bool,
}

impl State {
    fn line(&mut self, reading: &mut Reading<'_>, line: &Line<'_>, number: u64) {
        let at = self.time(line.at);
        if let Some(read) = self.waiting.take() {
            self.moved(reading, read, at);
        }
        self.numbered_threads |= line.thread != 0;
        if self.threads.len() < MOST_THREADS {
            self.threads.insert(line.thread, ());
        }
        if let Some(end) = line.rest.strip_prefix("+++ ") {
            self.exited(reading, line, at, end);
            return;
        }
        if line.rest.starts_with("--- ") {
            return;
        }
        if let Some(begun) = line.rest.strip_suffix("<unfinished ...>") {
            if self.unfinished.len() < MOST_THREADS || self.unfinished.contains_key(&line.thread) {
                let told = self.began(reading, line.thread, begun, at, number);
                let text = if told.is_some() { String::new() } else { begun.to_string() };
                self.unfinished.insert(line.thread, Unfinished { text, told });
            }
            return;
        }
        if let Some(resumed) = line.rest.strip_prefix("<... ") {
            let Some((_, tail)) = resumed.split_once(" resumed>") else {
                reading.unread_line(number, line.rest.len() as u64, "a resumed call in no known form");
                return;
            };
            // Without its beginning (the trace was attached in mid-call) the descriptor is not known.
            match self.unfinished.remove(&line.thread) {
                Some(Unfinished { told: Some(told), .. }) => {
                    let moved = outcome(tail).map(|call| call.result.max(0) as u64);
                    if moved.is_some_and(|moved| moved != told) {
                        reading.unread_line(number, told, "a write was told when it began, and ended otherwise");
                    }
                }
                Some(Unfinished { text, .. }) => {
                    let whole = text + tail;
                    self.call(reading, line.thread, &whole, at, false, number);
                }
                None if tail.contains('"') => {
                    reading.unread_line(number, line.rest.len() as u64, "a call resumed that began before the trace");
                }
                None => {}
            }
            return;
        }
        self.call(reading, line.thread, line.rest, at, true, number);
    }

    fn time(&mut self, stamp: Option<Stamp>) -> Micros {
        match stamp {
            Some(Stamp::Epoch(at)) => self.last = at,
            Some(Stamp::Clock(clock)) => {
                if self.last_clock - clock > time::DAY / 2 {
                    self.days += 1;
                }
                self.last_clock = clock;
                self.last = self.days * time::DAY + clock;
            }
            Some(Stamp::Since(passed)) => {
                self.last = self.last.saturating_add(passed);
                self.last_clock = self.last.max(1);
            }
            None => self.last += 1,
        }
        self.last
    }

    /// A call that does not return at once. Says how many bytes it was to write, where they could be told.
    fn began(&mut self, reading: &mut Reading<'_>, thread: u64, text: &str, at: Micros, number: u64) -> Option<u64> {
        let name = call_name(text).filter(|name| matches!(*name, "write" | "send" | "sendto"))?;
        let arguments = &text[name.len() + 1..];
        let (descriptor, target) = descriptor(arguments)?;
        let from = carries(descriptor, false, is_socket(name, target.as_deref()))?;
        let (text, count) = begun(arguments)?;
        self.moved(reading, Moved { from, thread, target, text, count, number }, at);
        Some(count)
    }

    fn call(
        &mut self,
        reading: &mut Reading<'_>,
        thread: u64,
        text: &str,
        at: Micros,
        timed_at_start: bool,
        number: u64,
    ) {
        let Some(name) = call_name(text) else {
            reading.unread_line(number, text.len() as u64, "not a call strace writes");
            return;
        };
        let arguments = text.get(name.len() + 1..).unwrap_or_default();
        let reads = match name {
            "read" | "readv" | "recvfrom" | "recvmsg" | "recv" | "pread64" => true,
            "write" | "writev" | "sendto" | "sendmsg" | "send" | "pwrite64" => false,
            "clone" | "clone3" if arguments.contains("CLONE_THREAD") => {
                if let Some(born) = outcome(arguments).and_then(|call| u64::try_from(call.result).ok()) {
                    self.speakers.thread_of(born, thread);
                }
                return;
            }
            "execve" | "execveat" => {
                self.speakers.executes(thread);
                return;
            }
            _ => return,
        };
        let Some((descriptor, target)) = descriptor(arguments) else { return };
        let Some(from) = carries(descriptor, reads, is_socket(name, target.as_deref())) else { return };
        let Some(call) = outcome(arguments) else {
            reading.unread_line(number, text.len() as u64, "a call whose text or result cannot be read");
            return;
        };
        let Ok(count) = u64::try_from(call.result) else { return };
        let count = if call.cut { count } else { count.min(call.text.len() as u64) };
        let moved = Moved { from, thread, target, text: call.text, count, number };
        match call.took {
            // A read that waited is printed with the time it began; its bytes came when it ended.
            Some(took) if reads && timed_at_start => self.moved(reading, moved, at.saturating_add(took)),
            None if reads && timed_at_start => {
                self.noted_untimed |= self.last_clock > 0 || at > 10 * 365 * time::DAY;
                self.waiting = Some(moved);
            }
            _ => self.moved(reading, moved, at),
        }
    }

    fn moved(&mut self, reading: &mut Reading<'_>, moved: Moved, at: Micros) {
        let Moved { from, thread, target, text, count, number } = moved;
        let target = target.as_deref();
        let shown = &text[..text.len().min(count as usize)];
        let missing = count - shown.len() as u64;
        let Some(from) = from else {
            self.scribe(reading, at).stderr(at, shown, reading.sink);
            return;
        };
        if count == 0 {
            // A child that reads from nowhere meets an end, too.
            if from == Side::Client && !self.ended[from as usize] {
                if self.speakers.speaks(thread, target, from) {
                    self.end(reading, at, from);
                } else {
                    self.end_of_unknown = true;
                }
            }
            return;
        }
        let Heard::Said(early) = self.speakers.hear(thread, target, from, shown, missing > 0) else { return };
        if from == Side::Client {
            self.end_of_unknown = false;
        }
        self.heard[from as usize] = true;
        self.cuts += u64::from(missing > 0);
        let scribe = self.scribe(reading, at);
        scribe.bytes(from, at, &early, reading.sink);
        scribe.bytes(from, at, shown, reading.sink);
        if missing > 0 {
            let why = format!("line {number}: strace cut the text (a greater -s keeps it)");
            scribe.cut(from, at, missing, &why, reading.sink);
        }
    }

    fn end(&mut self, reading: &mut Reading<'_>, at: Micros, from: Side) {
        self.ended[from as usize] = true;
        let by = if from == Side::Client { Party::Client } else { Party::Server };
        self.scribe(reading, at).end(from, at, by, How::Eof, reading.sink);
    }

    fn scribe(&mut self, reading: &mut Reading<'_>, at: Micros) -> &mut Scribe {
        if self.scribe.is_none() {
            let timed = self.last != 0 && self.last_clock == 0 && self.last > 10 * 365 * time::DAY;
            let knows = Knows { times: timed || self.last_clock > 0, ..Knows::ALL };
            let mut scribe = reading.session(None, knows, at);
            if !timed {
                let text = if self.last_clock > 0 {
                    "the trace has times without a date; strace -ttt has both"
                } else {
                    "the trace has no times; strace -ttt writes them"
                };
                reading.note(&mut scribe, at, text);
            }
            if let Some(silent) = self.one_sided {
                tell_silent(reading, &mut scribe, at, silent);
            }
            if self.is_a_part() {
                tell_part(reading, &mut scribe, at);
            }
            self.scribe = Some(scribe);
        }
        let scribe = self.scribe.as_mut().expect("opened above");
        reading.tell_troubles(scribe, at);
        scribe
    }

    /// `+++ exited with 0 +++`, `+++ killed by SIGKILL (core dumped) +++`: of the last thread, the process's own.
    fn exited(&mut self, reading: &mut Reading<'_>, line: &Line<'_>, at: Micros, end: &str) {
        self.threads.remove(&line.thread);
        self.unfinished.remove(&line.thread);
        if !self.threads.is_empty() || self.scribe.is_none() {
            return;
        }
        let exited = if let Some(code) = end.strip_prefix("exited with ") {
            Happening::Exited { code: code.split(' ').next().and_then(|code| code.parse().ok()), signal: None }
        } else if let Some(signal) = end.strip_prefix("killed by ") {
            Happening::Exited { code: None, signal: signal.split(' ').next().and_then(signal_number) }
        } else {
            return;
        };
        if self.end_of_unknown && !self.ended[Side::Client as usize] {
            self.end(reading, at, Side::Client);
        }
        if !self.ended[Side::Server as usize] {
            self.end(reading, at, Side::Server);
        }
        self.scribe(reading, at).happening(at, None, exited, reading.sink);
    }

    /// Whether it shows what one thread of several did.
    fn is_a_part(&self) -> bool {
        self.of_one_thread && !self.numbered_threads
    }

    fn finish(mut self, reading: &mut Reading<'_>) {
        if let Some(read) = self.waiting.take() {
            self.moved(reading, read, self.last);
        }
        let Some(mut scribe) = self.scribe.take() else { return };
        let passed_over = self.speakers.passed_over();
        if passed_over > 0 {
            let text = format!("what {passed_over} other processes or threads read and printed is no JSON-RPC");
            reading.note(&mut scribe, self.last, text);
        }
        if !self.numbered_threads && self.heard[0] != self.heard[1] {
            let silent = if self.heard[Side::Client as usize] { Side::Server } else { Side::Client };
            tell_silent(reading, &mut scribe, self.last, silent);
            reading.note(&mut scribe, self.last, OF_ONE_THREAD);
        } else if self.is_a_part() {
            tell_part(reading, &mut scribe, self.last);
            reading.note(&mut scribe, self.last, OF_ONE_THREAD);
        }
        if self.cuts > 0 {
            let text = format!("{} texts were cut by strace: -s 1000000 keeps them whole", self.cuts);
            reading.note(&mut scribe, self.last, text);
        }
        if self.noted_untimed {
            reading.note(&mut scribe, self.last, UNTIMED);
        }
        reading.finish(&mut scribe, self.last);
    }
}

const OF_ONE_THREAD: &str = "strace -ff writes a file for each thread; their folder is read as one trace";

/// What other threads read and wrote is elsewhere: neither who asked nor who answered can be told.
fn tell_part(reading: &mut Reading<'_>, scribe: &mut Scribe, at: Micros) {
    let why = "what other threads read and wrote is not in this file".to_string();
    scribe.happening(at, None, Happening::Lost { from: None, events: 0, bytes: 0, why }, reading.sink);
}

/// Nobody can be said not to have answered in a trace of one thread that does not write.
fn tell_silent(reading: &mut Reading<'_>, scribe: &mut Scribe, at: Micros, silent: Side) {
    let why = format!("what the {} sent is not in this trace", silent.name());
    let lost = Happening::Lost { from: Some(silent), events: 0, bytes: 0, why };
    scribe.happening(at, None, lost, reading.sink);
}

/// Who says nothing in these first lines while the other says more than one thing, where they are of one thread.
fn silent_side(head: &str) -> Option<Side> {
    let mut said = [0; 2];
    for line in head.lines().filter_map(split) {
        if line.thread != 0 {
            return None;
        }
        said[Side::Client as usize] += usize::from(line.rest.starts_with("read(0") && line.rest.contains("\"{"));
        said[Side::Server as usize] += usize::from(line.rest.starts_with("write(1"));
    }
    match (said[Side::Client as usize], said[Side::Server as usize]) {
        (2.., 0) => Some(Side::Server),
        (0, 2..) => Some(Side::Client),
        _ => None,
    }
}

const UNTIMED: &str = "when a read ended is taken from the next line of the trace; strace -T writes it";
