//! Reads on a thread of its own, some blocks ahead of whoever translates them.
//!
//! Comes in: any reader. Goes out: the same bytes, and the same error at the same place. Reading, unpacking and the
//! fingerprint take a third of an importer's time; two cores share it this way. What is held is bounded.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Fits the cache of a core beside what else is at work there.
const BLOCK_BYTES: usize = 256 * 1024;
const BLOCKS_AHEAD: usize = 4;

pub(super) struct Ahead {
    blocks: Receiver<io::Result<Vec<u8>>>,
    spent: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    given: usize,
}

impl Ahead {
    /// The reader, read ahead; or where there is no thread to be had, nothing but an error to read.
    pub fn of(reader: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let (sender, blocks) = sync_channel(BLOCKS_AHEAD);
        let (spent, empty) = sync_channel(BLOCKS_AHEAD + 2);
        // Nobody waits for its end: it stops when the blocks have no taker, or with the program.
        match thread::Builder::new().name("read".to_string()).spawn(move || read_on(reader, &sender, &empty)) {
            Ok(_) => Box::new(Ahead { blocks, spent, block: Vec::new(), given: 0 }),
            Err(cause) => Box::new(Failing(Some(cause))),
        }
    }
}

fn read_on(mut reader: Box<dyn Read + Send>, blocks: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) {
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        block.resize(BLOCK_BYTES, 0);
        // A pipe gives little at a time, and what it gave is not held back.
        let read = match reader.read(&mut block) {
            Ok(0) => return,
            Ok(len) => {
                block.truncate(len);
                Ok(block)
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => Err(cause),
        };
        let failed = read.is_err();
        if blocks.send(read).is_err() || failed {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.block.len() {
            // The thread is gone: that was the end.
            let Ok(next) = self.blocks.recv() else { return Ok(0) };
            let spent = std::mem::replace(&mut self.block, next?);
            let _ = self.spent.try_send(spent);
            self.given = 0;
        }
        let len = into.len().min(self.block.len() - self.given);
        into[..len].copy_from_slice(&self.block[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, now and then an interruption, and at last an error.
    struct Halting(Vec<u8>, usize);

    impl Read for Halting {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.1 == self.0.len() {
                return Err(io::Error::other("no more"));
            }
            if self.1.is_multiple_of(5) && self.1 > 0 && into.len() != 3 {
                self.1 += 1;
                into[0] = self.0[self.1 - 1];
                return Ok(1);
            }
            let len = into.len().min(7).min(self.0.len() - self.1);
            into[..len].copy_from_slice(&self.0[self.1..self.1 + len]);
            self.1 += len;
            Ok(len)
        }
    }

    #[test]
    fn what_was_read_ahead_is_what_was_there_and_the_error_comes_behind_it() {
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number * 31) as u8).collect();
        let mut ahead = Ahead::of(Box::new(Halting(bytes.clone(), 0)));
        let mut found = Vec::new();
        let ended = ahead.read_to_end(&mut found);
        assert_eq!(ended.expect_err("the reader's own").to_string(), "no more");
        assert_eq!(found, bytes);
        let mut whole = Vec::new();
        Ahead::of(Box::new(io::Cursor::new(bytes.clone()))).read_to_end(&mut whole).expect("the end");
        assert_eq!(whole, bytes);
    }

    #[test]
    fn a_reader_nobody_reads_from_is_let_go() {
        let (told, heard) = sync_channel::<()>(1);
        struct Endless(#[allow(dead_code)] SyncSender<()>);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into.fill(b'x');
                Ok(into.len())
            }
        }
        let mut ahead = Ahead::of(Box::new(Endless(told)));
        assert_eq!(ahead.read(&mut [0; 10]).expect("bytes"), 10);
        drop(ahead);
        // Its end is told by the channel it drops.
        assert!(heard.recv().is_err());
    }
}
