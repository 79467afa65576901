//! What a session can be told: which events, how much memory, what to do when it is full, when to write.

use std::{path::PathBuf, time::Duration};

use nettrace_format::Format;
use trace_event::{EventSchema, EventType, Level, TraceEvent, registry};

use crate::{
    clock::Clock,
    error::Error,
    pool,
    session::Session,
    sink::{FileOptions, Sink},
};

/// What happens to an event when the session's memory is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// It is dropped and counted: recording never waits.
    #[default]
    Drop,
    /// Its thread waits until the flusher has made room. Threads of sessions themselves (a sink that emits) and events inside of events
    /// do not wait: they are dropped.
    Block,
}

/// Which events of one provider a session wants.
#[derive(Clone, Debug)]
pub struct ProviderFilter {
    name: String,
    level: Level,
    keywords: u64,
}

impl ProviderFilter {
    /// All events of the provider with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), level: Level::Verbose, keywords: u64::MAX }
    }

    /// Only events of this level or a more severe one; [`Level::LogAlways`] ones always.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Only events that have one of these keywords, or none at all.
    #[must_use]
    pub fn keywords(mut self, keywords: u64) -> Self {
        self.keywords = keywords;
        self
    }

    /// Whether events of this schema pass.
    pub(crate) fn matches(&self, schema: &EventSchema) -> bool {
        schema.provider.name == self.name
            && schema.level <= self.level
            && (schema.keywords == 0 || schema.keywords & self.keywords != 0)
    }
}

impl<T: Into<String>> From<T> for ProviderFilter {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// Sets up a session; made by [`Session::builder`].
#[must_use = "nothing is recorded before `start`"]
pub struct SessionBuilder {
    pub(crate) sink: Option<SinkChoice>,
    pub(crate) format: Format,
    pub(crate) providers: Vec<ProviderFilter>,
    pub(crate) budget: usize,
    pub(crate) chunk_size: Option<usize>,
    pub(crate) prefault: usize,
    pub(crate) on_full: OnFull,
    pub(crate) flush_interval: Duration,
    pub(crate) sequence_point_bytes: u64,
    pub(crate) sequence_point_interval: Duration,
    pub(crate) clock: Clock,
    pub(crate) key_values: Vec<(String, String)>,
    pub(crate) registered: Vec<&'static EventType>,
    pub(crate) refused: Option<Error>,
}

/// Where the trace goes.
pub(crate) enum SinkChoice {
    File(FileOptions),
    Custom(Box<dyn Sink>),
}

impl std::fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("providers", &self.providers)
            .field("budget", &self.budget)
            .field("chunk_size", &self.chunk_size)
            .field("on_full", &self.on_full)
            .field("flush_interval", &self.flush_interval)
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    pub(crate) fn new() -> Self {
        Self {
            sink: None,
            format: Format::default(),
            providers: Vec::new(),
            budget: 64 << 20,
            chunk_size: None,
            prefault: 4 << 20,
            on_full: OnFull::Drop,
            flush_interval: Duration::from_millis(100),
            sequence_point_bytes: 16 << 20,
            sequence_point_interval: Duration::from_secs(1),
            clock: Clock::Auto,
            key_values: Vec::new(),
            registered: Vec::new(),
            refused: None,
        }
    }

    /// Writes to a new file; see [`FileSink`](crate::sink::FileSink) for what it guarantees and [`FileOptions`] for more choice.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sink = Some(SinkChoice::File(FileOptions::new(path)));
        self
    }

    /// Writes to a sink: [`FileSink`](crate::sink::FileSink), [`RotatingFiles`](crate::sink::RotatingFiles), [`StreamSink`](crate::sink::StreamSink),
    /// [`MemorySink`](crate::sink::MemorySink) or one of your own.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sink = Some(SinkChoice::Custom(Box::new(sink)));
        self
    }

    /// The format; default [`Format::V6`], which alone says everything. See [`Format`] for what the others cannot.
    ///
    /// Threads record the same whatever the format, at the same cost. What a trace then does not say is counted
    /// ([`Stats::left_out`](crate::Stats::left_out)); an event that the format cannot hold is counted as well
    /// ([`Stats::not_in_format`](crate::Stats::not_in_format)), and readers find its number missing.
    ///
    /// A session records every type that its format can describe. Of one that it cannot, nothing is recorded, and
    /// [`refused_types`](crate::refused_types) says why; [`register`](Self::register) makes that an error of [`start`](Self::start).
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Records events of this provider, by name or by [`ProviderFilter`]; call it once for each. A session that names none records all.
    pub fn provider(mut self, provider: impl Into<ProviderFilter>) -> Self {
        self.providers.push(provider.into());
        self
    }

    /// Registers the event types of `T` now rather than with their first event, so that a clash of ids is an error of
    /// [`start`](Self::start).
    pub fn register<T: TraceEvent>(mut self) -> Self {
        for ty in T::TYPES {
            match registry::register(ty) {
                Ok(()) => self.registered.push(ty),
                Err(error) => {
                    self.refused.get_or_insert(error.into());
                }
            }
        }
        self
    }

    /// Memory for events that are not yet written, in bytes; default 64 MiB. Reserved at the start, but a page is used only when
    /// events reach it.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// How much of the budget has its pages from the start, in bytes; default 4 MiB. More follows as it is needed.
    pub fn prefault(mut self, bytes: usize) -> Self {
        self.prefault = bytes;
        self
    }

    /// How much memory a thread takes at a time, in bytes: 4 KiB to 1 MiB; default 32 KiB, less where the budget is
    /// below 2 MiB. An idle thread holds none.
    pub fn chunk_size(mut self, bytes: usize) -> Self {
        self.chunk_size = Some(bytes);
        self
    }

    /// What happens when the budget is spent; default [`OnFull::Drop`].
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// How often events are written; default 100 ms. Sooner when memory runs low.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// After how many bytes and how much time a sequence point is due; default 16 MiB and one second. Between two of them a reader
    /// must keep all events in order to sort them.
    pub fn sequence_points(mut self, bytes: u64, interval: Duration) -> Self {
        self.sequence_point_bytes = bytes;
        self.sequence_point_interval = interval;
        self
    }

    /// The clock; default [`Clock::Auto`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Says something of the trace as a whole: a service's name, its version, the machine.
    pub fn key_value(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.key_values.push((key.into(), value.into()));
        self
    }

    /// Starts the session.
    ///
    /// # Errors
    ///
    /// See [`Error`]: a setting that makes no sense, a refused event type, a sink that fails, 31 sessions already.
    pub fn start(self) -> Result<Session, Error> {
        Session::start(self)
    }

    /// Sizes of the chunks.
    pub(crate) fn layout(&self) -> Result<pool::Layout, Error> {
        let setting = |message: String| Err(Error::Setting { message });
        let chunk_size = match self.chunk_size {
            Some(size @ 4_096..=1_048_576) => size.next_multiple_of(64),
            Some(size) => {
                return setting(format!("a chunk of {size} bytes is not between 4 KiB and 1 MiB"));
            }
            None => (self.budget / 64).next_power_of_two().clamp(4_096, 32 << 10),
        };
        // The largest payload, the largest labels and stack, headers.
        let jumbo_size: usize = 80 << 10;
        let jumbos = (self.budget / (16 * jumbo_size)).clamp(1, 32);
        let chunks = self.budget.saturating_sub(jumbos * jumbo_size) / chunk_size;
        if chunks < 4 {
            return setting(format!(
                "a budget of {} bytes holds fewer than 4 chunks of {chunk_size} bytes beside {} for large events; give it more",
                self.budget,
                jumbos * jumbo_size,
            ));
        }
        let Ok(chunks) = u32::try_from(chunks.min(1 << 24)) else { unreachable!("at most 2^24") };
        Ok(pool::Layout { chunk_size, chunks, jumbo_size, jumbos: jumbos as u32 })
    }

    pub(crate) fn open_sink(&mut self) -> Result<Box<dyn Sink>, Error> {
        match self.sink.take() {
            Some(SinkChoice::File(options)) => Ok(Box::new(options.build())),
            Some(SinkChoice::Custom(sink)) => Ok(sink),
            None => Err(Error::NoSink),
        }
    }
}
