//! Targets that are no [`View`](nettrace_views::viewers::View) of `nettrace-views`.

use std::{io::Write, path::Path};

use nettrace_reader::Trace;
use nettrace_views::Target;

use crate::{convert::Task, failure::Failure, read_options::ReadOptions};

/// A target that is in a crate of its own, or writes several files.
#[derive(Debug)]
pub(crate) struct ExtraTarget {
    /// Its name in command lines.
    pub(crate) name: &'static str,
    /// Its name in sentences.
    pub(crate) title: &'static str,
    /// What it is for, in a few words.
    pub(crate) about: &'static str,
    /// The endings of its paths, without the dot.
    pub(crate) endings: &'static [&'static str],
    pub(crate) begin: Begin,
}

impl Eq for ExtraTarget {}

impl PartialEq for ExtraTarget {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Makes a target that writes one file, from its beginning to its end.
type BeginFile = for<'w> fn(&Start<'_>, &'w mut dyn Write) -> Result<Box<dyn Target + 'w>, Failure>;

/// Makes a target that writes into a folder.
type BeginFolder = fn(&Start<'_>, &Path) -> Result<Box<dyn Target>, Failure>;

/// The size of what such a target has written, in bytes.
type SizeOfFolder = fn(&Start<'_>, &Path) -> Result<u64, Failure>;

/// How a target begins.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "not every build has targets of each kind")]
pub(crate) enum Begin {
    /// It writes one file, from its beginning to its end.
    File(BeginFile),
    /// It writes files into a folder, and makes the folder. It checks [`Task::force`] itself. What
    /// it has written becomes complete in [`Target::finish`].
    Folder { begin: BeginFolder, size: SizeOfFolder },
}

/// What a target knows at its beginning.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "for targets to choose from")]
pub(crate) struct Start<'a> {
    pub(crate) trace: &'a Trace,
    /// The major version of the trace.
    pub(crate) version: u32,
    pub(crate) task: Task<'a>,
    pub(crate) limits: ReadOptions,
}
