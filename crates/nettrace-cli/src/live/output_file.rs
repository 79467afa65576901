//! The file that a live trace goes to: new, in place of another, or a device or pipe.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crate::{
    convert::destination::{lock, open_stream, refuse_if_written},
    failure::Failure,
};

/// The file, device or pipe that a trace goes to.
pub(super) enum OutputFile<'a> {
    /// A file with a name that nothing has yet.
    New(&'a Path),
    /// A file that the new one replaces.
    Existing(&'a Path),
    /// A device or named pipe.
    Stream(&'a Path),
}

impl<'a> OutputFile<'a> {
    /// A symbolic link is refused, as by sessions and conversions: in a folder that others can
    /// write to, it would lead to a file of its maker's choice.
    ///
    /// A device or pipe must be named by the user. Anybody can put one where the name of a process
    /// leads, and read there.
    pub(super) fn find(path: &'a Path, force: bool, is_named: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::Destination(path.display().to_string(), error);
        let refuse = |why: &'static str| Err(failed(io::Error::new(ErrorKind::AlreadyExists, why)));
        match fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_symlink() => refuse("it is a symbolic link; name its target"),
            Ok(kind) if kind.is_dir() => refuse("it is a directory"),
            Ok(kind) if !kind.is_file() && is_named => Ok(Self::Stream(path)),
            Ok(kind) if !kind.is_file() => refuse("it is no file"),
            Ok(_) if force => {
                refuse_if_written(path).map_err(failed)?;
                Ok(Self::Existing(path))
            }
            Ok(_) => refuse("it exists; --force replaces it"),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::New(path)),
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn create(self) -> Result<File, Failure> {
        let (Self::New(path) | Self::Existing(path) | Self::Stream(path)) = self;
        let mut options = File::options();
        options.write(true);
        let made = match self {
            Self::Stream(_) => open_stream(path),
            Self::New(_) => options.create_new(true).mode(0o600).open(path),
            // A file of its own: the old one may be open to others, or have other names.
            Self::Existing(_) => refuse_if_written(path)
                .and_then(|()| fs::remove_file(path))
                .and_then(|()| options.create_new(true).mode(0o600).open(path)),
        };
        if let (Self::New(_) | Self::Existing(_), Ok(file)) = (&self, &made) {
            // A file system without locks has no one to ask for one, either.
            let _ = lock(file);
        }
        made.map_err(|error| Failure::Destination(path.display().to_string(), error))
    }
}
