//! What can be wrong with the messages of an HTTP/1.1 connection, and how it is said.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Not the head of a message.
    BadHead,
    /// A head or trailers beyond the limit.
    HeadTooLong,
    /// A Content-Length that is no number, or several that differ.
    BadLength,
    /// Transfer-Encoding beside Content-Length, or one that does not end in `chunked`: two readers may differ.
    AmbiguousLength,
    BadChunk,
    /// The connection ended within a message.
    CutShort,
    /// Bytes are missing from the capture.
    Gap,
}

impl Fault {
    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Fault::BadHead => "what should be the head of an HTTP message is none",
            Fault::HeadTooLong => "the head of an HTTP message is too long to be read",
            Fault::BadLength => "the Content-Length of an HTTP message is no number, or there are several that differ",
            Fault::AmbiguousLength => "how long the body of an HTTP message is can be read in two ways",
            Fault::BadChunk => "a chunked HTTP body breaks its own rules",
            Fault::CutShort => "the connection ended within an HTTP message",
            Fault::Gap => "bytes of this HTTP exchange are missing from the capture",
        }
    }
}
