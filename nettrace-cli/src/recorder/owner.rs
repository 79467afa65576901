//! Whether the process of a recorder file still runs.

use std::{fs, path::Path};

use nettrace_format::recorder::Owner;

/// Whether the process that writes a recorder file still runs.
///
/// The process has a lock on its file, which also tells if it is in a container and has another id
/// here. A copy of the file has no lock. There the process is told by when it has begun: another
/// one can have its id by now.
pub(super) fn runs(owner: &Owner, path: &Path) -> bool {
    let is_this_boot = boot() == Some(owner.boot);
    is_this_boot && runs_since(owner.process) == Some(owner.started) || is_locked(path)
}

/// Which boot of the system this is.
fn boot() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// When a process has begun, if it runs.
fn runs_since(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The program's name, in brackets, can have brackets and spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    // Fields 3, 20 and 22. A process that nobody has waited for is dead, unless other threads go on
    // after the first one.
    let (state, threads, started) = (fields.first()?, fields.get(17)?, fields.get(19)?);
    let is_dead = matches!(*state, "Z" | "X" | "x") && matches!(*threads, "0" | "1");
    if is_dead { None } else { started.parse().ok() }
}

/// Whether a process has locked the file. The lock that asks is given back at once, because the
/// next session of that name needs it.
#[cfg(unix)]
fn is_locked(path: &Path) -> bool {
    use rustix::{
        fs::{FlockOperation, flock},
        io::Errno,
    };

    let Ok(file) = fs::File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

#[cfg(not(unix))]
fn is_locked(_: &Path) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_nobody_has_waited_for_is_dead() {
        assert!(runs_since(std::process::id()).is_some());
        assert_eq!(runs_since(u32::MAX), None);
        let mut child = Command::new("true").spawn().expect("true is in PATH");
        while runs_since(child.id()).is_some() {}
        child.wait().expect("it has ended");
    }
}
