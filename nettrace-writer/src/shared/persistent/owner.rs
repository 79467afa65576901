//! The owner of a recorder file, and the file of a dead process.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use nettrace_format::recorder::layout::{MAGIC, superblock};
use rustix::{
    fs::{CWD, OFlags},
    io::Errno,
};

use super::{
    Recovered,
    leftover::{self, Leftover},
    shared_file::is_at,
};
use crate::{
    sink::{failure::during, live::TakenOver, open_existing},
    sync::thread,
};

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

/// The number of names to try for a recorder file that is kept.
const MOST_NAMES: u32 = 100;

/// Makes way for a new recorder file. Of one that a process has left, a trace is made, if there is
/// a path for it. Without that, or if it fails, the file is renamed: it has `.previous` at the end
/// of its name from then on, and replaces an earlier one of that name. So there are two at most.
/// One that has nothing is removed.
///
/// # Errors
/// [`ErrorKind::ResourceBusy`] if its process lives, [`ErrorKind::AlreadyExists`] if it is no
/// recorder file.
pub(super) fn make_way(path: &Path, to: Option<&Path>) -> io::Result<Option<Recovered>> {
    let context = || format!("cannot use {} as a recorder file", path.display());
    make_way_or_fail(path, to).map_err(|error| during(context(), error))
}

fn make_way_or_fail(path: &Path, to: Option<&Path>) -> io::Result<Option<Recovered>> {
    let refused = |kind, why: &'static str| Err(io::Error::new(kind, why));
    let old = match open_existing(CWD, path.as_os_str(), OFlags::RDWR) {
        Ok(old) => File::from(old),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
            return refused(ErrorKind::AlreadyExists, "it is no ordinary file");
        }
        Err(errno) => return Err(errno.into()),
    };
    let metadata = old.metadata()?;
    if !metadata.is_file() {
        return refused(ErrorKind::AlreadyExists, "it is no ordinary file");
    }
    let _taken_over = match take_over_soon(&old) {
        Err(Errno::AGAIN | Errno::ACCESS) => {
            return refused(ErrorKind::ResourceBusy, "a process that still runs writes it");
        }
        taken => taken?,
    };
    if !is_at(&old, path) {
        // Another process has made way meanwhile, and may have made its own file.
        return refused(ErrorKind::ResourceBusy, "another process has just taken it");
    }
    // Anybody can make a file in a folder for all, also one that makes this process read others.
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refused(ErrorKind::PermissionDenied, "it is another user's");
    }
    // Its layout is the same in all versions up to the state.
    let mut start = [0; MAGIC.len() + 8];
    let len = old.read_at(&mut start, 0)?;
    if len > 0 && start[..MAGIC.len()] != MAGIC {
        return refused(ErrorKind::AlreadyExists, "it is a file of another kind");
    }
    if start[superblock::STATE..] != superblock::USED.to_le_bytes() {
        // Its process was killed while it made it.
        return remove(path);
    }
    let recovered = match leftover::recover(&old, to) {
        // What a process leaves that died at once must not replace what is worth more.
        Ok(Leftover::Nothing) => return remove(path),
        Ok(Leftover::All(recovered)) => {
            fs::remove_file(path)?;
            return Ok(Some(recovered));
        }
        Ok(Leftover::Part(recovered)) => Some(recovered),
        Ok(Leftover::Something) => None,
        Err(error) => to.map(|to| Recovered {
            path: to.to_owned(),
            events: 0,
            lost: 0,
            error: Some(error.to_string()),
        }),
    };
    keep_as_previous(path)?;
    Ok(recovered)
}

/// Gives a recorder file that stays another name: one that nothing has, or an older recorder file
/// of this user. In a folder for all, anybody can put something else there, which stays.
fn keep_as_previous(path: &Path) -> io::Result<()> {
    for number in 1..=MOST_NAMES {
        let mut name = path.to_owned().into_os_string();
        name.push(".previous");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let name = PathBuf::from(name);
        if can_be_replaced(&name) {
            return fs::rename(path, name);
        }
    }
    let text = format!("{MOST_NAMES} names `.previous` are those of other files; remove these");
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

/// Whether there is nothing, or a recorder file that this user has left.
fn can_be_replaced(name: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    match open_existing(CWD, name.as_os_str(), OFlags::RDONLY).map(File::from) {
        Err(errno) => errno == Errno::NOENT,
        Ok(file) => {
            let is_own = file
                .metadata()
                .is_ok_and(|it| it.is_file() && it.uid() == rustix::process::geteuid().as_raw());
            is_own && file.read_at(&mut start, 0).is_ok_and(|len| len == 0 || start == MAGIC)
        }
    }
}

/// Takes a file over. Whoever only asks whether it is locked has the lock for a moment.
fn take_over_soon(file: &File) -> rustix::io::Result<TakenOver<'_>> {
    let mut tries = 20;
    loop {
        match TakenOver::new(file) {
            Err(Errno::AGAIN | Errno::ACCESS) if tries > 0 => tries -= 1,
            result => return result,
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn remove(path: &Path) -> io::Result<Option<Recovered>> {
    fs::remove_file(path).map(|()| None)
}
