//! Files that a sink has written, and may delete.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::failure::during;
use super::platform::Identity;

/// A finished file.
#[derive(Debug)]
pub(crate) struct OwnFile {
    path: PathBuf,
    identity: Option<Identity>,
}

impl OwnFile {
    pub(super) fn new(path: impl Into<PathBuf>, identity: Option<Identity>) -> Self {
        Self { path: path.into(), identity }
    }

    /// Deletes the file if its name still stands for it. A file that is gone or replaced does not
    /// belong to this process any more.
    pub(crate) fn delete(&self) -> io::Result<()> {
        let context = || format!("cannot delete the old trace {}", self.path.display());
        match Identity::at(&self.path) {
            Ok(found) if Some(found) == self.identity => {}
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Ok(());
            }
            Err(error) => return Err(during(context(), error)),
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(during(context(), error)),
            _ => Ok(()),
        }
    }
}
