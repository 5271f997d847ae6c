//! Where the store is: `--store`, else `RPCTAP_STORE`, else the user's data folder (XDG).
//!
//! Clients start servers with a thin environment and an arbitrary working directory, so nothing here asks for
//! PATH, and only a path the user wrote himself is taken relative to where we stand.

use std::env;
use std::path::{Path, PathBuf};

use super::record::tell;
use crate::error::{Error, Result};
use crate::report::safe::safe;
use crate::store;

/// The store's file in the user's data folder.
const DEFAULT_STORE: &str = "rpctap/store.db";

#[derive(clap::Args, Debug, Clone, Default)]
pub struct StorePlace {
    /// The store to use [default: rpctap/store.db in the user's data folder]
    #[arg(long = "store", value_name = "FILE", env = "RPCTAP_STORE")]
    pub store: Option<PathBuf>,
}

impl StorePlace {
    pub fn path(&self) -> Result<PathBuf> {
        if let Some(path) = self.named() {
            return Ok(path.clone());
        }
        data_folder().map(|folder| folder.join(DEFAULT_STORE)).ok_or_else(|| {
            Error::new("finding the store: neither XDG_DATA_HOME nor HOME is set; name it with --store FILE")
        })
    }

    /// The same for those who write there: a folder that is missing is made. Where the user named it that is said,
    /// since a slip of the pen makes one as well. What is in the way of it is told by whoever opens the store.
    pub fn make_folder(&self, path: &Path) {
        if self.named().is_some()
            && let Ok(Some(folder)) = store::make_folder(path)
        {
            tell(&format!("made the folder {} for the store", safe(&folder.display().to_string())));
        }
    }

    fn named(&self) -> Option<&PathBuf> {
        self.store.as_ref().filter(|path| !path.as_os_str().is_empty())
    }
}

fn data_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
}
