//! Partitions: folders by day, host and recording, with names as those of Hive.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nettrace_reader::{Trace, WallTime};

use crate::{
    model::unix_nanos,
    tables::{Tables, at, names::escaped, refusal},
};

/// The folders of a partition, each the name of a column. No field has one of these names.
pub(crate) const COLUMNS: [&str; 3] = ["day", "host", "recording"];

/// The tables at the top of a result.
const TABLES: [&str; 3] = ["events", "spans", "stacks"];

/// What the table of each event type is in.
const TYPES: &str = "types";

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;

/// The days from 1601 to 1970.
const UNTIL_1970: i64 = 134_774;

/// A day: days since 1970.
pub(crate) type Day = i64;

/// The day of a time in nanoseconds since 1970.
#[inline]
pub(crate) fn day_of(time: i64) -> Day {
    time.div_euclid(DAY)
}

/// The first and the last time of a day.
pub(crate) fn times_of(day: Day) -> (i64, i64) {
    let next = day.saturating_add(1).checked_mul(DAY);
    (day.saturating_mul(DAY), next.map_or(i64::MAX, |next| next - 1))
}

/// The folders in which the tables of one trace are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    host: String,
    recording: String,
}

impl Partition {
    /// The partition of a trace of a host.
    pub(crate) fn new(trace: &Trace, host: &str) -> io::Result<Self> {
        if host.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the host has no name"));
        }
        let start = unix_nanos(&trace.sync_time).and_then(|nanos| i64::try_from(nanos).ok());
        let start = start.map_or_else(|| "unknown".to_owned(), moment);
        // A trace that was merged has one for each recording.
        let process = trace.value("ProcessId").or_else(|| trace.value("1/ProcessId"));
        let process = process.and_then(|id| id.parse().ok()).unwrap_or(0_u64);
        Ok(Self {
            host: format!("host={}", escaped(host)),
            recording: format!("recording={start}-{process}-{:x}", trace.sync_ticks),
        })
    }

    /// The folder of the rows of a day, from the folder of their table.
    pub(crate) fn folder(&self, day: Day) -> PathBuf {
        [&*format!("day={}", date(day)), &*self.host, &*self.recording].iter().collect()
    }

    /// All folders that a result has of this partition.
    pub(crate) fn folders(&self, out: &Path) -> io::Result<Vec<PathBuf>> {
        let mut tables: Vec<_> = TABLES.iter().map(|table| out.join(table)).collect();
        tables.extend(entries(&out.join(TYPES))?);
        let mut found = Vec::new();
        for table in tables {
            for day in entries(&table)? {
                let folder = day.join(&self.host).join(&self.recording);
                if folder.is_dir() {
                    found.push(folder);
                }
            }
        }
        Ok(found)
    }

    /// Whether the tables of this partition may be added to `out`, or replace those that are there.
    pub(crate) fn check(&self, out: &Path, tables: Tables, force: bool) -> io::Result<()> {
        for path in entries(out)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_ours = TABLES.contains(&&*name) || name == TYPES || name.starts_with('.');
            if !is_ours || !path.is_dir() {
                return Err(refusal(out, "it has something else than partitioned tables"));
            }
        }
        // One of them is enough: each recording has events.
        let events = self.folders(out)?;
        if !events.is_empty() && !force {
            return Err(refusal(out, "it has this recording already; --force replaces it"));
        }
        for folder in events {
            let other = |path: &PathBuf| path.extension().is_none_or(|it| it != tables.ending());
            if entries(&folder)?.iter().any(other) {
                return Err(refusal(&folder, "it has files of another format"));
            }
        }
        Ok(())
    }

    /// Gives all that was written into the folder `hidden` its place in `out`.
    pub(crate) fn publish(&self, hidden: &Path, out: &Path) -> io::Result<()> {
        for folder in self.folders(out)? {
            fs::remove_dir_all(&folder).map_err(|error| at(&folder, error))?;
        }
        for from in self.folders(hidden)? {
            let Ok(place) = from.strip_prefix(hidden) else { continue };
            let to = out.join(place);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(|error| at(parent, error))?;
            }
            fs::rename(&from, &to).map_err(|error| at(&to, error))?;
        }
        Ok(())
    }
}

/// What is in a folder, in the order of names. Nothing if there is no such folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| at(folder, error))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| at(folder, error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// A time of day in UTC. All times of 64 bits are in the calendar.
fn wall_time(milliseconds: i64) -> WallTime {
    let units = (milliseconds + UNTIL_1970 * 86_400_000) * 10_000;
    let found = u64::try_from(units).ok().and_then(WallTime::from_file_time);
    found.unwrap_or_else(|| unreachable!("64 bits of nanoseconds end before the year 9999"))
}

/// As in `2026-11-23`.
fn date(day: Day) -> String {
    let WallTime { year, month, day, .. } = wall_time(day.saturating_mul(86_400_000));
    format!("{year:04}-{month:02}-{day:02}")
}

/// As in `20261123T010203.456Z`.
fn moment(nanos: i64) -> String {
    let time = wall_time(nanos.div_euclid(1_000_000));
    let WallTime { year, month, day, hour, minute, second, millisecond, .. } = time;
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(day_of(-1)), "1969-12-31");
        assert_eq!(date(day_of(1_709_251_199_999_999_999)), "2024-02-29");
        assert_eq!(date(day_of(i64::MIN)), "1677-09-21");
        assert_eq!(date(day_of(i64::MAX)), "2262-04-11");
        assert_eq!(moment(1_709_251_199_999_999_999), "20240229T235959.999Z");
        for time in [i64::MIN, -1, 0, DAY - 1, DAY, i64::MAX] {
            let (first, last) = times_of(day_of(time));
            assert!((first..=last).contains(&time), "{time}");
        }
    }
}
