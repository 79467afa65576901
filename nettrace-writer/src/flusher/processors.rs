//! The number of processors of the machine: the specification's "number of threads that can run
//! concurrently on the hardware".
//!
//! It is not how many this process may use, which its affinity and the quota of its control groups
//! bound, and which can change while the process runs. .NET writes that one.

use std::fs;

use crate::sync::thread;

/// How many processors are online now.
pub(crate) fn online() -> u32 {
    let list = if cfg!(any(target_os = "linux", target_os = "android")) {
        fs::read_to_string("/sys/devices/system/cpu/online").ok()
    } else {
        None
    };
    list.and_then(|list| counted(&list)).unwrap_or_else(|| {
        thread::available_parallelism().map_or(1, |count| count.get().min(1 << 31) as u32)
    })
}

/// Counts a list of processors as the kernel writes it: `0-3,5`.
fn counted(list: &str) -> Option<u32> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    ranges.sum()
}

#[cfg(test)]
mod tests {
    use super::{counted, online};

    #[test]
    fn lists_are_counted() {
        for (list, count) in [("0\n", 1), ("0-1\n", 2), ("0-3,5\n", 5), ("0,2,4-7", 6)] {
            assert_eq!(counted(list), Some(count), "{list}");
        }
        for list in ["", "\n", "a", "3-1", "0-4294967295", "0-", "1,"] {
            assert_eq!(counted(list), None, "{list}");
        }
    }

    #[test]
    fn this_machine_has_those_that_the_process_may_use() {
        let usable = crate::sync::thread::available_parallelism().map_or(1, usize::from);
        assert!(online() as usize >= usable, "{} online, {usable} usable", online());
    }
}
