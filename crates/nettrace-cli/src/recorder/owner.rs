//! Whether the process of a recorder file still runs.

use std::{fs, path::Path};

use nettrace_format::recorder::Owner;

use crate::convert::destination::is_written;

/// Whether the process that writes a recorder file still runs, and is still the same program.
///
/// The process has a lock on its file, which also tells if it is in a container and has another id
/// here. A copy of the file has no lock. There the process is told by when it has begun, because
/// another one can have its id by now, and by its memory, which `exec` takes away.
pub(super) fn runs(owner: &Owner, path: &Path) -> bool {
    is_written(path) || has_it(owner)
}

/// Whether the process has the file's rows in its memory.
fn has_it(owner: &Owner) -> bool {
    let is_this_boot = boot() == Some(owner.boot);
    let is_it = is_this_boot && runs_since(owner.process) == Some(owner.started);
    // The memory of another user's process cannot be looked at.
    is_it && shares(owner.process, owner.address).unwrap_or(true)
}

/// Whether a process shares the memory at an address with a file.
fn shares(process: u32, address: u64) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let holds = |line: &str| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_within = (number(start)?..number(end)?).contains(&address);
        Some(is_within && words.next()?.ends_with('s'))
    };
    Some(maps.lines().any(|line| holds(line) == Some(true)))
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
