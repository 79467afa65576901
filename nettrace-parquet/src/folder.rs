//! The folder of a result.
//!
//! All files are written into a hidden folder, and get their places when they are complete. So
//! nobody takes half a result for a whole one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::table::at;

/// How many hidden names are tried.
const NAMES: u32 = 1000;

/// What a result has at its top, beside the ending.
const OURS: [&str; 4] = ["events", "spans", "stacks", "types"];

/// A folder under a hidden name. It is removed unless it is published.
#[derive(Debug)]
pub(crate) struct Folder {
    hidden: Option<PathBuf>,
    out: PathBuf,
    force: bool,
}

impl Folder {
    /// The folder that `out` will be. It must not be there yet, or be empty. With `force`, it may
    /// have a result, which is replaced.
    pub(crate) fn create(out: &Path, force: bool) -> io::Result<Self> {
        check(out, force)?;
        let Some(parent) = out.parent() else { return Err(refusal(out, "it is no folder")) };
        let process = std::process::id();
        for number in 0..NAMES {
            let hidden = parent.join(format!(".nettrace-{process}-{number}"));
            match fs::create_dir(&hidden) {
                Ok(()) => {
                    return Ok(Self { hidden: Some(hidden), out: out.to_owned(), force });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&hidden, error)),
            }
        }
        Err(refusal(out, "there are too many folders .nettrace-PID-N beside it; remove them"))
    }

    /// Where files are written.
    pub(crate) fn path(&self) -> &Path {
        self.hidden.as_deref().unwrap_or(&self.out)
    }

    /// Gives the folder its name.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        check(&self.out, self.force)?;
        if self.out.exists() {
            fs::remove_dir_all(&self.out).map_err(|error| at(&self.out, error))?;
        }
        fs::rename(hidden, &self.out).map_err(|error| at(&self.out, error))?;
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // The caller hears of the first error, which is the one that matters.
            let _ = fs::remove_dir_all(hidden);
        }
    }
}

/// Whether a result may have this name.
fn check(out: &Path, force: bool) -> io::Result<()> {
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(out, error)),
        Ok(metadata) if metadata.is_symlink() => {
            return Err(refusal(out, "it is a symbolic link"));
        }
        Ok(metadata) if !metadata.is_dir() => {
            return Err(refusal(out, "it is a file; this format needs a folder"));
        }
        Ok(_) => {}
    }
    for entry in fs::read_dir(out).map_err(|error| at(out, error))? {
        let name = entry.map_err(|error| at(out, error))?.file_name();
        let name = name.to_string_lossy();
        let is_ours = OURS.contains(&name.split('.').next().unwrap_or(""));
        match (is_ours, force) {
            (true, true) => {}
            (true, false) => return Err(refusal(out, "it has tables; --force replaces them")),
            (false, _) => return Err(refusal(out, "it has other files")),
        }
    }
    Ok(())
}

fn refusal(path: &Path, why: &str) -> io::Error {
    at(path, io::Error::new(io::ErrorKind::InvalidInput, why))
}
