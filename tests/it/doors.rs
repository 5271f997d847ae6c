//! Reads each file's `use crate::…` and paths, and names file, line and reason when a door is forced.

use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms a room may use. `error` is open to all.
const DOORS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("rpc", &["wire"]),
    ("event", &["wire", "rpc"]),
    ("protocol", &["rpc"]),
    ("peer", &[]),
    ("tap", &["peer", "wire", "event"]),
    ("import", &["wire", "rpc", "event"]),
    ("store", &["rpc", "event", "wire"]),
    ("exchange", &["rpc", "event", "protocol"]),
    ("finding", &["rpc", "event", "protocol", "exchange"]),
    ("report", &["rpc", "event", "protocol", "exchange", "finding"]),
    ("replay", &["peer", "wire", "rpc", "event", "protocol", "exchange", "finding"]),
    ("fixture", &["rpc", "event", "protocol", "exchange", "finding", "replay"]),
];

/// Packages that stand only in these rooms (or this folder of a room).
const PACKAGES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store"]),
    ("plotters", &["report/chart"]),
    ("ab_glyph", &["report/chart"]),
    ("clap", &["cli", "main.rs"]),
    ("tokio", &["peer", "tap", "replay", "cli"]),
    ("hyper", &["peer", "replay"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The names that follow `crate::` in a line: one, or those at the top of a braced list.
fn rooms_named(line: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let rest = &line[at + "crate::".len()..];
        let word = |text: &str| {
            let text = text.trim_start();
            text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())].to_string()
        };
        match rest.strip_prefix('{') {
            None => rooms.push(word(rest)),
            Some(list) => {
                let mut depth = 0;
                let mut start = 0;
                for (end, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        ',' | '}' if depth == 0 => {
                            rooms.push(word(&list[start..end]));
                            start = end + 1;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    rooms
}

#[test]
fn no_door_is_forced() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 10, "the walk found only {} files", files.len());
    let mut forced = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
        let room = inside.split('/').next().unwrap_or_default().to_string();
        let text = fs::read_to_string(&file).expect("readable source");
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(&text);
        for (number, line) in product.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            if let Some((_, allowed)) = DOORS.iter().find(|(name, _)| *name == room) {
                for used in rooms_named(line) {
                    let is_room = used == "cli" || DOORS.iter().any(|(name, _)| *name == used);
                    if is_room && used != room && !allowed.contains(&used.as_str()) {
                        forced.push(format!("src/{inside}:{}: {room} may not use {used}", number + 1));
                    }
                }
            }
            for (package, places) in PACKAGES {
                let used = line.contains(&format!("{package}::")) || line.contains(&format!("use {package};"));
                let named_alone = line
                    .match_indices(&format!("{package}::"))
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
                if used && named_alone && !places.iter().any(|place| inside.starts_with(place)) {
                    forced.push(format!("src/{inside}:{}: {package} belongs in {places:?}", number + 1));
                }
            }
        }
    }
    assert!(forced.is_empty(), "forced doors:\n{}", forced.join("\n"));
}

#[test]
fn the_reader_of_doors_sees_through_lists() {
    assert_eq!(rooms_named("use crate::{event::{Event, Side}, store::Store};"), ["event", "store"]);
    assert_eq!(rooms_named("let x = crate::wire::Fault::Garbage;"), ["wire"]);
}
