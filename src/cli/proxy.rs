//! `rpctap proxy`: put before any HTTP server; forwards everything and keeps a copy.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::place::StorePlace;
use super::record::{tell, tell_ending};
use super::revive::revive as revive_any;
use crate::error::{Doing, Error, Result};
use crate::event::http::HttpSetup;
use crate::event::redact::fresh_key;
use crate::event::tape::Tape;
use crate::event::{Knows, SessionKey, Source, Stamper};
use crate::peer::dial::Address;
use crate::store::recorder::{Heading, Recorder, Recording};
use crate::tap::http::{HttpTranscriber, Notes, Proxy as Tap, ProxyLimits, ProxySetup, Switch};

/// Some seconds of as much traffic as two cores can pass on.
const BACKLOG_BYTES: u64 = 256 * 1024 * 1024;

/// Record an HTTP JSON-RPC server: a reverse proxy that changes nothing and keeps a copy
#[derive(Args)]
pub struct Proxy {
    /// The server, as http://host:port or https://host
    #[arg(long, value_name = "URL")]
    upstream: String,

    /// Where clients connect; port 0 takes any free one, and stderr says which
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    #[command(flatten)]
    place: StorePlace,

    /// What to call the sessions [default: the upstream's host and port]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// A further name under which clients reach this proxy (addresses and localhost always may)
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Which Host the upstream sees [default: the client's for http, the upstream's for https]
    #[arg(long, value_name = "WHOSE")]
    host: Option<Host>,

    /// Take secrets, home folders and user names out of bodies, too, before anything is kept
    #[arg(long)]
    redact: bool,

    /// How long open exchanges may go on after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    drain_seconds: u64,

    /// Client connections open at once; more are answered 503
    #[arg(long, value_name = "N", default_value_t = ProxyLimits::default().connections)]
    max_connections: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Host {
    Client,
    Upstream,
}

impl Proxy {
    pub fn run(self) -> Result<ExitCode> {
        let store = self.place.path()?;
        let upstream = Address::parse(&self.upstream)?;
        let stamper = Stamper::start();
        let secret = fresh_key();
        let setup = HttpSetup {
            name: self.name.clone().unwrap_or_else(|| upstream.authority.clone()),
            source: Source::Http,
            target: upstream.url(),
            knows: Knows::ALL,
            only_rpc: false,
            first_session: 1,
            secret,
        };
        let heading = Heading {
            kind: "http".to_string(),
            number: None,
            session: None,
            veiled: self.redact,
            // With the key: what bodies name must hash as it did, for a session to be known again. The spool is for the
            // user's eyes only, and gone when it is taken in.
            setup: Some(serde_json::json!({ "name": setup.name, "target": setup.target, "key": secret })),
        };
        let tape = Tape::new(Some(heading.spill(&store)));
        let notes = Arc::new(Notes::new(Arc::clone(&tape), stamper, &secret));
        let tap = Tap::bind(self.manner(upstream), notes)?;
        let address = tap.address()?;
        // Before anybody can know that we are there, and end us.
        let signals = Signals::expect()?;
        tell(&format!("listening on http://{address} for {}", self.upstream));
        if !address.ip().is_loopback() {
            tell(&format!(
                "{} can be reached from other machines, and whoever does reaches the upstream",
                address.ip()
            ));
        }
        self.place.make_folder(&store);
        let recorder = Recorder::start(Recording {
            store,
            tape,
            transcriber: Box::new(HttpTranscriber::new(setup)),
            heading,
            session: 1,
            redact: self.redact,
            revive: revive_any,
            backlog_bytes: BACKLOG_BYTES,
            tell: Box::new(tell),
        })?;
        let ended = serve(tap, signals);
        tell_ending(&recorder.finish());
        ended.map(|()| ExitCode::SUCCESS)
    }

    fn manner(&self, upstream: Address) -> ProxySetup {
        let own_host = match self.host {
            Some(host) => host == Host::Upstream,
            // Behind https names choose certificate and site; a plain server is mostly reached by address.
            None => upstream.https,
        };
        ProxySetup {
            listen: self.listen,
            upstream,
            allow_hosts: self.allow_host.clone(),
            own_host,
            limits: ProxyLimits {
                connections: self.max_connections,
                drain: Duration::from_secs(self.drain_seconds),
                ..ProxyLimits::default()
            },
        }
    }
}

/// The signals that ask to stop, and what hears them. Those that come before anybody waits are not lost.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn expect() -> Result<Signals> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().doing("starting the signal handler")?;
        let within = runtime.enter();
        let terminate = signal(SignalKind::terminate()).doing("waiting for signals")?;
        let interrupt = signal(SignalKind::interrupt()).doing("waiting for signals")?;
        drop(within);
        Ok(Signals { runtime, terminate, interrupt })
    }
}

/// Serves until a signal asks to stop. A second one does not wait for what is open.
fn serve(tap: Tap, signals: Signals) -> Result<()> {
    let switch = tap.switch();
    let (ended, end) = tokio::sync::oneshot::channel();
    let serving = thread::Builder::new()
        .name("proxy".to_string())
        .spawn(move || {
            let tally = tap.run();
            let _ = ended.send(());
            tally
        })
        .doing("starting the proxy")?;
    let Signals { runtime, terminate, interrupt } = signals;
    runtime.block_on(stop_when_asked(switch, end, terminate, interrupt));
    let tally = serving.join().map_err(|_| Error::new("the proxy failed"))??;
    if tally.turned_away > 0 {
        tell(&format!("{} connections were turned away: too many at once", tally.turned_away));
    }
    Ok(())
}

async fn stop_when_asked(
    switch: Switch,
    mut ended: tokio::sync::oneshot::Receiver<()>,
    mut terminate: Signal,
    mut interrupt: Signal,
) {
    let mut asked = false;
    loop {
        tokio::select! {
            _ = &mut ended => return,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        match asked {
            false => switch.drain(),
            true => switch.stop(),
        }
        asked = true;
    }
}

/// Reads the spool of a proxy that died. What began before the spool cannot be continued: its sessions are new ones.
pub fn revive(heading: &Heading, key: SessionKey) -> HttpTranscriber {
    let word = |name: &str| {
        let found = heading.setup.as_ref().and_then(|setup| setup.get(name)).and_then(|value| value.as_str());
        found.unwrap_or("http").to_string()
    };
    HttpTranscriber::new(HttpSetup {
        name: word("name"),
        source: Source::Http,
        target: word("target"),
        knows: Knows::ALL,
        only_rpc: false,
        // The key itself may stand for a session that is in the store already.
        first_session: key + 1,
        secret: key_in(heading).unwrap_or_else(fresh_key),
    })
    .from_the_middle()
}

fn key_in(heading: &Heading) -> Option<[u8; 32]> {
    serde_json::from_value(heading.setup.as_ref()?.get("key")?.clone()).ok()
}
