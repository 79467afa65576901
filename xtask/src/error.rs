//! What can go wrong. The messages say what to do.

use std::{fmt, io, path::PathBuf};

use crate::failures::Failures;

/// The result of every fallible function of this program.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a command or lane failed.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The command line is wrong. Holds the help text.
    Usage(String),
    /// There is no lane of this name.
    UnknownLane(String),
    /// A program could not be started.
    Start { command: String, source: io::Error },
    /// A program ran and failed. There is no code if a signal ended it.
    Failed { command: String, code: Option<i32> },
    /// Tests failed. Holds what they printed.
    Tests { failures: Failures, source: Box<Error> },
    /// The output of a program cannot be parsed.
    Output { command: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// A file or folder could not be used.
    File { path: PathBuf, source: io::Error },
    /// A file of results cannot be parsed.
    Results { path: PathBuf, source: serde_json::Error },
    /// A lane found nothing to check, so it could never fail.
    Nothing(String),
    /// The names of safeguards that can be taken out without a test failing.
    Mutants(String),
    /// Code outside of a seam names atomics or threads. Says where.
    Seam(String),
    /// Public interfaces are not those that the files say. Says how.
    Interface(String),
    /// Lines are too long. Says which.
    Lines(String),
    /// Something takes more of a unit than its bound. Says what.
    Grown { unit: &'static str, what: String },
    /// A manifest or the list of names cannot be read. Says why.
    Manifest(String),
    /// This machine lacks something that a lane needs.
    Missing(String),
}

impl Error {
    /// What failed tests printed.
    pub(crate) fn failures(&self) -> &[String] {
        match self {
            Self::Tests { failures, .. } => failures.lines(),
            _ => &[],
        }
    }
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
            Self::Tests { source, .. } => source.fmt(f),
            Self::Output { command, .. } => {
                write!(f, "could not read the output of `{command}`; run it by hand to see it")
            }
            Self::File { path, .. } => {
                write!(
                    f,
                    "could not use {}; check that it exists, and its permissions",
                    path.display()
                )
            }
            Self::Results { path, .. } => {
                write!(f, "{} is not what a benchmark writes; run it again", path.display())
            }
            Self::Nothing(what) => write!(f, "nothing was checked: {what}"),
            Self::Mutants(names) => write!(
                f,
                "no test failed without {names}; write a test that does, or remove the safeguard"
            ),
            Self::Grown { unit, what } => write!(
                f,
                "more {unit} than before: {what}; make it shorter, or raise the bound and \
                 say why"
            ),
            Self::Seam(what)
            | Self::Interface(what)
            | Self::Lines(what)
            | Self::Manifest(what)
            | Self::Missing(what) => write!(f, "{what}"),
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
