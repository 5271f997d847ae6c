//! An upgraded connection: bytes both ways, each piece passed on at once and copied to the tape.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::event::{How, Party, Side};
use crate::peer::dial::Stream;

use super::client::Client;
use super::notes::Carrier;

const PIECE_BYTES: usize = 16 * 1024;

/// A side that says nothing more may also never end: a server that does not mind that its client has gone.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs until both sides are done, or one is and the other has had its time. `said` came from the server right behind its agreement.
pub(super) async fn run(client: &mut Client, server: Stream, said: Vec<u8>, mut carrier: Carrier) {
    let agreed = client.outbox.unsent();
    let asked = std::mem::take(&mut client.held);
    let (from_client, mut to_client) = client.stream.split();
    let (from_server, to_server) = tokio::io::split(server);
    if to_client.write_all(&agreed).await.is_err() {
        return carrier.closed(Party::Client, How::Reset);
    }
    let (by, how) = {
        let up = carry(from_client, to_server, asked, &carrier, Side::Client);
        let down = carry(from_server, to_client, said, &carrier, Side::Server);
        tokio::pin!(up, down);
        // Whoever stops first ended it; the other may still say its last words, if there is somebody to hear them.
        let torn = (Party::Client, How::Reset);
        tokio::select! {
            ended = &mut up => { if ended != torn { let _ = timeout(LAST_WORDS, down).await; } ended }
            ended = &mut down => { if ended != torn { let _ = timeout(LAST_WORDS, up).await; } ended }
        }
    };
    carrier.closed(by, how);
}

/// Carries one direction until it ends; says who ended it and how.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    first: Vec<u8>,
    carrier: &Carrier,
    side: Side,
) -> (Party, How) {
    let (reader, writer) = match side {
        Side::Client => (Party::Client, Party::Server),
        Side::Server => (Party::Server, Party::Client),
    };
    let mut read = first.len();
    let mut piece = first;
    piece.resize(piece.len().max(PIECE_BYTES), 0);
    loop {
        if read > 0 {
            carrier.body(side, &piece[..read]);
            if to.write_all(&piece[..read]).await.is_err() || to.flush().await.is_err() {
                return (writer, How::Reset);
            }
        }
        read = match from.read(&mut piece).await {
            Ok(read) if read > 0 => read,
            ended => {
                let _ = to.shutdown().await;
                return (reader, if ended.is_ok() { How::Eof } else { How::Reset });
            }
        };
    }
}
