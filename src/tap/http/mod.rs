//! tap/http: a reverse proxy that changes nothing and sees everything.
//!
//! Comes in: connections of clients. Goes out: their requests to one upstream server and its responses back, chunk by
//! chunk; and notes of all of it for the recorder, through [`Notes`]. Each worker is one thread with its own runtime
//! and gets its share of the clients, so that a request never changes threads.
//! Refuses to know what the bytes mean: all reading happens on the recorder's side ([`HttpTranscriber`]).

mod answer;
mod client;
mod ends;
mod exchange;
mod fields;
mod framing;
mod line;
mod notes;
mod pulse;
mod request;
mod response;
mod tunnel;

pub use notes::{HttpTranscriber, Notes};

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::error::{Doing, Error, Result};
use crate::peer::dial::{Address, Dialer};

use fields::Hosts;
use line::{Forwarder, Line};
use pulse::Watch;
use response::own_words;

/// What the user chose.
#[derive(Debug, Clone)]
pub struct ProxySetup {
    pub listen: SocketAddr,
    pub upstream: Address,
    /// Further names under which clients may reach the proxy.
    pub allow_hosts: Vec<String>,
    /// Replace `Host` by the upstream's own name.
    pub own_host: bool,
    pub limits: ProxyLimits,
}

/// Bounds on what strangers can make us hold.
#[derive(Debug, Clone)]
pub struct ProxyLimits {
    /// Client connections open at once; one more is answered 503.
    pub connections: usize,
    /// The head of a request, in bytes. As much as common servers take, several times over.
    pub head_bytes: usize,
    /// Fields of a request; as many as common servers take.
    pub fields: usize,
    /// A connection on which no request comes, or a head that does not get on, is closed after this.
    pub idle: Duration,
    /// An upload that does not get on is given up after this. Responses may take for ever.
    pub upload_idle: Duration,
    /// How long open exchanges may go on once the proxy was asked to stop.
    pub drain: Duration,
    pub workers: usize,
}

impl Default for ProxyLimits {
    fn default() -> ProxyLimits {
        ProxyLimits {
            connections: 4096,
            head_bytes: 64 * 1024,
            fields: 100,
            idle: Duration::from_secs(75),
            upload_idle: Duration::from_secs(300),
            drain: Duration::from_secs(5),
            // One per core: more would only take turns.
            workers: thread::available_parallelism().map_or(1, |cores| cores.get().min(8)),
        }
    }
}

/// What the proxy did, for the last line on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub connections: u64,
    pub carriers: u64,
    pub turned_away: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    Draining,
    Stopped,
}

/// Asks the proxy to stop, from any thread.
#[derive(Clone)]
pub struct Switch(watch::Sender<Stage>);

impl Switch {
    /// Accept no more; let what is open end for a while.
    pub fn drain(&self) {
        self.0.send_if_modified(|stage| {
            let serving = *stage == Stage::Serving;
            if serving {
                *stage = Stage::Draining;
            }
            serving
        });
    }

    /// End at once.
    pub fn stop(&self) {
        let _ = self.0.send(Stage::Stopped);
    }
}

/// A proxy that listens but does not serve yet.
pub struct Proxy {
    setup: ProxySetup,
    listener: StdListener,
    notes: Arc<Notes>,
    stage: watch::Sender<Stage>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    connections: AtomicU64,
    turned_away: AtomicU64,
}

impl Proxy {
    pub fn bind(setup: ProxySetup, notes: Arc<Notes>) -> Result<Proxy> {
        let listen = setup.listen;
        raise_file_limit();
        let listener = StdListener::bind(listen).doing(format_args!("listening on {listen}"))?;
        listener.set_nonblocking(true).doing(format_args!("listening on {listen}"))?;
        let (stage, _) = watch::channel(Stage::Serving);
        Ok(Proxy { setup, listener, notes, stage, counts: Arc::default() })
    }

    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().doing("asking for the listening address")
    }

    pub fn switch(&self) -> Switch {
        Switch(self.stage.clone())
    }

    fn forwarder(&self, carriers: &Arc<AtomicU64>, cut: &Arc<AtomicBool>) -> Result<Forwarder> {
        let setup = &self.setup;
        Ok(Forwarder {
            dialer: Dialer::new(setup.upstream.clone())?,
            hosts: Hosts::new(setup.listen.ip(), &setup.upstream.authority, &setup.allow_hosts),
            own_host: setup.own_host,
            head_bytes: setup.limits.head_bytes,
            fields: setup.limits.fields,
            upload_idle_limit: setup.limits.upload_idle,
            notes: self.notes.clone(),
            carriers: carriers.clone(),
            cut: cut.clone(),
        })
    }

    /// Serves until the switch says stop and what was open has ended or was cut.
    pub fn run(self) -> Result<Tally> {
        let carriers = Arc::new(AtomicU64::new(1));
        let cut = Arc::new(AtomicBool::new(false));
        let mut workers = Vec::new();
        let mut doors = Vec::new();
        for number in 0..self.setup.limits.workers.max(1) {
            let worker = Worker {
                forwarder: Arc::new(self.forwarder(&carriers, &cut)?),
                limits: self.setup.limits.clone(),
                counts: self.counts.clone(),
                stage: self.stage.subscribe(),
                watch: Arc::default(),
            };
            let (door, clients) = mpsc::unbounded_channel();
            let spawned = thread::Builder::new().name(format!("proxy-{number}")).spawn(move || worker.run(clients));
            workers.push(spawned.doing("starting a worker")?);
            doors.push(door);
        }
        let accepted = accept_all(self.listener, self.stage.subscribe(), doors);
        let ended: Vec<_> = workers.into_iter().map(thread::JoinHandle::join).collect();
        self.notes.finish();
        accepted?;
        for worker in ended {
            worker.map_err(|_| Error::new("a worker of the proxy failed"))??;
        }
        Ok(Tally {
            connections: self.counts.connections.load(Ordering::Relaxed),
            carriers: carriers.load(Ordering::Relaxed) - 1,
            turned_away: self.counts.turned_away.load(Ordering::Relaxed),
        })
    }
}

type Client = (StdStream, SocketAddr);

/// Accepts until told to stop, and deals the clients out in turn: whoever woke first would take them all.
fn accept_all(
    listener: StdListener,
    mut stage: watch::Receiver<Stage>,
    doors: Vec<mpsc::UnboundedSender<Client>>,
) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().doing("starting to accept connections")?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).doing("listening")?;
        let mut turn = 0;
        while *stage.borrow_and_update() == Stage::Serving {
            tokio::select! {
                accepted = listener.accept() => match accepted.and_then(|(stream, from)| Ok((stream.into_std()?, from))) {
                    Ok(client) => {
                        turn = (turn + 1) % doors.len();
                        let _ = doors[turn].send(client);
                    }
                    // Out of file descriptors: others must end first, and asking again at once would spin.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                },
                _ = stage.changed() => {}
            }
        }
        Ok(())
    })
}

struct Worker {
    forwarder: Arc<Forwarder>,
    limits: ProxyLimits,
    counts: Arc<Counts>,
    stage: watch::Receiver<Stage>,
    watch: Arc<Watch>,
}

/// Counts a connection as open for as long as it lives.
struct Counted(Arc<Counts>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Worker {
    fn run(mut self, mut clients: mpsc::UnboundedReceiver<Client>) -> Result<()> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().doing("starting a worker's runtime")?;
        runtime.block_on(async {
            let (open, mut all_closed) = mpsc::channel::<()>(1);
            tokio::spawn(self.watch.clone().look_on(self.limits.idle));
            // Ends when nobody accepts any more.
            while let Some((stream, client)) = clients.recv().await {
                self.accept(stream, client, &open);
            }
            drop(open);
            self.watch.end();
            let stopped = async {
                while *self.stage.borrow_and_update() != Stage::Stopped {
                    if self.stage.changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = all_closed.recv() => {}
                _ = stopped => {}
                _ = tokio::time::sleep(self.limits.drain) => {}
            }
        });
        // What is dropped with the runtime was ended by us.
        self.forwarder.cut.store(true, Ordering::Relaxed);
        // All tasks go; a name that is just being looked up is not waited for, which can take as long as it likes.
        runtime.shutdown_background();
        Ok(())
    }

    fn accept(&self, stream: StdStream, client: SocketAddr, open: &mpsc::Sender<()>) {
        let counted = Counted(self.counts.clone());
        if self.counts.open.fetch_add(1, Ordering::Relaxed) >= self.limits.connections {
            self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
            return turn_away(stream);
        }
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        let number = self.counts.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = stream.set_nodelay(true);
        let pulse = self.watch.follow();
        let line = Line::new(self.forwarder.clone(), stream, pulse.clone(), number, client.ip().to_string());
        let open = open.clone();
        let task = tokio::spawn(async move {
            line.serve().await;
            drop((counted, open));
        });
        pulse.is_of(task.abort_handle());
    }
}

/// Says that there are too many connections, without waiting for anything.
fn turn_away(mut stream: StdStream) {
    let words = own_words(503, "rpctap: too many connections\n", true, false);
    let _ = stream.write_all(words.as_bytes());
}

/// Each exchange takes two file descriptors, and the usual limit of 1024 is meant for programs that use select(2).
#[cfg(unix)]
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(not(unix))]
fn raise_file_limit() {}
