//! Memory figures of the system. Only Linux answers.

use std::{fs, path::Path};

/// Resident memory of this process, in bytes.
#[must_use]
pub fn resident() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Memory that is available without swapping, in bytes.
#[must_use]
pub fn available() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// A folder whose files are kept in memory.
#[must_use]
pub fn tmpfs() -> Option<&'static Path> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let path = "/dev/shm";
    let is_it = |line: &str| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(path) && words.next() == Some("tmpfs")
    };
    mounts.lines().any(is_it).then(|| Path::new(path))
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::kibibytes;

    #[test]
    fn sizes_are_read_as_the_system_writes_them() {
        let text = "Name:\tbench\nVmHWM:\t    9000 kB\nVmRSS:\t    4096 kB\n";
        assert_eq!(kibibytes(text, "VmRSS:"), Some(4 << 20));
        assert_eq!(kibibytes(text, "VmSwap:"), None);
    }
}
