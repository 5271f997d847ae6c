//! What the first argument of a call says: which descriptor, where it leads, and who speaks through it.

use crate::event::Side;

/// The descriptor a call begins with, and what `-y` says it leads to.
pub(super) fn descriptor(arguments: &str) -> Option<(u32, Option<String>)> {
    let digits = arguments.find(|c: char| !c.is_ascii_digit()).unwrap_or(arguments.len());
    let descriptor = arguments[..digits].parse().ok()?;
    let target = arguments[digits..].strip_prefix('<').and_then(|rest| {
        // A socket of `-yy` has an arrow inside.
        let end = rest.find(">, ").or_else(|| rest.find('>'))?;
        Some(rest[..end].to_string())
    });
    Some((descriptor, target))
}

/// Whether a call moves bytes through a socket, by its name or by what `-y` says.
pub(super) fn is_socket(call: &str, target: Option<&str>) -> bool {
    let by_name = call.starts_with("send") || call.starts_with("recv");
    by_name || target.is_some_and(|target| ["socket:", "UNIX", "TCP"].iter().any(|kind| target.starts_with(kind)))
}

/// Who sends what moves through this descriptor, if it is one of the three. A socket on descriptor 0 or 1 carries both ways.
pub(super) fn carries(descriptor: u32, reads: bool, socket: bool) -> Option<Option<Side>> {
    match (descriptor, reads) {
        (0, true) => Some(Some(Side::Client)),
        (1, false) => Some(Some(Side::Server)),
        (2, false) => Some(None),
        (1, true) if socket => Some(Some(Side::Client)),
        (0, false) if socket => Some(Some(Side::Server)),
        _ => None,
    }
}
