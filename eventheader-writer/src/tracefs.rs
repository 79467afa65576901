//! Finds the kernel's files, and the reason if they cannot be opened.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// Whether events can go to the kernel.
///
/// ```
/// use eventheader_writer::{Availability, status};
///
/// match status().availability {
///     Availability::Ready { path } => println!("events go to {}", path.display()),
///     Availability::NotPermitted { path } => println!("{} needs other rights", path.display()),
///     other => println!("{}", other.explanation()),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// Unknown, because nothing was registered yet.
    Unknown,
    /// Events go to the kernel.
    Ready {
        /// The file that takes events.
        path: PathBuf,
    },
    /// Events go to a file of the application's choice ([`redirect`](crate::redirect)).
    Redirected,
    /// Neither tracefs nor debugfs is mounted.
    NoTracefs,
    /// Neither is mounted, and mounting would not help: the kernel was built without tracing.
    NoTracing,
    /// tracefs is mounted, but the kernel was built without `CONFIG_USER_EVENTS`, or is older than
    /// 6.4.
    NoUserEvents {
        /// Where tracefs is mounted.
        tracefs: PathBuf,
    },
    /// This user may not open the file, or not access its folder.
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// Opening the file or registering failed for another reason.
    Failed {
        /// The file.
        path: PathBuf,
        /// The error number (`errno`).
        errno: i32,
    },
    /// This system is not Linux and has no `user_events`.
    Unsupported,
}

impl Availability {
    /// Describes the state in a sentence, with a remedy if there is one.
    ///
    /// ```
    /// let status = eventheader_writer::status();
    /// println!("{}", status.availability.explanation());
    /// ```
    #[must_use]
    pub fn explanation(&self) -> String {
        match self {
            Self::Unknown => "nothing was registered yet".to_owned(),
            Self::Ready { path } => format!("events go to {}", path.display()),
            Self::Redirected => "events go to a file of the application's choice".to_owned(),
            Self::NoTracefs => "tracefs is not mounted; as root: mount -t tracefs tracefs \
                                /sys/kernel/tracing"
                .to_owned(),
            Self::NoTracing => {
                "the kernel was built without tracing, because /proc/filesystems has no tracefs; \
                 it needs CONFIG_USER_EVENTS=y and the options that this depends on"
                    .to_owned()
            }
            Self::NoUserEvents { tracefs } => format!(
                "{} has no user_events_data: the kernel needs version 6.4 or later and \
                 CONFIG_USER_EVENTS=y",
                tracefs.display()
            ),
            Self::NotPermitted { path } => format!(
                "{} cannot be opened by this user; run as root, or as root give a group the right: \
                 chgrp GROUP on tracefs and chmod g+rx on it, then chgrp GROUP and chmod g+rw on \
                 the file",
                path.display()
            ),
            Self::Failed { path, errno } => format!(
                "{} does not work: {}",
                path.display(),
                io::Error::from_raw_os_error(*errno)
            ),
            Self::Unsupported => {
                "this system has no user_events, which are part of Linux; nothing is written"
                    .to_owned()
            }
        }
    }
}

/// The usual place of tracefs.
const USUAL: &str = "/sys/kernel/tracing";

/// The file that takes registrations and events.
pub(crate) const DATA: &str = "user_events_data";

/// The file that lists what is registered, and who listens.
pub(crate) const STATUS: &str = "user_events_status";

/// Opens the file that takes events, close-on-exec.
pub(crate) fn open() -> Result<(File, PathBuf), Availability> {
    if !cfg!(target_os = "linux") {
        return Err(Availability::Unsupported);
    }
    let mut problem = Availability::NoTracefs;
    for folder in folders() {
        let path = folder.join(DATA);
        // The standard library opens files close-on-exec.
        let error = match OpenOptions::new().write(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) => error,
        };
        let found = match error.kind() {
            io::ErrorKind::NotFound if is_tracefs(&folder) => {
                Availability::NoUserEvents { tracefs: folder }
            }
            io::ErrorKind::NotFound => continue,
            io::ErrorKind::PermissionDenied => Availability::NotPermitted { path },
            _ => Availability::Failed { path, errno: error.raw_os_error().unwrap_or(0) },
        };
        if problem == Availability::NoTracefs {
            problem = found;
        }
    }
    if problem == Availability::NoTracefs && !is_known("tracefs") {
        problem = Availability::NoTracing;
    }
    Err(problem)
}

/// Whether the kernel knows a kind of file system; `true` if that is unknown.
fn is_known(kind: &str) -> bool {
    fs::read_to_string("/proc/filesystems").map_or(true, |list| lists(&list, kind))
}

/// Whether the list contains the kind: the last word of a line, possibly after `nodev`.
fn lists(list: &str, kind: &str) -> bool {
    list.lines().any(|line| line.split_whitespace().last() == Some(kind))
}

/// The folders that may be tracefs: the usual one first, then those that are mounted.
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(USUAL)];
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for folder in mounted(&mounts) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The mounts of tracefs, and the tracefs folder of a mounted debugfs.
fn mounted(mounts: &str) -> Vec<PathBuf> {
    let of = |kind: &'static str, below: &'static str| {
        mounts.lines().filter_map(move |line| {
            let mut words = line.split(' ').skip(1);
            let (folder, found) = (words.next()?, words.next()?);
            (found == kind).then(|| Path::new(&unescaped(folder)).join(below))
        })
    };
    of("tracefs", "").chain(of("debugfs", "tracing")).collect()
}

/// Decodes the kernel's escapes, such as `\040`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[3..]);
            }
            None => {
                out.push(b'\\');
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_tracefs(folder: &Path) -> bool {
    folder.join("events").is_dir() || folder.join("trace_pipe").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_file_systems_are_whole_words() {
        let list = "nodev\tsysfs\nnodev\ttracefs2\n\text4\n";
        assert!(lists(list, "ext4") && lists(list, "sysfs"));
        assert!(!lists(list, "tracefs") && !lists(list, "nodev"));
    }

    #[test]
    fn mounts_are_found_wherever_they_are() {
        let mounts = "proc /proc proc rw 0 0\n\
                      debugfs /sys/kernel/debug debugfs rw 0 0\n\
                      nodev /mnt/with\\040space tracefs rw 0 0\n\
                      x /a\\134b tracefs rw 0 0\nbroken\n";
        let expected = ["/mnt/with space", "/a\\b", "/sys/kernel/debug/tracing"];
        assert_eq!(mounted(mounts), expected.map(PathBuf::from));
    }
}
