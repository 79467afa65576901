//! What can go wrong, in sentences that say what to do.

use std::{fmt, io, path::PathBuf};

/// The result of everything here.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a command or lane failed.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The command line makes no sense; holds the help text.
    Usage(String),
    /// There is no lane of this name.
    UnknownLane(String),
    /// A program could not be started.
    Start { command: String, source: io::Error },
    /// A program ran and reported failure; the code is absent when a signal ended it.
    Failed { command: String, code: Option<i32> },
    /// A program printed what this one cannot read.
    Output { command: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// A file or folder could not be used.
    File { path: PathBuf, source: io::Error },
    /// A results file does not hold what it should.
    Results { path: PathBuf, source: serde_json::Error },
    /// A lane had nothing to check, which would let it pass for ever.
    Nothing(String),
    /// Safeguards that can be taken out without a test failing, by name.
    Mutants(String),
    /// A rule about who may name atomics and threads is broken; says where.
    Seam(String),
    /// Something that a lane needs is not to be had on this machine.
    Missing(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(help) => write!(f, "no such command.\n\n{help}"),
            Self::UnknownLane(name) => {
                write!(f, "no lane is called `{name}`; `cargo xtask help` lists them")
            }
            Self::Start { command, .. } => {
                write!(f, "could not start `{command}`; is it installed and on the PATH?")
            }
            Self::Failed { command, code: Some(code) } => {
                write!(f, "`{command}` failed with code {code}; its output above says why")
            }
            Self::Failed { command, code: None } => {
                write!(f, "`{command}` was ended by a signal; see its output above")
            }
            Self::Output { command, .. } => {
                write!(f, "could not read the output of `{command}`; run it by hand to see it")
            }
            Self::File { path, .. } => {
                write!(f, "could not use {}; check that it exists and its rights", path.display())
            }
            Self::Results { path, .. } => {
                write!(f, "{} is not what a benchmark writes; run it again", path.display())
            }
            Self::Nothing(what) => write!(f, "nothing was checked: {what}"),
            Self::Mutants(names) => write!(
                f,
                "no test failed without {names}; write one that does, or show that it is not needed"
            ),
            Self::Seam(what) | Self::Missing(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { source, .. } | Self::File { source, .. } => Some(source),
            Self::Output { source, .. } => Some(source.as_ref()),
            Self::Results { source, .. } => Some(source),
            _ => None,
        }
    }
}
