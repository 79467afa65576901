//! Where a trace goes, as the command line says it.

use std::path::PathBuf;

use nettrace_writer::{
    Format, OnFull, Session, SessionBuilder,
    sink::{FileOptions, StreamSink},
};

/// `--out`, `--overwrite` and `--format`.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// Where the trace goes: a new file or a device [default: the program's name with
    /// .nettrace or .heph]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long)]
    overwrite: bool,
    /// The format of the trace
    #[arg(long, value_enum, default_value_t = FormatName::V6)]
    format: FormatName,
}

/// [`Format`], as a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatName {
    /// NetTrace version 6
    V6,
    /// NetTrace version 5, for readers of before 2025
    V5,
    /// NetTrace version 4, which has no arrays
    V4,
    /// Heph's trace format 0.1.0
    Heph,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::V6 => Self::V6,
            FormatName::V5 => Self::V5,
            FormatName::V4 => Self::V4,
            FormatName::Heph => Self::Heph,
        }
    }
}

impl Output {
    /// The path that was given, or `name.nettrace` (`name.heph`) in the current folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        let extension = if self.format == FormatName::Heph { "heph" } else { "nettrace" };
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")))
    }

    /// Whether the trace is to go to standard output: no `--out`, or `--out -`.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.out.as_ref().is_none_or(|path| path.as_os_str() == "-")
    }

    /// A session that writes to [`path`](Self::path).
    pub fn session(&self, name: &str) -> SessionBuilder {
        let file = FileOptions::new(self.path(name)).overwrite(self.overwrite);
        Session::builder().sink(file.build()).format(self.format.into())
    }

    /// A session that writes to standard output, unless there is an `--out` that is not `-`.
    ///
    /// # Errors
    /// Where standard output cannot be duplicated.
    pub fn stream_session(&self, name: &str) -> std::io::Result<SessionBuilder> {
        if self.is_stdout() {
            let sink = StreamSink::stdout()?;
            return Ok(Session::builder().sink(sink).format(self.format.into()));
        }
        Ok(self.session(name))
    }
}

/// `--budget` and `--policy`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Memory {
    /// Memory for events that are not yet written, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    budget: usize,
    /// What happens to an event when that is spent
    #[arg(long, value_enum, default_value_t = Policy::Drop)]
    policy: Policy,
}

/// [`OnFull`], as a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// It is dropped and counted
    Drop,
    /// Its thread waits until there is room
    Block,
}

impl Memory {
    /// Sets both.
    pub fn apply(self, session: SessionBuilder) -> SessionBuilder {
        session.budget(self.budget).on_full(match self.policy {
            Policy::Drop => OnFull::Drop,
            Policy::Block => OnFull::Block,
        })
    }
}
