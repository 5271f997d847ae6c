//! rpctap: record JSON-RPC traffic, keep it, and tell what was left hanging.
//!
//! # The line
//!
//! ```text
//!         wire         rpc           event          store          exchange        finding        report
//! bytes ───────▶ Frame ─────▶ Message ─────▶ Event ───────▶ rows ──────────▶ Fact ───────▶ Finding ──────▶ text, json,
//!                                             ▲  ▲            │                                            html, charts
//!                                  tap ───────┘  │            ├──▶ replay   (recorded messages to a live peer)
//!                           (live bytes in)   import          └──▶ fixture  (a slice, cut into a runnable test)
//!                                         (old logs in)
//! ```
//!
//! Nothing flows back. Left of `store` is *what happened*: never judged, never altered. Right of it is
//! *what it means*: always recomputable. Events are the only truth; facts and findings are derived.
//!
//! # The rooms, in reading order
//!
//! | room | takes → gives | the noun |
//! | --- | --- | --- |
//! | [`wire`] | bytes → frames | `Piece`, `Fault` |
//! | [`rpc`] | frame → messages | `Message`, `Id`, `Marks` |
//! | [`event`] | message → event | `Event`, `Session`, `Sink` |
//! | [`store`] | events ↔ rows | `Store` |
//! | [`protocol`] | message → meaning | `Protocol` |
//! | [`exchange`] | events → facts | `Exchange`, `Outcome` |
//! | [`finding`] | facts → findings | `Finding`, `Rule` |
//! | [`report`] | findings, series → bytes | `Report` |
//! | [`peer`] | reaches the other program | `Peer` |
//! | [`tap`] | live peers → events | `Tap` |
//! | [`import`] | log file → events | `Importer` |
//! | [`replay`] | session + live peer → divergences | `Script` |
//! | [`fixture`] | session + finding → test files | `Fixture` |
//! | [`cli`] | argv → calls, exit code | `Command` |
//!
//! Who may use whom is kept by `tests/it/doors.rs`.
//!
//! # The promises
//!
//! 1. The tap forwards bytes before anything looks at them; what leaves is what entered, in order, at once. All that
//!    comes before is a copy of the chunk into memory: were it made after, an answer could be on the tape before
//!    its question.
//! 2. The tap never waits for the store, and does not drop. What the queue (bounded in bytes) cannot hold spills to
//!    a file beside the store and is taken in later, also after a crash. Only when even that fails are events
//!    counted as lost; then the loss is itself recorded and the user is told.
//! 3. Nothing a peer sends can end a recording: what cannot be understood is stored as it came, with the reason.
//! 4. Raw bytes are stored once, unaltered (but for redaction the user asked for), and are what replay sends.
//! 5. Live, imported and sample traffic reach the store as the same `Event`, through the same door.
//! 6. Analysis is a fold over events in one pass: a pure function of events, limits and `as_of`. The same code
//!    serves a finished store, a log read straight through and a live session. Its memory grows with what is
//!    open, never with what has passed.
//! 7. A finding that a loss, a truncation or a late start of the capture could explain is not made, or says so.
//! 8. The wire shows obligations, not work. "Leak" is said only of an obligation or a resource that is visibly
//!    still open; everything else is "suspected", and who is at fault is named only where the wire proves it.

pub mod error;

pub mod wire;

pub mod rpc;

pub mod event;

pub mod store;

pub mod protocol;

pub mod exchange;

pub mod finding;

pub mod report;

pub mod peer;

pub mod tap;

pub mod import;

pub mod replay;

pub mod fixture;

pub mod cli;
