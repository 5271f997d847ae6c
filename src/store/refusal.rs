//! Why a store could not be used, and whether it is worth trying again.

use std::fmt;
use std::io;

use rusqlite::ErrorCode;

use crate::error::Error;

/// A store that would not. A passing refusal (locked, no space) may be gone in a moment; a lasting one (a folder, no
/// database, not ours to write) will not go away by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub passing: bool,
    pub why: String,
}

pub type Tried<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub fn lasting(why: impl Into<String>) -> Refusal {
        Refusal { passing: false, why: why.into() }
    }

    pub fn while_doing(self, doing: impl fmt::Display) -> Refusal {
        Refusal { passing: self.passing, why: format!("{doing}: {}", self.why) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::new(refusal.why)
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(cause: rusqlite::Error) -> Refusal {
        let passing = matches!(
            cause.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::FileLockingProtocolFailed
                    | ErrorCode::OutOfMemory
            )
        );
        Refusal { passing, why: cause.to_string() }
    }
}

impl From<io::Error> for Refusal {
    fn from(cause: io::Error) -> Refusal {
        let passing = matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        Refusal { passing, why: cause.to_string() }
    }
}
