//! The settings of a session: which events it records, how much memory it uses, what happens when
//! that is full, and when it writes.

mod filters;
mod flight_recorder;
#[cfg(feature = "persistent")]
mod persistent;
mod redact;

use std::{path::PathBuf, time::Duration};

use nettrace_event::{EventType, TraceEvent};
use nettrace_format::Format;

pub use self::{filters::reads_providers, redact::redact_session};
use crate::{
    flusher::notice::{Callback, SinkChange},
    process::{description, reserved},
    protocol::clock::Clock,
    session::{
        Session, memory::MemorySettings, output::OutputSettings, redactions::RedactionSettings,
        triggers::StartDumpThread,
    },
    shared::{error::Error, filter::ProviderFilter, on_full::OnFull, sessions, trace_ids::Ids},
    sink::{Existing, Sink},
};

/// Configures and starts a session. [`Session::builder`] makes one.
///
/// ```
/// use std::time::Duration;
///
/// use nettrace_writer::{Level, OnFull, ProviderFilter, Session};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("service.nettrace");
/// let session = Session::builder()
///     .file(path)
///     .provider(ProviderFilter::new("Contoso-Checkout").level(Level::Informational))
///     .budget(16 << 20)
///     .on_full(OnFull::Drop)
///     .flush_interval(Duration::from_millis(250))
///     .key_value("service", "checkout")
///     .start()?;
/// # session.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is recorded before `start`"]
pub struct SessionBuilder {
    pub(crate) output: OutputSettings,
    pub(crate) format: Format,
    pub(crate) ids: Ids,
    /// `None`: the session records everything.
    pub(crate) providers: Option<Vec<ProviderFilter>>,
    pub(crate) memory: MemorySettings,
    pub(crate) on_full: OnFull,
    pub(crate) flush_interval: Duration,
    pub(crate) finish_timeout: Duration,
    pub(crate) sequence_point_bytes: u64,
    pub(crate) sequence_point_interval: Duration,
    pub(crate) clock: Clock,
    pub(crate) key_values: Vec<(String, String)>,
    pub(crate) redactions: RedactionSettings,
    /// The variable of the environment that has the filters.
    pub(crate) filters_from: Option<String>,
    pub(crate) registered: Vec<&'static EventType>,
    pub(crate) refused: Option<Error>,
    pub(crate) on_sink_change: Option<Callback>,
    pub(crate) triggers: Option<StartDumpThread>,
}

impl std::fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("providers", &self.providers)
            .field("budget", &self.memory.budget)
            .field("chunk_size", &self.memory.chunk_size)
            .field("on_full", &self.on_full)
            .field("flush_interval", &self.flush_interval)
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    pub(crate) fn new() -> Self {
        Self {
            output: OutputSettings::default(),
            format: Format::default(),
            ids: Ids::default(),
            providers: None,
            memory: MemorySettings::default(),
            on_full: OnFull::Drop,
            flush_interval: Duration::from_millis(100),
            finish_timeout: Duration::from_secs(10),
            sequence_point_bytes: 16 << 20,
            sequence_point_interval: Duration::from_secs(1),
            clock: Clock::Auto,
            key_values: Vec::new(),
            redactions: RedactionSettings::default(),
            filters_from: None,
            registered: Vec::new(),
            refused: None,
            on_sink_change: None,
            triggers: None,
        }
    }

    /// Writes to a new file, which is a complete trace at every instant. See
    /// [`FileSink`](crate::sink::FileSink) for what that means.
    ///
    /// The file's name can contain placeholders:
    ///
    /// | placeholder | stands for |
    /// |---|---|
    /// | `{pid}` | the id of this process |
    /// | `{time}` | the time of the start in UTC: `20261122T044030Z` |
    /// | `{exe}` | the name of the program |
    /// | `{{`, `}}` | a brace |
    ///
    /// Only the last component of the path may contain placeholders. A relative path is relative to
    /// the current directory at the start of the session. [`Session::path`] returns the final path.
    ///
    /// If the file exists, [`start`](Self::start) fails, unless [`overwrite`](Self::overwrite)
    /// allows to replace it. For a path that is used literally, and for more options, pass a
    /// [`FileSink`](crate::sink::FileSink) to [`sink`](Self::sink).
    ///
    /// ```
    /// use nettrace_writer::Session;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let path = directory.join("{exe}-{pid}-{time}.nettrace");
    /// let session = Session::builder().file(path).start()?;
    /// let path = session.path().expect("the session writes to a file");
    /// assert!(path.exists());
    /// # let name = path.file_name().unwrap().to_str().unwrap();
    /// # assert!(name.contains(&format!("-{}-2", std::process::id())), "{name}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.output.set_file(path.into());
        self
    }

    /// Whether [`file`](Self::file) may replace a file of that name. The default is `false`.
    ///
    /// When the session starts, the new trace replaces the old file as a whole. At that moment it
    /// has no events yet. Programs that have the old file open keep it. A file that another session
    /// is writing is not replaced: the start fails with an error that names the process. See
    /// [`FileOptions::overwrite`](crate::sink::FileOptions::overwrite).
    ///
    /// ```
    /// use nettrace_writer::Session;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("service.nettrace");
    /// for _run in 0..2 {
    ///     let session = Session::builder().file(&path).overwrite(true).start()?;
    ///     session.finish()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.output.existing = if overwrite { Existing::IsReplaced } else { Existing::Stays };
        self
    }

    /// As [`overwrite`](Self::overwrite), but keeps the file that is replaced, and only that one:
    /// `service.nettrace` has the name `service.previous.nettrace` from then on. So the trace of a
    /// run that has crashed is there after the restart. See
    /// [`FileOptions::keep_previous`](crate::sink::FileOptions::keep_previous).
    pub fn keep_previous(mut self) -> Self {
        self.output.existing = Existing::IsKept;
        self
    }

    /// Writes to a sink: [`FileSink`](crate::sink::FileSink),
    /// [`RotatingFiles`](crate::sink::RotatingFiles), [`StreamSink`](crate::sink::StreamSink),
    /// [`MemorySink`](crate::sink::MemorySink), or [one of your own](crate::sink::Sink#example).
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::RotationOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let files = RotationOptions::new(directory, "service")
    ///     .file_size(64 << 20)
    ///     .total_size(1 << 30)
    ///     .build()?;
    /// let session = Session::builder().sink(files).start()?;
    /// # session.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.output.set_sink(sink);
        self
    }

    /// The format of the trace. The default is [`Format::V6`], the only one that stores everything.
    /// See [`Format`] for what the others leave out. Each of them needs a feature of this crate.
    ///
    /// An event costs its thread the same in every format. What the format leaves out is counted:
    /// parts of events in [`Stats::left_out`](crate::Stats::left_out), and whole events in
    /// [`Stats::not_in_format`](crate::Stats::not_in_format). Readers see the latter as gaps in the
    /// sequence numbers.
    ///
    /// A session records every event type that its format can describe. Events of other types
    /// [count as lost](crate::Drops::refused), and [`refused_types`](crate::refused_types) says why.
    /// If such a type is [registered](Self::register), [`start`](Self::start) fails.
    ///
    /// ```
    /// use nettrace_writer::{Format, Session, sink::MemorySink};
    ///
    /// let memory = MemorySink::new();
    /// let session = Session::builder().sink(memory.clone()).format(Format::V5).start()?;
    /// session.finish()?;
    /// assert!(memory.bytes().starts_with(b"Nettrace\x14\0\0\0!FastSerialization.1"));
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The ids of spans in a trace of version 6. The default is [`Ids::Activities`], with which it
    /// is smallest. The other formats have the ids for which they have room.
    ///
    /// A sink that [takes rows apart](Sink::takes_rows_apart), such as that of the module `tail`,
    /// gets [`Ids::Both`].
    pub fn ids(mut self, ids: Ids) -> Self {
        self.ids = ids;
        self
    }

    /// Registers the event types of `T` now rather than with their first event.
    ///
    /// [`start`](Self::start) then fails if a type is refused: because another type is given the
    /// same id, because there are too many, or because the [format](Self::format) cannot describe
    /// it.
    ///
    /// ```
    /// use nettrace_writer::{Error, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop", id = 1)]
    /// struct Opened;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop", id = 1)]
    /// struct Closed;
    ///
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let error = builder.register::<Opened>().register::<Closed>().start().unwrap_err();
    /// assert!(matches!(error, Error::Register(_)), "{error}");
    /// ```
    pub fn register<T: TraceEvent>(mut self) -> Self {
        for ty in T::event_types() {
            match sessions::register_now(ty) {
                Ok(()) => self.registered.push(ty),
                Err(error) => {
                    self.refused.get_or_insert(error.into());
                }
            }
        }
        self
    }

    /// The memory for events that are not yet written, in bytes. The default is 64 MiB. The session
    /// reserves it at the start, but uses a page only when events reach it.
    ///
    /// The session needs some memory beyond the budget. It remembers the stacks and label lists
    /// that it has defined, in at most an eighth of the budget or 256 KiB, whichever is more. It
    /// also takes about half a kibibyte for each thread that records.
    ///
    /// Room is made by the session's thread, which needs a processor for that. Beside thousands of
    /// threads, or other work, it may get none for seconds. Nothing is lost while what is recorded
    /// meanwhile fits half of the budget, in pieces of about 2 KiB for each thread. (That is for
    /// [chunks](Self::chunk_size) of 8 KiB or more, as by default from 512 KiB on.)
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).budget(8 << 20).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn budget(mut self, bytes: usize) -> Self {
        self.memory.budget = bytes;
        self
    }

    /// The part of the budget that the session touches at the start, in bytes. The default is 4
    /// MiB. The rest costs a page fault when events first reach a page.
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let builder = Session::builder().sink(MemorySink::new()).budget(8 << 20);
    /// let session = builder.prefault(8 << 20).start()?; // no page fault while it records
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn prefault(mut self, bytes: usize) -> Self {
        self.memory.prefault = bytes;
        self
    }

    /// The most memory that a thread takes at a time, in bytes: 4 KiB to 1 MiB. The default is
    /// 64 KiB. It is 32 KiB if the budget is below 32 MiB, and less if the budget is below 2 MiB.
    ///
    /// A thread that writes little takes only a part of that, about 2 KiB. Sizes below 8 KiB are
    /// not divided. An idle thread holds no memory.
    ///
    /// ```
    /// # use nettrace_writer::{Error, Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).chunk_size(64 << 10).start()?;
    ///
    /// let error = Session::builder().sink(MemorySink::new()).chunk_size(512).start().unwrap_err();
    /// assert!(matches!(error, Error::ChunkSize { least: 4_096, .. }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn chunk_size(mut self, bytes: usize) -> Self {
        self.memory.chunk_size = Some(bytes);
        self
    }

    /// The handling of events when the budget is used up. The default is [`OnFull::Drop`].
    ///
    /// ```
    /// # use nettrace_writer::{OnFull, Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).on_full(OnFull::Block).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Calls `callback` when the sink begins to fail, when it takes events again, and when it has
    /// failed for good.
    ///
    /// Without a callback a service learns of that from [`Session::flush`], [`Session::warnings`]
    /// and [`Stats`](crate::Stats). With the feature `log` the same changes also go to the crate
    /// `log`, with the target `nettrace_writer`.
    ///
    /// The session's own thread calls the callback between two writes. While the callback runs,
    /// nothing is written, so keep it short. It must not wait for a thread that emits to a session
    /// with [`OnFull::Block`], because that thread may be waiting for the one that runs the
    /// callback. The callback may emit events. Like all events from the session's own thread, they
    /// never wait. If the callback panics, the session goes on and does not call it again.
    ///
    /// ```
    /// use nettrace_writer::{Session, SinkChange, sink::MemorySink};
    ///
    /// let session = Session::builder()
    ///     .sink(MemorySink::new())
    ///     .on_sink_change(|change| {
    ///         eprintln!("trace: {change}");
    ///         if let SinkChange::Failed { .. } = change {
    ///             // Tell whoever watches the service.
    ///         }
    ///     })
    ///     .start()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn on_sink_change(
        mut self,
        callback: impl FnMut(&SinkChange<'_>) + Send + 'static,
    ) -> Self {
        self.on_sink_change = Some(Box::new(callback));
        self
    }

    /// The time between writes. The default is 100 ms. If memory runs low, events are written
    /// sooner. A process that is killed loses at most the events of one interval and of one write.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.flush_interval(Duration::from_secs(1)).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// Time that [`Session::finish`] and the drop of a session wait for the sink to take what is
    /// left. The default is 10 s. At `exit` the wait is shorter: two seconds for all sessions
    /// together.
    ///
    /// A sink can block for ever, for example on a pipe that nobody reads or a server that does not
    /// answer. After this time `finish` returns [`Error::FinishTimeout`], and threads that wait for
    /// room go on. The session's thread and memory remain until the sink's call returns. Then the
    /// thread writes the rest, if the process still runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.finish_timeout(Duration::from_secs(2)).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn finish_timeout(mut self, timeout: Duration) -> Self {
        self.finish_timeout = timeout;
        self
    }

    /// After how many bytes and after how much time the session writes a sequence point. The
    /// default is 16 MiB and one second.
    ///
    /// A sequence point tells readers that no older events follow, and how many events each thread
    /// has recorded. A reader that sorts events by time keeps all events between two sequence
    /// points in memory.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.sequence_points(4 << 20, Duration::from_millis(200)).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn sequence_points(mut self, bytes: u64, interval: Duration) -> Self {
        self.sequence_point_bytes = bytes;
        self.sequence_point_interval = interval;
        self
    }

    /// The clock that stamps events. The default is [`Clock::Auto`].
    ///
    /// ```
    /// # use nettrace_writer::{Clock, Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).clock(Clock::Monotonic).start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a key and a value that describe the trace as a whole, such as the name of a service or
    /// its version.
    ///
    /// A trace of version 6 also tells, without being asked and as far as the system does,
    /// `process.executable.name`, `host.name`, `container.id` and `systemd.unit`. A value that is
    /// given here replaces that of the system, or one that was given before; an empty one hides it.
    /// What the session states itself, it does not replace: `ProcessId`, `HardwareThreadCount` and
    /// keys that begin with `nettrace.` are in the trace as `given.ProcessId` and so on.
    ///
    /// The version of a program only its own package knows, so the line for that is in the program:
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let memory = MemorySink::new();
    /// let builder = Session::builder().sink(memory.clone()).key_value("host.name", "");
    /// let session = builder.key_value("service.version", env!("CARGO_PKG_VERSION")).start()?;
    /// session.finish()?;
    /// let bytes = memory.bytes();
    /// let reader = nettrace_reader::Reader::new(&bytes[..])?;
    /// assert_eq!(reader.trace().value("service.version"), Some(env!("CARGO_PKG_VERSION")));
    /// assert_eq!(reader.trace().value("host.name"), None);
    /// assert!(reader.trace().value("process.executable.name").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key_value(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let key: String = key.into();
        let key = reserved::given_key(&key).into_owned();
        self.key_values.retain(|(other, _)| *other != key);
        self.key_values.push((key, value.into()));
        self
    }

    /// Adds the key-value `process.command_line`: the arguments of this program. They can contain
    /// secrets, so a trace has them only on request.
    ///
    /// ```
    /// # use nettrace_writer::{Session, sink::MemorySink};
    /// let session = Session::builder().sink(MemorySink::new()).command_line().start()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn command_line(self) -> Self {
        self.key_value(description::COMMAND_LINE, description::command_line())
    }

    /// Starts the session. From here on it records.
    ///
    /// A service that must run even if it cannot record calls
    /// [`start_or_warn`](Self::start_or_warn).
    ///
    /// # Errors
    ///
    /// - [`Error::NoSink`], [`Error::ChunkSize`], [`Error::BudgetTooSmall`],
    ///   [`Error::BudgetTooLarge`], [`Error::ZeroFlushInterval`], [`Error::FileName`],
    ///   [`Error::OverwriteWithoutFile`], [`Error::RedactedRecorder`], [`Error::FilterVariable`],
    ///   [`Error::NoClock`]: a setting cannot work.
    /// - [`Error::Register`]: a [registered](Self::register) event type was refused.
    /// - [`Error::Format`]: the [format](Self::format) cannot hold a registered event type, or a
    ///   [key or value](Self::key_value).
    /// - [`Error::Sink`]: the sink could not open the trace, for example because the file exists.
    /// - [`Error::TooManySessions`], [`Error::Thread`], [`Error::InSignalHandler`]: the process or
    ///   the calling thread cannot start a session now.
    ///
    /// ```
    /// use nettrace_writer::{Error, Session};
    ///
    /// let error = Session::builder().start().unwrap_err();
    /// assert!(matches!(error, Error::NoSink));
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a session needs a sink: call `file` or `sink` on its builder"
    /// );
    /// ```
    pub fn start(self) -> Result<Session, Error> {
        Session::start(self)
    }

    /// The key-values of the trace, those of the system among them.
    pub(crate) fn all_key_values(&mut self) -> Vec<(String, String)> {
        let mut all = std::mem::take(&mut self.key_values);
        // The other formats have no place for them.
        if self.format == Format::V6 {
            for (key, value) in description::key_values() {
                if all.iter().all(|(given, _)| given != key) {
                    all.push((key.to_owned(), value));
                }
            }
            all.retain(|(key, value)| !(value.is_empty() && description::is_told(key)));
        }
        all
    }
}
