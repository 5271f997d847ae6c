//! The two ends of an exchange as bytes: what is read lies on a desk all connections of a worker share, what cannot be
//! written at once waits in an outbox of its own.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is read at once at most, and held for one direction of one exchange.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// A waiting outbox larger than this gives its memory back.
const SMALL_BYTES: usize = 8 * 1024;

/// Where a worker puts what it has just read.
pub(super) struct Desk {
    input: Box<[u8]>,
    /// For data that came in several chunks.
    pub(super) gathered: Vec<u8>,
}

thread_local! {
    static DESK: RefCell<Desk> =
        RefCell::new(Desk { input: vec![0; PIECE_BYTES].into_boxed_slice(), gathered: Vec::new() });
}

/// Reads what has come and has it looked at. `Ok` with no bytes is the end.
pub(super) fn poll_read<T>(
    from: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    look: impl FnOnce(&[u8], &mut Vec<u8>) -> T,
) -> Poll<io::Result<T>> {
    DESK.with_borrow_mut(|desk| {
        let mut buffer = ReadBuf::new(&mut desk.input);
        ready!(Pin::new(from).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(look(buffer.filled(), &mut desk.gathered)))
    })
}

/// For what is not read from a connection just now.
pub(super) fn with_gathered<T>(look: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    DESK.with_borrow_mut(|desk| look(&mut desk.gathered))
}

/// What is on its way to one side.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) bytes: Vec<u8>,
    sent: usize,
    /// Written, but perhaps not past a buffer below.
    unflushed: bool,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.unflushed
    }

    /// Nothing of it has gone out.
    pub(super) fn is_untouched(&self) -> bool {
        self.sent == 0 && !self.unflushed
    }

    /// Takes out what has not gone out.
    pub(super) fn unsent(&mut self) -> Vec<u8> {
        let unsent = self.bytes.split_off(self.sent);
        self.clear();
        unsent
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.unflushed = false;
    }

    /// Gives back what memory a large message took.
    pub(super) fn shrink(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > SMALL_BYTES {
            self.bytes = Vec::new();
        }
    }

    pub(super) fn poll_send(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            match ready!(Pin::new(&mut *to).poll_write(context, &self.bytes[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
            self.unflushed = true;
        }
        self.bytes.clear();
        self.sent = 0;
        if self.unflushed {
            ready!(Pin::new(to).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything and fails to pass it on, as TLS does over a connection that is gone.
    struct Swallowing;

    impl AsyncWrite for Swallowing {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn what_was_swallowed_is_not_there_to_be_sent_again() {
        let mut outbox = Outbox { bytes: b"POST / HTTP/1.1".to_vec(), ..Outbox::default() };
        assert!(outbox.is_untouched());
        let sent = outbox.poll_send(&mut Swallowing, &mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(sent, Poll::Ready(Err(_))));
        assert!(!outbox.is_untouched());
    }

    #[test]
    fn what_has_not_gone_out_can_be_taken_back() {
        let mut outbox = Outbox { bytes: b"abcdef".to_vec(), sent: 2, unflushed: true };
        assert_eq!(outbox.unsent(), b"cdef");
        assert!(outbox.is_empty() && outbox.is_untouched());
    }
}
