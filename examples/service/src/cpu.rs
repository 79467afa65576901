//! Processor time and memory, as Linux knows them.

use std::{fs, path::Path};

/// Seconds of processor time of the process so far. `None` where it cannot be asked.
pub(crate) fn of_process() -> Option<f64> {
    seconds(Path::new("/proc/self/stat"))
}

/// Seconds of processor time of the thread whose name begins like this. The kernel keeps 15 bytes
/// of a name.
pub(crate) fn of_thread(name: &str) -> Option<f64> {
    let name = &name.as_bytes()[..name.len().min(15)];
    let mut threads = fs::read_dir("/proc/self/task").ok()?.flatten().map(|entry| entry.path());
    let thread = threads.find(|thread| {
        fs::read(thread.join("comm")).is_ok_and(|found| found.trim_ascii_end() == name)
    })?;
    seconds(&thread.join("stat"))
}

/// The most memory that the process has had so far, in KiB. `None` where it cannot be asked.
pub(crate) fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The fields `utime` and `stime`, in hundredths of a second.
fn seconds(stat: &Path) -> Option<f64> {
    let text = fs::read_to_string(stat).ok()?;
    // The name in the second field can have blanks.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<f64>().ok();
    Some((field()? + field()?) / 100.0)
}
