//! Whose a recorder file is, and what becomes of one whose process is gone.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use nettrace_format::recorder::layout::{MAGIC, superblock};

use super::shared_file::{is_at, lock};
use crate::sink::failure::during;

/// When this process began, in the system's unit; 0 if it is not known.
pub(super) fn started() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, which may have any character, is in parentheses. The field is the 22nd.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The system's boot; zeros if it is not known.
pub(super) fn boot() -> [u8; 16] {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

/// Makes way for a new recorder file. One that a process has left is renamed: it has `.previous` at
/// the end of its name from then on, and replaces an earlier one of that name. So there are two at
/// most.
///
/// # Errors
/// [`ErrorKind::ResourceBusy`] if its process lives, [`ErrorKind::AlreadyExists`] if it is no
/// recorder file.
pub(super) fn make_way(path: &Path) -> io::Result<()> {
    let context = || format!("cannot use {} as a recorder file", path.display());
    let mut old = match File::options().read(true).write(true).open(path) {
        Ok(old) => old,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(during(context(), error)),
    };
    if let Err(error) = lock(&old) {
        let error = match error.kind() {
            ErrorKind::WouldBlock => {
                io::Error::new(ErrorKind::ResourceBusy, "a process that still runs writes it")
            }
            _ => error,
        };
        return Err(during(context(), error));
    }
    if !is_at(&old, path) {
        // Another process has made way meanwhile, and may have made its own file.
        let error = io::Error::new(ErrorKind::ResourceBusy, "another process has just taken it");
        return Err(during(context(), error));
    }
    let mut start = [0; MAGIC.len() + 8];
    let len = old.read(&mut start).map_err(|error| during(context(), error))?;
    if start[..len] == [0; MAGIC.len() + 8][..len] {
        // Its process was killed while it made it.
        return fs::remove_file(path).map_err(|error| during(context(), error));
    }
    if start[..MAGIC.len()] != MAGIC {
        let error = io::Error::new(ErrorKind::AlreadyExists, "it is a file of another kind");
        return Err(during(context(), error));
    }
    if start[superblock::STATE..] != superblock::USED.to_le_bytes() {
        return fs::remove_file(path).map_err(|error| during(context(), error));
    }
    let mut previous = path.to_owned().into_os_string();
    previous.push(".previous");
    fs::rename(path, PathBuf::from(previous)).map_err(|error| during(context(), error))
}
