//! Whether memory is short: what Linux says of the process's control group, or of the machine.
//!
//! `memory.pressure` (PSI) has the time in which tasks waited for memory, and `memory.events`
//! counts how often the group was out of it:
//! <https://docs.kernel.org/accounting/psi.html>,
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files>.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::protocol::clock::Stopwatch;

/// The interval between looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// In which part of the time some task must wait for memory.
const SHORT: f64 = 0.1;

/// The files of the system to look at, and their last values.
#[derive(Debug)]
pub(super) struct MemoryPressure {
    pressure: PathBuf,
    events: Option<PathBuf>,
    since: Stopwatch,
    waited: Duration,
    out_of_memory: Option<u64>,
}

/// A shortage of memory, and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemoryShortage {
    /// Some task waited for memory in so many per cent of the time.
    Waits(u64),
    /// The group was out of memory so many times more.
    Out(u64),
}

impl MemoryPressure {
    /// The files that the system has for this process.
    pub(super) fn new() -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let root = Path::new("/sys/fs/cgroup");
        // In a container, the root is often the container's own group.
        let groups = own.map(|own| root.join(own)).into_iter().chain([root.to_owned()]);
        for group in groups {
            let found = Self::of(group.join("memory.pressure"), Some(group.join("memory.events")));
            if found.is_ok() {
                return found;
            }
        }
        Self::of("/proc/pressure/memory".into(), None)
    }

    fn of(pressure: PathBuf, events: Option<PathBuf>) -> io::Result<Self> {
        let waited = waited(&fs::read_to_string(&pressure)?)?;
        let mut new =
            Self { pressure, events, since: Stopwatch::start(), waited, out_of_memory: None };
        new.out_of_memory = new.times_out_of_memory();
        Ok(new)
    }

    /// The shortage since the last look. `None`: memory is not short, or the files are gone.
    pub(super) fn look(&mut self) -> Option<MemoryShortage> {
        if let Some(out) = self.times_out_of_memory() {
            let before = self.out_of_memory.replace(out).unwrap_or(out);
            if out > before {
                return Some(MemoryShortage::Out(out - before));
            }
        }
        let waited = waited(&fs::read_to_string(&self.pressure).ok()?).ok()?;
        let time = self.since.elapsed();
        let part = waited.saturating_sub(self.waited).as_secs_f64() / time.as_secs_f64().max(1e-3);
        (self.waited, self.since) = (waited, Stopwatch::start());
        (part >= SHORT).then_some(MemoryShortage::Waits((part * 100.0) as u64))
    }

    /// `None` if nobody says.
    fn times_out_of_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(self.events.as_ref()?).ok()?;
        let counts = text.lines().filter_map(|line| {
            let (what, count) = line.split_once(' ')?;
            // What was killed was out of memory before, unless the whole machine was.
            matches!(what, "oom" | "oom_kill").then(|| count.trim().parse().ok())?
        });
        counts.max()
    }
}

/// Time that some task has waited for memory: `total`, in microseconds.
fn waited(text: &str) -> io::Result<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.split_once("total="));
    let micros = total.and_then(|(_, total)| total.trim().parse().ok());
    micros.map(Duration::from_micros).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_kills_are_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let [pressure, events] =
            ["memory.pressure", "memory.events"].map(|it| folder.path().join(it));
        let write = |micros: u64, oom: u64, kills: u64| {
            let text = |what| format!("{what} avg10=0.00 avg60=0.00 avg300=0.00 total={micros}\n");
            fs::write(&pressure, text("some") + &text("full")).unwrap();
            let text = format!("low 0\nhigh 7\nmax 9\noom {oom}\noom_kill {kills}\n");
            fs::write(&events, text).unwrap();
        };
        write(5_000_000, 1, 0);
        let mut memory = MemoryPressure::of(pressure.clone(), Some(events.clone())).unwrap();
        // What was before counts for nothing.
        assert_eq!(memory.look(), None);
        write(65_000_000, 1, 0);
        assert!(matches!(memory.look(), Some(MemoryShortage::Waits(100..))));
        assert_eq!(memory.look(), None);
        write(65_000_000, 2, 1);
        assert_eq!(memory.look(), Some(MemoryShortage::Out(1)));
        assert_eq!(memory.look(), None);
        // What cannot be read for once counts as it was.
        fs::remove_file(&events).unwrap();
        assert_eq!(memory.look(), None);
        write(65_000_000, 2, 1);
        assert_eq!(memory.look(), None);
        // The group is gone.
        fs::remove_file(&pressure).unwrap();
        assert_eq!(memory.look(), None);
        assert!(MemoryPressure::of(pressure.clone(), None).is_err());
        fs::write(&pressure, "some avg10=0.00").unwrap();
        assert!(MemoryPressure::of(pressure, None).is_err());
    }

    #[test]
    fn a_system_without_it_says_so() {
        match MemoryPressure::new() {
            Ok(mut memory) => _ = memory.look(),
            Err(error) => println!("no pressure to look at: {error}"),
        }
    }
}
