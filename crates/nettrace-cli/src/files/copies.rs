//! Copies among the files of a recording.
//!
//! Files of one recording and number are not copies for that alone: an older tail decision gave all
//! its files one number, and the key-values of a file are what its writer says. So content decides.
//! A file is left out only if another one has all of its bytes, up to the end of the stream. This
//! also holds for a copy that was made while the file grew.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Read},
    ops::Range,
    path::Path,
};

use nettrace_format::v6::BlockKind;

use super::{BlockFile, File};

/// The number of bytes of each file in memory while files are compared.
const HEAD: usize = 4 << 10;

/// Takes the copies out of the files of a recording, which are in the order of their numbers.
/// Returns what there is to say. Dumps of a flight recorder stay: of those, the reader leaves out
/// what it has read.
pub(super) fn take_out(files: &mut Vec<File>) -> io::Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut is_copy = vec![false; files.len()];
    for group in groups(files) {
        let mut kept: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        let mut longest_first: Vec<_> = group.collect();
        longest_first.sort_by_key(|at| !files[*at].size);
        for at in longest_first {
            let head = head(&files[at].path)?;
            // Those that begin with the same bytes are next to each other.
            let alike = kept.range(head.clone()..);
            let alike = alike.take_while(|(other, _)| other.starts_with(&head));
            let mut alike = alike.flat_map(|(_, files)| files).copied();
            let original = alike.find_map(|kept| {
                let found = is_within(&files[at].path, &files[kept].path);
                found.map(|found| found.then_some(kept)).transpose()
            });
            match original.transpose()? {
                Some(kept) => {
                    let (path, kept) = (files[at].path.display(), files[kept].path.display());
                    notes.push(format!("{path} is a copy of {kept}; it is left out"));
                    is_copy[at] = true;
                }
                None => kept.entry(head).or_default().push(at),
            }
        }
    }
    let mut is_copy = is_copy.into_iter();
    files.retain(|_| !is_copy.next().unwrap_or(false));
    Ok(notes)
}

/// The places of files of one number, where there are several.
fn groups(files: &[File]) -> impl Iterator<Item = Range<usize>> {
    let is_same = |a: &File, b: &File| {
        a.part.is_some() && a.part == b.part && a.before.is_none() && b.before.is_none()
    };
    let mut end = 0;
    let groups = files.chunk_by(is_same).map(move |group| {
        end += group.len();
        end - group.len()..end
    });
    groups.filter(|group| group.len() > 1)
}

/// The first bytes of a file, at most up to the end of the stream.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut blocks = BlockFile::open(path, HEAD as u64, &mut head)?;
    loop {
        let start = head.len();
        if !blocks.next_block(&mut head)? {
            return Ok(head);
        }
        if head[start + 3] == BlockKind::EndOfStream as u8 {
            head.truncate(start);
            return Ok(head);
        }
    }
}

/// Whether a file has all that is in another one before the end of its stream.
fn is_within(file: &Path, other: &Path) -> io::Result<bool> {
    let mut theirs = BufReader::with_capacity(256 << 10, fs::File::open(other)?);
    let (mut ours, mut same) = (Vec::new(), Vec::new());
    let mut blocks = BlockFile::open(file, u64::MAX, &mut ours)?;
    loop {
        same.clear();
        (&mut theirs).take(ours.len() as u64).read_to_end(&mut same)?;
        if same != ours {
            return Ok(false);
        }
        ours.clear();
        let is_whole = blocks.next_block(&mut ours)?;
        let is_end = is_whole && ours[3] == BlockKind::EndOfStream as u8;
        if is_end || ours.is_empty() {
            return Ok(true);
        }
    }
}
