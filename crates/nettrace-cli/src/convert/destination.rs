//! Where the result of a conversion, or a report, goes.
//!
//! A file gets its name when it is complete. So nobody takes half a trace for a whole one, and a
//! trace can replace the file that it is read from. Until then the file is `.nettrace-PID-N` in the
//! same directory; a process that is killed leaves it behind.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, Write},
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// Where a trace is written.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OutputFile {
    /// Where to write the result, or - for standard output. A file gets its name when it is
    /// complete
    #[arg(short, long, value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Replace the output file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Takes the bytes of the result, in order.
#[derive(Debug)]
pub(crate) struct Destination<'a, W: Write> {
    place: Place<'a, W>,
    /// What is not at its place before the end.
    held_back: Option<File>,
    written: u64,
}

#[derive(Debug)]
enum Place<'a, W: Write> {
    Stdout(&'a mut W),
    /// A device or named pipe.
    Stream(File, PathBuf),
    File(NewFile),
}

impl<'a, W: Write> Destination<'a, W> {
    /// Opens `path`, or `stdout` for `-`. A file must not exist yet unless `force` allows to
    /// replace it. A symbolic link is refused in any case.
    pub(crate) fn open(path: &Path, force: bool, stdout: &'a mut W) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self { place: Place::Stdout(stdout), held_back: None, written: 0 });
        }
        let refuse = |why| Err(Failure::Destination(path.display().to_string(), refusal(why)));
        let place = match fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_symlink() => return refuse("it is a symbolic link"),
            Ok(kind) if kind.is_dir() => return refuse("it is a directory"),
            Ok(kind) if kind.is_file() && !force => {
                return refuse("it exists; --force replaces it");
            }
            Ok(kind) if !kind.is_file() => {
                Place::Stream(open_stream(path).map_err(|e| failed(path, e))?, path.to_owned())
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(path, error)),
            _ => {
                refuse_if_written(path).map_err(|error| failed(path, error))?;
                Place::File(NewFile::create(path, force).map_err(|error| failed(path, error))?)
            }
        };
        Ok(Self { place, held_back: None, written: 0 })
    }

    /// Lets nobody see anything before [`finish`](Self::finish). For a pipe this takes a file
    /// without a name in the folder for temporary files.
    pub(crate) fn held_back(mut self) -> Result<Self, Failure> {
        if !matches!(self.place, Place::File(_)) {
            self.held_back = Some(tempfile::tempfile().map_err(Failure::Output)?);
        }
        Ok(self)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.written += bytes.len() as u64;
        match &mut self.held_back {
            Some(file) => file.write_all(bytes).map_err(Failure::Output),
            None => self.put(bytes),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.place {
            Place::Stdout(out) => Ok(out.write_all(bytes)?),
            Place::Stream(file, path) => match file.write_all(bytes) {
                // As with standard output: the reader has seen enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(error.into()),
                result => result.map_err(|error| failed(path, error)),
            },
            Place::File(file) => {
                file.file.write_all(bytes).map_err(|error| failed(&file.path, error))
            }
        }
    }

    /// Completes the result. Returns how many bytes it has.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        if let Some(mut file) = self.held_back.take() {
            file.rewind().map_err(Failure::Output)?;
            let mut bytes = vec![0; 1 << 16];
            loop {
                match file.read(&mut bytes).map_err(Failure::Output)? {
                    0 => break,
                    read => self.put(&bytes[..read])?,
                }
            }
        }
        match self.place {
            Place::Stdout(out) => out.flush()?,
            Place::Stream(..) => {}
            Place::File(mut file) => {
                let path = file.path.clone();
                file.publish().map_err(|error| failed(&path, error))?;
            }
        }
        Ok(self.written)
    }
}

/// Opens a device or named pipe. It fails if somebody has put something else in its place, or if
/// somebody else has made the pipe, and could read there.
pub(crate) fn open_stream(path: &Path) -> io::Result<File> {
    refuse_foreign_pipe(&fs::symlink_metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NOFOLLOW.bits() as i32,
    );
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Err(refusal("it was a device or pipe, and is a file now"));
    }
    refuse_foreign_pipe(&metadata)?;
    Ok(file)
}

/// Refuses a named pipe of another user. Root reads what it wants.
fn refuse_foreign_pipe(metadata: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

        let own = rustix::process::geteuid().as_raw();
        if metadata.file_type().is_fifo() && ![0, own].contains(&metadata.uid()) {
            return Err(refusal("it is a named pipe of another user, who could read it"));
        }
    }
    #[cfg(not(unix))]
    let _ = metadata;
    Ok(())
}

/// A file under a hidden name. It is removed unless it is published.
#[derive(Debug)]
struct NewFile {
    file: File,
    hidden: Option<PathBuf>,
    path: PathBuf,
    force: bool,
}

impl NewFile {
    fn create(path: &Path, force: bool) -> io::Result<Self> {
        /// How many hidden names are tried before that is an error.
        const NAMES: u32 = 1000;

        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let process = std::process::id();
        for number in 0..NAMES {
            let hidden = path.with_file_name(format!(".nettrace-{process}-{number}"));
            match options.open(&hidden) {
                Ok(file) => {
                    let (hidden, path) = (Some(hidden), path.to_owned());
                    return Ok(Self { file, hidden, path, force });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(refusal("there are too many files .nettrace-PID-N beside it; remove them"))
    }

    /// Gives the file its name.
    fn publish(&mut self) -> io::Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        if self.force {
            refuse_if_written(&self.path)?;
            fs::rename(hidden, &self.path)?;
        } else {
            match fs::hard_link(hidden, &self.path) {
                Ok(()) => {
                    // The file is in its place; this is its second name.
                    let _ = fs::remove_file(hidden);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                Err(_) => {
                    // No hard links here: an empty file claims the name.
                    drop(OpenOptions::new().write(true).create_new(true).open(&self.path)?);
                    fs::rename(hidden, &self.path)?;
                }
            }
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // The caller hears of the first error, which is the one that matters.
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Refuses to replace a file that a process is writing. What cannot be asked is replaced, since one
/// said so.
pub(crate) fn refuse_if_written(path: &Path) -> io::Result<()> {
    if is_written(path) {
        let text = "a process is writing it; choose another name";
        return Err(io::Error::new(ErrorKind::ResourceBusy, text));
    }
    Ok(())
}

/// Whether a process is writing a file: a session its trace or its recorder file, or `nettrace
/// collect`. Each has a lock on it, which no reader notices.
pub(crate) fn is_written(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use rustix::{
            fs::{FlockOperation, OFlags},
            io::Errno,
        };

        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits() as i32);
        let Ok(file) = options.read(true).open(path) else { return false };
        // Whoever may only read the file can have such a lock, too, and keeps nobody from it.
        let asked = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared);
        matches!(asked, Err(Errno::AGAIN | Errno::ACCESS))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Tells others that this process writes the file, until it closes it.
#[cfg(unix)]
pub(crate) fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_lock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?)
}

fn refusal(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::Destination(path.display().to_string(), error)
}
