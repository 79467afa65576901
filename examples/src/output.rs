//! The options that say where a trace goes.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nettrace_writer::{
    Format, OnFull, Session, SessionBuilder,
    sink::{FileOptions, FileSink, StreamSink},
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
    #[arg(long, value_parser = formats(), default_value_t = Format::V6)]
    format: Format,
}

/// Parses the name of a format.
fn formats() -> impl TypedValueParser<Value = Format> {
    let value = |format: &Format| PossibleValue::new(format.name()).help(format.about());
    PossibleValuesParser::new(Format::ALL.iter().map(value)).try_map(|name| name.parse::<Format>())
}

impl Output {
    /// The given path, or `name.nettrace` (`name.heph`) in the current folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        let extension = self.format.extension();
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")))
    }

    /// Whether the trace goes to standard output: without `--out`, or with `--out -`.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        self.out.as_ref().is_none_or(|path| path.as_os_str() == "-")
    }

    /// A session that writes to [`path`](Self::path).
    pub fn session(&self, name: &str) -> SessionBuilder {
        Session::builder().sink(self.file(name)).format(self.format)
    }

    /// What writes to [`path`](Self::path).
    #[must_use]
    pub fn file(&self, name: &str) -> FileSink {
        FileOptions::new(self.path(name)).overwrite(self.overwrite).build()
    }

    /// A session that writes to standard output, unless `--out` names a file.
    ///
    /// # Errors
    /// If standard output cannot be duplicated.
    pub fn stream_session(&self, name: &str) -> std::io::Result<SessionBuilder> {
        if self.is_stdout() {
            let sink = StreamSink::stdout()?;
            return Ok(Session::builder().sink(sink).format(self.format));
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

/// [`OnFull`] as a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// It is dropped and counted
    Drop,
    /// Its thread waits until there is room
    Block,
}

impl Memory {
    /// Sets both on a session.
    pub fn apply(self, session: SessionBuilder) -> SessionBuilder {
        session.budget(self.budget).on_full(match self.policy {
            Policy::Drop => OnFull::Drop,
            Policy::Block => OnFull::Block,
        })
    }
}
