//! The folder of a result.
//!
//! All files are written into a hidden folder, and get their places when they are complete. So
//! nobody takes half a result for a whole one. A partitioned result gets the folders of one trace
//! beside those of others.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::tables::{Tables, at, partition::Partition, refusal};

/// How many hidden names are tried.
const NAMES: u32 = 1000;

/// What a result has at its top, beside the ending.
const OURS: [&str; 4] = ["events", "spans", "stacks", "types"];

/// A folder under a hidden name. It is removed unless it is published.
#[derive(Debug)]
pub(crate) struct Folder {
    hidden: Option<PathBuf>,
    out: PathBuf,
    kind: Kind,
    force: bool,
}

/// What a result is.
#[derive(Debug)]
enum Kind {
    /// The folder, which gets its name.
    Whole,
    /// Folders in a result that may have others.
    Part(Partition, Tables),
}

impl Folder {
    /// The folder that `out` will be. It must not be there yet, or be empty. With `force`, it may
    /// have a result, which is replaced.
    pub(crate) fn create(out: &Path, force: bool) -> io::Result<Self> {
        check(out, force)?;
        let Some(parent) = out.parent() else { return Err(refusal(out, "it is no folder")) };
        Self::hidden(parent, out, Kind::Whole, force)
    }

    /// A place in the partitioned result `out` for one trace. With `force`, what the result has of
    /// this trace is replaced.
    pub(crate) fn part(
        out: &Path,
        partition: Partition,
        tables: Tables,
        force: bool,
    ) -> io::Result<Self> {
        partition.check(out, tables, force)?;
        fs::create_dir_all(out).map_err(|error| at(out, error))?;
        // Inside, as `out` may be a file system of its own.
        Self::hidden(out, out, Kind::Part(partition, tables), force)
    }

    fn hidden(parent: &Path, out: &Path, kind: Kind, force: bool) -> io::Result<Self> {
        let process = std::process::id();
        #[cfg_attr(not(unix), allow(unused_mut, reason = "there are no modes"))]
        let mut folder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        for number in 0..NAMES {
            let hidden = parent.join(format!(".nettrace-{process}-{number}"));
            match folder.create(&hidden) {
                Ok(()) => {
                    return Ok(Self { hidden: Some(hidden), out: out.to_owned(), kind, force });
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
        if let Kind::Part(partition, tables) = &self.kind {
            partition.check(&self.out, *tables, self.force)?;
            // What is left of the hidden folder is removed.
            return partition.publish(hidden, &self.out);
        }
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
            if matches!(self.kind, Kind::Part(..)) {
                // Only if it is empty: it was made for this result.
                let _ = fs::remove_dir(&self.out);
            }
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
        if is_ours && name != "types" && out.join(&*name).is_dir() {
            return Err(refusal(out, "it has partitioned tables"));
        }
        match (is_ours, force) {
            (true, true) => {}
            (true, false) => return Err(refusal(out, "it has tables; --force replaces them")),
            (false, _) => return Err(refusal(out, "it has other files")),
        }
    }
    Ok(())
}

/// The size of all files in a folder and the folders in it, in bytes.
pub(crate) fn size(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder).map_err(|error| at(folder, error))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}
