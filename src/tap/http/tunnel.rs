//! An upgraded connection: bytes both ways, each piece passed on at once, then copied to the tape.

use std::sync::Arc;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::event::{How, Party, Side};

use super::notes::Carrier;

const PIECE_BYTES: usize = 16 * 1024;

/// Told as left when the worker is stopped while the tunnel runs.
struct Running(Arc<Carrier>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.left();
    }
}

pub(super) async fn run(client: OnUpgrade, server: OnUpgrade, carrier: Arc<Carrier>, open: mpsc::Sender<()>) {
    let running = Running(carrier);
    let carrier = &running.0;
    let (client, server) = match (client.await, server.await) {
        (Ok(client), Ok(server)) => (TokioIo::new(client), TokioIo::new(server)),
        (Err(_), _) => return carrier.closed(Party::Client, How::Reset),
        (_, Err(_)) => return carrier.closed(Party::Server, How::Reset),
    };
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    let up = carry(from_client, to_server, carrier, Side::Client);
    let down = carry(from_server, to_client, carrier, Side::Server);
    tokio::pin!(up, down);
    // Whoever stops first ended it; the other direction may still say its last words.
    let (by, how) = tokio::select! {
        ended = &mut up => { let _ = (&mut down).await; ended }
        ended = &mut down => { let _ = (&mut up).await; ended }
    };
    carrier.closed(by, how);
    drop(open);
}

/// Carries one direction until it ends; says who ended it and how.
async fn carry(
    mut from: ReadHalf<TokioIo<Upgraded>>,
    mut to: WriteHalf<TokioIo<Upgraded>>,
    carrier: &Carrier,
    side: Side,
) -> (Party, How) {
    let (reader, writer) = match side {
        Side::Client => (Party::Client, Party::Server),
        Side::Server => (Party::Server, Party::Client),
    };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = match from.read(&mut piece).await {
            Ok(0) => {
                let _ = to.shutdown().await;
                return (reader, How::Eof);
            }
            Ok(read) => read,
            Err(_) => {
                let _ = to.shutdown().await;
                return (reader, How::Reset);
            }
        };
        let passed = to.write_all(&piece[..read]).await;
        carrier.body(side, &piece[..read]);
        if passed.is_err() {
            return (writer, How::Reset);
        }
    }
}
