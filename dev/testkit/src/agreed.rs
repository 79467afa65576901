//! Comparisons with the reference reader that have come out well before.
//!
//! The reference reader takes longer to start than to read, so hundreds of comparisons take
//! minutes. A comparison's result depends on nothing but the trace and our output for it. So a file
//! keeps a hash of both for each comparison that agreed, and a test asks the reference reader only
//! about what is not in the file: a new trace, or another output than before.
//!
//! Two values of the variable `NETTRACE_AGREED` change that: with `ask` the tests ask about
//! everything, as the lane `judge` does, and with `record` they also add to the file what agrees.
//! To record anew, delete the file first. Tests that leave pictures also ask if the variable
//! `NETTRACE_SCREENS` names a folder for them.

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write,
    path::{Path, PathBuf},
};

/// The comparisons that a file knows.
#[derive(Debug)]
pub struct Agreed {
    path: PathBuf,
    known: BTreeSet<String>,
    records: bool,
}

impl Agreed {
    /// Reads the file, which need not exist.
    ///
    /// # Panics
    /// If `NETTRACE_AGREED` has an unknown value.
    #[must_use]
    pub fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let mode = env::var("NETTRACE_AGREED").unwrap_or_default();
        assert!(matches!(&*mode, "" | "ask" | "record"), "NETTRACE_AGREED={mode}");
        if mode.is_empty() && env::var_os("NETTRACE_SCREENS").is_none() {
            return Self::known(path);
        }
        Self { path: path.to_owned(), known: BTreeSet::new(), records: mode == "record" }
    }

    fn known(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let known = text.lines().map(str::to_owned).collect();
        Self { path: path.to_owned(), known, records: false }
    }

    /// Calls `ask` unless the file knows the comparison. `ask` panics if the two sides differ, and
    /// returns `false` if it could not ask. `parts` is all that the comparison depends on, but for
    /// the reference reader.
    ///
    /// # Panics
    /// If the file has to be written but cannot be.
    pub fn or_ask(&self, parts: &[&[u8]], ask: impl FnOnce() -> bool) {
        let hash = format!("{:016x}", hash(parts));
        if self.known.contains(&hash) {
            return;
        }
        if ask() && self.records {
            // One short write, because tests run on several threads.
            let mut options = fs::OpenOptions::new();
            let mut file = options.create(true).append(true).open(&self.path).expect("a file");
            file.write_all(format!("{hash}\n").as_bytes()).expect("room for a line");
        }
    }
}

/// FNV-1a of 64 bits, of each part with its length before it.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        let len = (part.len() as u64).to_le_bytes();
        for byte in len.iter().chain(*part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::{Agreed, hash};

    #[test]
    fn only_what_is_in_the_file_is_not_compared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agreed");
        fs::write(&path, format!("{:016x}\n", hash(&[b"trace", b"output"]))).unwrap();
        let agreed = Agreed::known(&path);
        let compared = Cell::new(0);
        let count = || {
            compared.set(compared.get() + 1);
            true
        };
        agreed.or_ask(&[b"trace", b"output"], count);
        assert_eq!(compared.get(), 0);
        for other in [&[&b"trace"[..], b"other"], &[b"traceo", b"utput"], &[b"output", b"trace"]] {
            agreed.or_ask(other, count);
        }
        assert_eq!(compared.get(), 3);
        // Nothing is recorded unless the variable asks for it.
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}
