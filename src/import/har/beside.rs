//! Bodies that a HAR keeps in files of their own, beside it (Playwright's `content: "attach"`).
//!
//! A HAR may come from anybody: only a plain name is followed, only to a regular file in the HAR's own folder.

use std::path::{Path, PathBuf};

/// As long as the longest entry that is read.
const LONGEST_BODY_BYTES: u64 = 16 * 1024 * 1024;

pub(super) fn read(folder: Option<&PathBuf>, name: &str) -> Option<Vec<u8>> {
    let plain = Path::new(name).file_name().is_some_and(|only| only == name) && !name.contains(['/', '\\', ':', '\0']);
    let path = folder.filter(|_| plain)?.join(name);
    let about = std::fs::symlink_metadata(&path).ok()?;
    if !about.is_file() || about.len() > LONGEST_BODY_BYTES {
        return None;
    }
    std::fs::read(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(read(Some(&folder), "lib.rs").is_some());
        for name in ["../Cargo.toml", "..", ".", "", "import/mod.rs", "/etc/hostname", "import", "none"] {
            assert!(read(Some(&folder), name).is_none(), "{name}");
        }
        assert!(read(None, "lib.rs").is_none());
    }
}
