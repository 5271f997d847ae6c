//! An argument → the files it stands for, and what of a folder is not read.

use std::fs;
use std::path::{Path, PathBuf};

use super::strace::threads;
use crate::error::{Doing, Error, Result};

/// Of each kind of thing that is passed over in a folder, so many are named.
const MOST_NAMED: usize = 5;

/// The files an argument stands for: itself, or, for a folder, all files in it by name (hidden ones left out). Files of one
/// trace are one.
pub fn files_of(argument: &Path) -> Result<Vec<PathBuf>> {
    if argument == Path::new("-") || !argument.is_dir() {
        return Ok(vec![argument.to_path_buf()]);
    }
    let doing = || format!("reading the folder {}", argument.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(argument).doing(doing())? {
        let path = entry.doing(doing())?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::new(format!("{}: there are no files in it", doing())));
    }
    files.sort();
    Ok(threads::gather(files))
}

/// What [`files_of`] leaves out of a folder, in one line for people; hidden files need no word.
pub fn passed_over(argument: &Path) -> Option<String> {
    let entries = fs::read_dir(argument).ok()?;
    let mut left: [(Vec<String>, &str); 3] =
        [(Vec::new(), "a folder"), (Vec::new(), "a link to nothing"), (Vec::new(), "no regular file")];
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = match fs::metadata(&path) {
            Ok(about) if about.is_file() => continue,
            Ok(about) if about.is_dir() => 0,
            Err(_) => 1,
            Ok(_) => 2,
        };
        if !name.starts_with('.') {
            left[kind].0.push(name);
        }
    }
    let mut told = Vec::new();
    for (names, what) in &mut left {
        names.sort();
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !names.is_empty() {
            told.push(format!("{}{more} ({what})", names.join(", ")));
        }
    }
    (!told.is_empty()).then(|| format!("reading the folder {}: passed over {}", argument.display(), told.join("; ")))
}
