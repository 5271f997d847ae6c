//! Our own trouble, told to the user once and on one line.
//!
//! Comes in: what we were doing and what stopped us. Goes out: one sentence with the way out in it. Broken
//! traffic is never an `Error`: that is a fault or an oddity, which is recorded and reported (see `wire`, `rpc`).

use std::fmt;

/// Something rpctap itself could not do. Printed by `main`, with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A whole sentence: what we were doing, why it failed, what to do about it.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Says what we were doing when `self` happened: `opening the store x.db: <cause>`.
    pub fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self { message: format!("{doing}: {}", self.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(cause: std::io::Error) -> Self {
        Self::new(cause.to_string())
    }
}

/// Adds what we were doing to any failed result.
pub trait Doing<T> {
    fn doing(self, doing: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl fmt::Display) -> Result<T> {
        self.map_err(|cause| Error::new(format!("{doing}: {cause}")))
    }
}
