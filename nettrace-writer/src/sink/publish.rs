//! Gives a file its name only when the file is complete.
//!
//! A new name, by the best way that the file system offers:
//!
//! 1. A file without a name (`O_TMPFILE`: ext4, XFS, Btrfs, tmpfs, F2FS). It is written, then named
//!    by `linkat`.
//! 2. A rename that replaces nothing (`RENAME_NOREPLACE`, macOS `RENAME_EXCL`; also on FAT). The
//!    file is written under a hidden name, then renamed in this way.
//! 3. Hard links (NFS; other Unixes; Windows). The file is written under a hidden name. `link`
//!    gives it the new name, and the hidden name is removed.
//! 4. None of these (some FUSE and 9p servers). The file is written under a hidden name. An empty
//!    file claims the new name, and `rename` replaces it.
//!
//! To replace a file (`overwrite`) the way is a hidden name, then `rename`. Before, the file is
//! claimed: that fails if somebody writes it (see [`live`](super::live)), and only one process at a
//! time has a claim. If there is none to replace, the name is a new one, which two processes cannot
//! both take. To keep the file as well, it gets a second name before that, so that the first one is
//! never missing; without hard links, it is renamed.
//!
//! In all ways but the last, a name that exists is a complete trace. In the last way it is an empty
//! file between two system calls. There is no other way that never replaces a stranger's file. If
//! the process is killed before the hidden file gets its final name, the hidden file stays:
//! `.nettrace-PID-N`, a trace without events.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::Path;

#[cfg(test)]
use super::complete::CompleteFile;
use super::complete::FileCalls;
use super::failure::during;

/// The fate of a file that has the name already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and the start fails.
    #[default]
    Stays,
    /// It is replaced.
    IsReplaced,
    /// It is replaced, and has [another name](previous) from then on.
    IsKept,
}

/// The name of the file that is kept: `service.previous.nettrace` for `service.nettrace`.
fn previous(name: &OsStr) -> OsString {
    let path = Path::new(name);
    let mut previous = path.file_stem().unwrap_or(name).to_owned();
    previous.push(".previous");
    if let Some(extension) = path.extension() {
        previous.push(".");
        previous.push(extension);
    }
    previous
}

/// The number of hidden names to try.
const HIDDEN_NAMES: u32 = 1_000;
/// The number of attempts to replace a file that others create and remove meanwhile.
const TRIES: u32 = 100;

/// The operations of one directory, on names inside it.
pub(super) trait Directory {
    type File: FileCalls;
    /// The right to replace a file, while it lives.
    type Claim;

    /// Claims the file of that name. `None`: there is none.
    ///
    /// # Errors
    /// [`ErrorKind::ResourceBusy`] if somebody writes it.
    fn claim(&mut self, name: &OsStr) -> io::Result<Option<Self::Claim>>;

    /// Creates an empty file without a name.
    fn create_unnamed(&mut self) -> io::Result<Self::File>;

    /// Names a file without a name, unless the name is taken.
    fn link_unnamed(&mut self, file: &Self::File, name: &OsStr) -> io::Result<()>;

    /// Creates an empty file, unless the name is taken.
    fn create_new(&mut self, name: &OsStr) -> io::Result<Self::File>;

    /// Renames, unless `to` is taken.
    fn rename_new(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Gives a file a second name, unless that is taken. Fails with [`ErrorKind::Unsupported`] if
    /// the file system has no hard links.
    fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Renames, and replaces what `to` names. Follows no link there.
    fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Removes a name.
    fn remove(&mut self, name: &OsStr) -> io::Result<()>;
}

/// Creates the file `name`. `begin` writes a complete stream into it, and `calls` returns the file
/// again.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if the name is taken and its file stays,
/// [`ErrorKind::ResourceBusy`] if it does not and somebody writes the file, otherwise the operating
/// system's error. The name is then as it was before.
pub(super) fn publish<D: Directory, W>(
    directory: &mut D,
    name: &OsStr,
    existing: Existing,
    begin: impl Fn(D::File) -> io::Result<W>,
    calls: impl Fn(&W) -> &D::File,
) -> io::Result<W> {
    claimed(directory, name, existing, |directory, existing| {
        publish_once(directory, name, existing, &begin, &calls)
    })
}

/// Makes an attempt to take a name, with what becomes of the file that has it: nothing if there is
/// none. Meanwhile nobody else replaces that file.
fn claimed<D: Directory, W>(
    directory: &mut D,
    name: &OsStr,
    existing: Existing,
    mut attempt: impl FnMut(&mut D, Existing) -> io::Result<W>,
) -> io::Result<W> {
    let overwrite = existing != Existing::Stays;
    for _ in 0..TRIES {
        let claim = if overwrite { directory.claim(name)? } else { None };
        let found = if claim.is_some() { existing } else { Existing::Stays };
        match attempt(directory, found) {
            // Somebody has taken the name since there was nothing to claim.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && overwrite => drop(claim),
            result => return result,
        }
    }
    let text = "others create and remove it all the time; choose another name";
    Err(io::Error::new(ErrorKind::ResourceBusy, text))
}

fn publish_once<D: Directory, W>(
    directory: &mut D,
    name: &OsStr,
    existing: Existing,
    begin: impl Fn(D::File) -> io::Result<W>,
    calls: impl Fn(&W) -> &D::File,
) -> io::Result<W> {
    if existing == Existing::Stays {
        if let Ok(unnamed) = directory.create_unnamed() {
            let file = begin(unnamed)?;
            match directory.link_unnamed(calls(&file), name) {
                Ok(()) => return Ok(file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                Err(_) => {} // no way to name it here: the next way
            }
        }
    }
    let (hidden, empty) = create_hidden(directory)?;
    let result = begin(empty).and_then(|file| {
        rename_hidden(directory, &hidden, name, existing)?;
        Ok(file)
    });
    if result.is_err() {
        let _ = directory.remove(&hidden); // what went wrong before is what the caller must know
    }
    result
}

/// Gives a hidden file its name.
fn rename_hidden<D: Directory>(
    directory: &mut D,
    hidden: &OsStr,
    name: &OsStr,
    existing: Existing,
) -> io::Result<()> {
    match existing {
        Existing::Stays => place(directory, hidden, name),
        Existing::IsReplaced => directory.rename(hidden, name),
        Existing::IsKept => replace_and_keep(directory, hidden, name),
    }
}

/// A file that gets its name when its stream is whole. Dropped before, it leaves nothing.
#[derive(Debug)]
pub(super) struct UnnamedFile<D: Directory> {
    directory: D,
    name: OsString,
    existing: Existing,
    /// The name that it has meanwhile. `None`: it has none.
    hidden: Option<OsString>,
}

impl<D: Directory> UnnamedFile<D> {
    /// Creates the file. `begin` begins a stream in it.
    ///
    /// # Errors
    /// Those of [`publish`] that are known by now.
    pub(super) fn begin<W>(
        mut directory: D,
        name: &OsStr,
        existing: Existing,
        begin: impl FnOnce(D::File) -> io::Result<W>,
    ) -> io::Result<(Self, W)> {
        let unnamed = if existing == Existing::Stays {
            directory.create_unnamed().ok()
        } else {
            directory.claim(name)?; // as long as the stream takes, others may write the file
            None
        };
        let (hidden, file) = match unnamed {
            Some(file) => (None, file),
            None => {
                let (hidden, file) = create_hidden(&mut directory)?;
                (Some(hidden), file)
            }
        };
        let unnamed = Self { directory, name: name.to_owned(), existing, hidden };
        Ok((unnamed, begin(file)?))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Those of [`publish`].
    pub(super) fn publish(mut self, file: &D::File) -> io::Result<()> {
        let Self { directory, name, existing, hidden } = &mut self;
        claimed(directory, name, *existing, |directory, existing| match hidden.as_deref() {
            None => directory.link_unnamed(file, name),
            Some(hidden) => rename_hidden(directory, hidden, name, existing),
        })?;
        self.hidden = None;
        Ok(())
    }
}

impl<D: Directory> Drop for UnnamedFile<D> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = self.directory.remove(hidden); // what went wrong before is what matters
        }
    }
}

/// [`publish`] for a stream with a header and an end of stream.
#[cfg(test)]
pub(super) fn publish_marked<D: Directory>(
    directory: &mut D,
    name: &OsStr,
    existing: Existing,
    header: &[u8],
    end_of_stream: &'static [u8],
) -> io::Result<CompleteFile<D::File>> {
    let begin = |file| CompleteFile::begin(file, header, end_of_stream);
    publish(directory, name, existing, begin, CompleteFile::calls)
}

fn create_hidden<D: Directory>(directory: &mut D) -> io::Result<(OsString, D::File)> {
    let process = std::process::id();
    for number in 0..HIDDEN_NAMES {
        let hidden = OsString::from(format!(".nettrace-{process}-{number}"));
        match directory.create_new(&hidden) {
            Ok(file) => return Ok((hidden, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let text = format!("too many files .nettrace-{process}-N lie here; remove them");
    Err(io::Error::other(text)) // not `AlreadyExists`, which is about the name itself
}

/// Moves `hidden` to a name that is free.
fn place<D: Directory>(directory: &mut D, hidden: &OsStr, name: &OsStr) -> io::Result<()> {
    match directory.rename_new(hidden, name) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {}
        placed => return placed,
    }
    match directory.link(hidden, name) {
        Ok(()) => {
            let _ = directory.remove(hidden); // a second name of a file that is in its place
            return Ok(());
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) => return Err(error),
    }
    // It is live while it has the name, so nobody replaces it.
    let _claiming = directory.create_new(name)?;
    directory.rename(hidden, name).inspect_err(|_| {
        let _ = directory.remove(name); // the empty file of the line before
    })
}

/// Moves `hidden` to a name whose file, which is claimed, gets another name.
fn replace_and_keep<D: Directory>(
    directory: &mut D,
    hidden: &OsStr,
    name: &OsStr,
) -> io::Result<()> {
    let previous = previous(name);
    // Nobody writes the one before that either.
    let claim = directory.claim(&previous).map_err(|source| {
        let context = format!("cannot keep the old file as {}", previous.to_string_lossy());
        during(context, source)
    });
    if claim?.is_some() {
        directory.remove(&previous)?;
    }
    match directory.link(name, &previous) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            directory.rename(name, &previous)?;
            directory.rename(hidden, name).inspect_err(|_| {
                let _ = directory.rename(&previous, name); // as it was before
            })
        }
        linked => linked.and_then(|()| directory.rename(hidden, name)),
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
