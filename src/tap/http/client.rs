//! The client's end of a connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::event::How;

use super::ends::{Outbox, PIECE_BYTES, poll_read};
use super::pulse::Pulse;

const SAID_WITHIN: Duration = Duration::from_secs(5);
const LINGERS: Duration = Duration::from_secs(1);

pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// What it sent and nobody has used.
    pub(super) held: Vec<u8>,
    pub(super) outbox: Outbox,
    pub(super) pulse: Arc<Pulse>,
}

impl Client {
    /// Looks out for the client's end while nothing more is wanted of it. That it was torn wakes nobody when not all it
    /// sent was read: so the task is woken every second. Gives how it ended, and for how long nothing was wanted.
    pub(super) fn poll_leave(&mut self, context: &mut Context<'_>) -> Poll<(How, Duration)> {
        let waited = self.pulse.awaits_upload();
        self.poll_watch(context).map(|how| (how, waited))
    }

    /// Looks out for the client's end, and holds what it sends meanwhile.
    pub(super) fn poll_watch(&mut self, context: &mut Context<'_>) -> Poll<How> {
        while self.held.len() < PIECE_BYTES {
            let held = &mut self.held;
            let read = poll_read(&mut self.stream, context, |bytes, _| {
                held.extend_from_slice(bytes);
                bytes.len()
            });
            match read {
                Poll::Ready(Ok(0)) => return Poll::Ready(How::Eof),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(How::Reset),
                Poll::Pending => return Poll::Pending,
            }
        }
        // More is not held; but that the connection was torn can be seen past what was not read.
        match self.stream.take_error() {
            Ok(None) => Poll::Pending,
            _ => Poll::Ready(How::Reset),
        }
    }

    /// Some clients send line ends behind a body, which are no part of the next request.
    pub(super) fn drop_blank_lines(&mut self) {
        if let Some(b'\r' | b'\n') = self.held.first() {
            let blank = self.held.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.held.drain(..blank);
        }
    }

    /// Says something of our own, behind what is still on its way to the client; whether that could be.
    pub(super) async fn say(&mut self, words: &[u8]) -> bool {
        let mut all = self.outbox.unsent();
        all.extend_from_slice(words);
        let said = self.stream.write_all(&all);
        matches!(tokio::time::timeout(SAID_WITHIN, said).await, Ok(Ok(())))
    }

    /// Ends the connection, but not before the client has had a moment to read what was said last: closing with bytes
    /// unread tears it, and what is on its way is lost.
    pub(super) async fn linger(&mut self) {
        let _ = self.stream.shutdown().await;
        let stream = &mut self.stream;
        let gone = poll_fn(|context| {
            loop {
                match poll_read(stream, context, |bytes, _| bytes.len()) {
                    Poll::Ready(Ok(read)) if read > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let _ = tokio::time::timeout(LINGERS, gone).await;
    }
}
