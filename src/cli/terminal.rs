//! What stdout is: a terminal of some width, with or without colour, or a pipe.

use std::io::{IsTerminal, stdout};

use anstream::ColorChoice;

use crate::report::Look;

/// Columns and colour on a terminal only; `NO_COLOR` and a dumb terminal are honoured.
pub fn look() -> Look {
    if !stdout().is_terminal() {
        return Look::PLAIN;
    }
    let colour = anstream::AutoStream::choice(&stdout()) != ColorChoice::Never;
    Look { columns: Some(columns().unwrap_or(100)), colour }
}

#[cfg(unix)]
fn columns() -> Option<usize> {
    // SAFETY: the call fills the struct it is given, which is plain numbers, and keeps no pointer to it.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) == 0).then_some(size)
    };
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}
