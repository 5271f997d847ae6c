//! The HTTP proxy between real sockets: an upstream that does as it is told, a client that looks at raw bytes.

mod ends;
mod faithful;
mod faults;
mod hops;
mod moved;
mod process;
mod real_peers;
mod safe;
mod sockets;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rpctap::event::http::HttpSetup;
use rpctap::event::tape::{Tape, transcribe};
use rpctap::event::{Collected, Happening, Knows, Source, Stamper, What};
use rpctap::peer::dial::Address;
use rpctap::tap::http::{HttpTranscriber, Notes, Proxy, ProxyLimits, ProxySetup, Switch, Tally};

/// No answer within this is a failure, never a result.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
pub const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// A server whose every connection is handled by a closure, in a thread of its own.
pub struct Upstream {
    pub address: SocketAddr,
}

impl Upstream {
    pub fn start(serve: impl Fn(Line) + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (serve, stream) = (serve.clone(), stream.unwrap());
                thread::spawn(move || serve(Line::new(stream)));
            }
        });
        Upstream { address }
    }
}

/// One end of a connection.
pub struct Line {
    reader: BufReader<TcpStream>,
}

impl Line {
    pub fn new(stream: TcpStream) -> Line {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Line { reader: BufReader::new(stream) }
    }

    pub fn to(address: SocketAddr) -> Line {
        Line::new(TcpStream::connect(address).unwrap())
    }

    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub fn send(&mut self, text: impl AsRef<[u8]>) -> &mut Line {
        self.reader.get_mut().write_all(text.as_ref()).unwrap();
        self
    }

    /// The head of a message, with its empty line; `""` when the connection ended before it.
    pub fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).unwrap() == 0 {
                assert!(head.is_empty(), "half a head: {head:?}");
                break;
            }
        }
        head
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The head, and the body of the length it says.
    pub fn message(&mut self) -> (String, String) {
        let head = self.head();
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let body = String::from_utf8(self.bytes(length)).unwrap();
        (head, body)
    }

    /// One chunk of a chunked body, without its framing.
    pub fn chunk(&mut self) -> String {
        let mut size = String::new();
        self.reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("no chunk size: {size:?}"));
        let bytes = self.bytes(size + 2);
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    }

    /// Everything until the other side is done; `Err` where it was torn.
    pub fn rest(&mut self) -> std::io::Result<String> {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest)?;
        Ok(String::from_utf8_lossy(&rest).into_owned())
    }

    /// The next line of a body without framing.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line
    }

    /// Waits until the other side has closed, in order or not.
    pub fn gone(&mut self) {
        let mut byte = [0];
        match self.reader.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("more came: {:?}", byte[0] as char),
            Err(cause) => assert_ne!(cause.kind(), std::io::ErrorKind::WouldBlock, "still open after {PATIENCE:?}"),
        }
    }

    /// Tears the connection: the other side gets RST.
    pub fn tear(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let stream = self.reader.into_inner();
        let done = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&stream),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                std::ptr::from_ref(&linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0);
    }

    pub fn close(self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }
}

pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A proxy within this process, and the tape it writes to.
pub struct Tapped {
    pub address: SocketAddr,
    pub switch: Switch,
    tape: Arc<Tape>,
    running: Option<JoinHandle<Tally>>,
}

const SECRET: [u8; 32] = [9; 32];

impl Tapped {
    pub fn before(upstream: SocketAddr) -> Tapped {
        Tapped::with(
            upstream,
            ProxyLimits { workers: 1, drain: Duration::from_secs(10), ..ProxyLimits::default() },
            None,
        )
    }

    pub fn with(upstream: SocketAddr, limits: ProxyLimits, tape: Option<Arc<Tape>>) -> Tapped {
        let tape = tape.unwrap_or_else(|| Tape::new(None));
        let notes = Arc::new(Notes::new(tape.clone(), Stamper::start(), &SECRET));
        let setup = ProxySetup {
            listen: "127.0.0.1:0".parse().unwrap(),
            upstream: Address::parse(&format!("http://{upstream}")).unwrap(),
            allow_hosts: Vec::new(),
            own_host: false,
            limits,
        };
        let proxy = Proxy::bind(setup, notes).unwrap();
        let (address, switch) = (proxy.address().unwrap(), proxy.switch());
        let running = Some(thread::spawn(move || proxy.run().unwrap()));
        Tapped { address, switch, tape, running }
    }

    pub fn line(&self) -> Line {
        Line::to(self.address)
    }

    /// A POST of JSON, with what else the head should hold.
    pub fn post(&self, more: &str, body: &str) -> Line {
        let mut line = self.line();
        let length = body.len();
        line.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n{body}"
        ));
        line
    }

    /// Lets what is open end, and gives what was recorded.
    pub fn finish(mut self) -> Recorded {
        self.switch.drain();
        self.collect()
    }

    /// Ends at once what is open.
    pub fn stop(mut self) -> Recorded {
        self.switch.stop();
        self.collect()
    }

    fn collect(&mut self) -> Recorded {
        let tally = self.running.take().unwrap().join().unwrap();
        let mut kept = Collected::default();
        let mut transcriber = HttpTranscriber::new(HttpSetup {
            name: "up".to_string(),
            source: Source::Http,
            target: "up".to_string(),
            knows: Knows::ALL,
            only_rpc: false,
            first_session: 1,
            secret: SECRET,
        });
        self.tape.close();
        let mut raw = Vec::new();
        while self.tape.next(&mut raw).unwrap().is_some() {
            transcribe(&raw, &mut transcriber, &mut kept);
        }
        Recorded { kept, tally }
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        self.switch.stop();
    }
}

pub struct Recorded {
    pub kept: Collected,
    pub tally: Tally,
}

impl Recorded {
    /// The ends of all carriers in the order they were told: `client reset`.
    pub fn ends(&self) -> Vec<String> {
        self.happenings()
            .filter_map(|what| match what {
                Happening::CarrierClosed { by, how, .. } => Some(format!("{by:?} {how:?}").to_lowercase()),
                _ => None,
            })
            .collect()
    }

    pub fn statuses(&self) -> Vec<u16> {
        self.happenings()
            .filter_map(|what| match what {
                Happening::CarrierHead { status, .. } => Some(*status),
                _ => None,
            })
            .collect()
    }

    /// `-> tools/call`, `<- 1`: all messages.
    pub fn messages(&self) -> Vec<String> {
        let messages = self.kept.events.iter().filter_map(|event| event.message());
        messages
            .map(|(from, message)| {
                let id = message.id.as_ref().map_or(String::new(), |id| format!(" {id}"));
                format!("{}{id} {}", from.arrow(), message.method()).trim_end().to_string()
            })
            .collect()
    }

    pub fn notes(&self) -> Vec<&str> {
        self.happenings()
            .filter_map(|what| match what {
                Happening::Note { text } => Some(text.as_str()),
                Happening::Lost { why, .. } => Some(why.as_str()),
                _ => None,
            })
            .collect()
    }

    pub fn happenings(&self) -> impl Iterator<Item = &Happening> {
        self.kept.events.iter().filter_map(|event| match &event.what {
            What::Happening(what) => Some(what),
            _ => None,
        })
    }
}
