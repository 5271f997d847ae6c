//! The files of `strace -ff`, one for each thread, as one trace.
//!
//! Comes in: `NAME.*`, which stands for `NAME.PID` of every thread. Goes out: their lines by time, each with its thread in
//! front, as `strace -f` would have written them. A read counts from its end: where `-T` is missing, that is when the
//! thread's next line begins, and it is written behind the line as `-T` would. One line of each file is held.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::line::{Stamp, outcome, split};
use crate::error::{Doing, Error, Result};
use crate::event::{Micros, Side};
use crate::import::json::Fields;
use crate::import::lines::MOST_LINE_BYTES;
use crate::import::time;

/// Files open at one time: below what systems allow a process.
const MOST_FILES: usize = 500;

/// Whether a file is named as `strace -ff` names that of one thread.
pub(super) fn is_named_so(file: &Path) -> bool {
    thread_of(file).is_some()
}

/// Puts `NAME.*` in the place of each group of files that `strace -ff` wrote; in a folder, also one alone is all there is.
pub(crate) fn gather(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut gathered: Vec<PathBuf> = Vec::new();
    for file in &files {
        let group = thread_of(file).map(|(stem, _)| stem);
        let together = group.is_some() && is_of_one_thread(file);
        let place = match group.filter(|_| together) {
            Some(stem) => all_of(&stem),
            None => file.clone(),
        };
        if gathered.last() != Some(&place) {
            gathered.push(place);
        }
    }
    gathered.dedup();
    gathered
}

/// The trace that a path ending in `.*` stands for; `None` for any other.
pub(crate) fn open(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    let Some(stem) = path.to_str().and_then(|text| text.strip_suffix(".*")) else { return Ok(None) };
    if path.exists() {
        return Ok(None);
    }
    let doing = || format!("reading {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut merged = Merged::default();
    for entry in fs::read_dir(folder).doing(doing())? {
        let file = entry.doing(doing())?.file_name();
        let file = path.with_file_name(file);
        if let Some((_, thread)) = thread_of(&file).filter(|(other, _)| other == Path::new(stem)) {
            if merged.threads.len() == MOST_FILES {
                return Err(Error::new(format!("{}: more than {MOST_FILES} files", doing())));
            }
            merged.add(thread, File::open(&file).doing(doing())?).doing(doing())?;
        }
    }
    if merged.threads.is_empty() {
        return Err(Error::new(format!("{}: there is no such file", doing())));
    }
    if merged.threads.len() > 1 && merged.threads.iter().all(|thread| thread.due == Some(Micros::MIN)) {
        let why = "files of several threads cannot be put in order without times: strace -ff needs -ttt";
        return Err(Error::new(format!("{}: {why}", doing())));
    }
    Ok(Some(Box::new(merged)))
}

fn all_of(stem: &Path) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".*");
    PathBuf::from(name)
}

/// `NAME.PID` taken apart.
fn thread_of(file: &Path) -> Option<(PathBuf, u64)> {
    let name = file.file_name()?.to_str()?;
    let (stem, thread) = name.rsplit_once('.')?;
    let digits = !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit());
    Some((file.with_file_name(stem), thread.parse().ok().filter(|_| digits)?))
}

/// Whether its first line is one of strace without a thread: logs that rotate have the same names.
fn is_of_one_thread(file: &Path) -> bool {
    let mut first = Vec::new();
    let Ok(file) = File::open(file) else { return false };
    if BufReader::new(file).take(MOST_LINE_BYTES as u64).read_until(b'\n', &mut first).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&first);
    split(text.trim_end()).is_some_and(|line| line.thread == 0)
}

fn time_of(stamp: Option<Stamp>) -> Option<Micros> {
    match stamp {
        Some(Stamp::Epoch(at) | Stamp::Clock(at)) => Some(at),
        _ => None,
    }
}

struct Thread {
    number: u64,
    lines: BufReader<File>,
    line: Vec<u8>,
    next: Vec<u8>,
    /// When its line is to be given; `None` after the last.
    due: Option<Micros>,
    /// Its line is a read without `-T`, begun then.
    began: Option<Micros>,
    /// The request that its line brings, or the answer.
    said: Option<(Side, Vec<u8>)>,
}

impl Thread {
    fn new(number: u64, file: File) -> Thread {
        let (lines, line, next) = (BufReader::new(file), Vec::new(), Vec::new());
        Thread { number, lines, line, next, due: None, began: None, said: None }
    }

    /// Goes on to the next line.
    fn step(&mut self) -> io::Result<()> {
        self.line = std::mem::take(&mut self.next);
        (self.due, self.began, self.said) = (None, None, None);
        // What is longer than a line may be is given in parts; they belong together by their time.
        (&mut self.lines).take(MOST_LINE_BYTES as u64).read_until(b'\n', &mut self.next)?;
        if self.line.is_empty() {
            return Ok(());
        }
        while self.line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.pop();
        }
        let text = String::from_utf8_lossy(&self.line);
        let Some((at, rest)) = split(&text).and_then(|line| Some((time_of(line.at)?, line.rest))) else {
            self.due = Some(Micros::MIN);
            return Ok(());
        };
        self.due = Some(at);
        let reads = rest.starts_with("read(0");
        if !reads && !rest.starts_with("write(1") {
            return Ok(());
        }
        let Some(call) = rest.split_once('(').and_then(|(_, arguments)| outcome(arguments)) else { return Ok(()) };
        let has = |key: &str| Fields::find(&call.text, key);
        let id = has("id").filter(|_| has("method").is_some() == reads);
        self.said = id.map(|id| (if reads { Side::Client } else { Side::Server }, id.to_vec()));
        let next = String::from_utf8_lossy(&self.next);
        let next = split(next.trim_end()).and_then(|line| time_of(line.at)).filter(|next| *next >= at);
        match (reads, call.took) {
            (true, Some(took)) => self.due = Some(at.saturating_add(took)),
            (true, None) => {
                self.began = Some(at);
                self.due = next.or(Some(at));
            }
            _ => {}
        }
        Ok(())
    }

    fn asks(&self, id: &[u8]) -> bool {
        self.said.as_ref().is_some_and(|(from, asked)| *from == Side::Client && asked == id)
    }
}

/// Gives the lines of all threads by time.
#[derive(Default)]
struct Merged {
    threads: Vec<Thread>,
    out: Vec<u8>,
    given: usize,
    now: Micros,
}

impl Merged {
    fn add(&mut self, number: u64, file: File) -> io::Result<()> {
        let mut thread = Thread::new(number, file);
        thread.step()?;
        thread.step()?;
        self.threads.push(thread);
        Ok(())
    }

    fn next_line(&mut self) -> io::Result<()> {
        let first = self.threads.iter().enumerate().filter_map(|(index, thread)| Some((thread.due?, index))).min();
        let Some((at, mut index)) = first else { return Ok(()) };
        // A line without a time stands where it stood.
        self.now = self.now.max(at);
        // That a thread's next line begins late does not mean that it waited: nothing is answered before it was read.
        if let Some((Side::Server, id)) = &self.threads[index].said
            && let Some(asks) =
                self.threads.iter().position(|thread| thread.began.is_some_and(|began| began <= at) && thread.asks(id))
        {
            index = asks;
        }
        let thread = &mut self.threads[index];
        self.out.extend_from_slice(thread.number.to_string().as_bytes());
        self.out.push(b' ');
        self.out.extend_from_slice(&thread.line);
        if let Some(began) = thread.began {
            let took = (self.now - began).max(0);
            let behind = format!(" <{}.{:06}>", took / time::SECOND, took % time::SECOND);
            self.out.extend_from_slice(behind.as_bytes());
        }
        self.out.push(b'\n');
        thread.step()
    }
}

impl Read for Merged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.out.clear();
            self.given = 0;
            self.next_line()?;
        }
        let len = buffer.len().min(self.out.len() - self.given);
        buffer[..len].copy_from_slice(&self.out[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_merged_by_when_bytes_moved() {
        let folder = std::env::temp_dir().join(format!("rpctap-threads-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        file(
            "t.7",
            "1794978000.000001 read(0, \"{}\", 9) = 2\n1794978000.000005 read(0, \"{}\", 9) = 2\n1794978000.000009 +++ exited with 0 +++\n",
        );
        file("t.8", "1794978000.000003 write(2, \"x\", 1) = 1\n1794978000.000006 write(1, \"{}\", 2) = 2\n");
        file(
            "u.1",
            "1794978000.000001 read(0, \"{\\\"id\\\":2,\\\"method\\\":0}\", 9) = 19\n1794978000.000009 close(1) = 0\n",
        );
        file("u.2", "1794978000.000004 write(1, \"{\\\"id\\\":2,\\\"result\\\":0}\", 19) = 19\n");
        file("v.1", "read(0, \"{}\", 9) = 2\n");
        file("v.2", "write(1, \"{}\", 9) = 2\n");
        file("w.1", "read(0, \"{}\", 9) = 2\n");
        file("app.log.1", "hello\n");
        file("app.log.2", "hello\n");
        let files = crate::import::files_of(&folder).expect("files");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, ["app.log.1", "app.log.2", "t.*", "u.*", "v.*", "w.*"]);
        let mut text = String::new();
        open(&files[2]).expect("readable").expect("a group").read_to_string(&mut text).expect("text");
        assert_eq!(
            text,
            "8 1794978000.000003 write(2, \"x\", 1) = 1\n\
             7 1794978000.000001 read(0, \"{}\", 9) = 2 <0.000004>\n\
             8 1794978000.000006 write(1, \"{}\", 2) = 2\n\
             7 1794978000.000005 read(0, \"{}\", 9) = 2 <0.000004>\n\
             7 1794978000.000009 +++ exited with 0 +++\n"
        );
        let mut text = String::new();
        open(&files[3]).expect("readable").expect("a group").read_to_string(&mut text).expect("text");
        let order: Vec<&str> = text.lines().map(|line| &line[..1]).collect();
        assert_eq!(order, ["1", "2", "1"], "no answer stands before its request");
        let refused = open(&files[4]).err().expect("no times").to_string();
        assert!(refused.contains("strace -ff needs -ttt"), "{refused}");
        let mut text = String::new();
        open(&files[5]).expect("readable").expect("a group").read_to_string(&mut text).expect("text");
        assert_eq!(text, "1 read(0, \"{}\", 9) = 2\n", "one alone needs no order");
        assert!(open(Path::new("none.*")).is_err() && open(Path::new("none")).expect("fine").is_none());
        let _ = fs::remove_dir_all(&folder);
    }
}
