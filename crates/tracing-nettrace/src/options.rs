//! Options.

use tracing_core::{LevelFilter, Subscriber as Dispatched};
use tracing_subscriber::{
    filter::{ParseError, Targets},
    registry::LookupSpan,
};

#[cfg(feature = "log")]
use crate::log::Logger;
use crate::{
    callsite::Naming,
    layer::{self, Layer},
    recorder::Recorder,
    subscriber::Subscriber,
};

/// Chooses what is recorded, and how. Makes a [layer](Self::layer) or a
/// [subscriber](Self::subscriber).
///
/// ```
/// use tracing_nettrace::Options;
/// use tracing_subscriber::prelude::*;
///
/// let options = Options::new().directives("info,sqlx=warn")?.keyword("sqlx", 0x1);
/// let registry = tracing_subscriber::registry().with(options.clone().layer());
/// let subscriber = options.subscriber(); // instead of the registry
/// # drop((registry, subscriber));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `layer` or `subscriber`"]
pub struct Options {
    pub(crate) naming: Naming,
    pub(crate) polls: bool,
    pub(crate) directives: Option<Targets>,
    pub(crate) keep: LevelFilter,
    pub(crate) span_memory: usize,
    #[cfg(feature = "opentelemetry")]
    pub(crate) opentelemetry: bool,
}

/// Some 300,000 spans.
const SPAN_MEMORY: usize = 64 << 20;

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults: whatever sessions want and `RUST_LOG` lets pass is recorded, and the provider
    /// of a callsite is the crate part of its target.
    pub fn new() -> Self {
        Self {
            naming: Naming::default(),
            polls: false,
            directives: None,
            keep: LevelFilter::OFF,
            span_memory: SPAN_MEMORY,
            #[cfg(feature = "opentelemetry")]
            opentelemetry: false,
        }
    }

    /// Records only what these directives let pass, in the syntax of `RUST_LOG`:
    /// `info,sqlx=warn,my_crate::db=trace`. They come in addition to the filters of sessions.
    ///
    /// Without this, the directives are those of the environment variable `RUST_LOG`. If that is
    /// not set, sessions alone decide, as with the directives `trace`. A variable that cannot be
    /// read is not obeyed, and neither is one in a program that has more rights than who starts it.
    /// The former is said once on the standard error.
    ///
    /// They are those of [`Targets`]: a level for each target. For directives that name spans and
    /// fields, add an `EnvFilter` to the [layer](Self::layer) by `with_filter`.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if a directive cannot be read.
    pub fn directives(self, directives: &str) -> Result<Self, ParseError> {
        Ok(self.targets(directives.parse()?))
    }

    /// As [`directives`](Self::directives), from a value.
    pub fn targets(mut self, targets: Targets) -> Self {
        self.directives = Some(targets);
        self
    }

    /// Whether the provider is the whole target, with dots: `my_crate.db.pool` instead of
    /// `my_crate`.
    pub fn whole_target(mut self, whole: bool) -> Self {
        self.naming.whole_target = whole;
        self
    }

    /// Gives keywords to the callsites whose target is `path` or begins with it: `sqlx` stands for
    /// `sqlx::query`, too. A callsite has the keywords of all paths that fit. One without keywords
    /// passes each filter.
    ///
    /// Up to 47 bits are free. See [`KEYWORD_TRACE`](crate::KEYWORD_TRACE).
    pub fn keyword(mut self, path: impl Into<String>, keywords: u64) -> Self {
        self.naming.keywords.push((path.into(), keywords));
        self
    }

    /// Whether each enter and exit of a span is an event: `Resume` and `Suspend`.
    pub fn polls(mut self, polls: bool) -> Self {
        self.polls = polls;
        self
    }

    /// Keeps spans up to this level although no session wants them, so that a session that begins
    /// later is told of those that are open. By default such spans are disabled, and cost nothing.
    ///
    /// Sessions that begin while others run are told of open spans in any case: see the
    /// [crate's documentation](crate#sessions-that-begin-within-a-span).
    pub fn keep_spans(mut self, level: impl Into<LevelFilter>) -> Self {
        self.keep = level.into();
        self
    }

    /// How much memory open spans may take, in bytes: 64 KiB for the first 256, and some 200 bytes
    /// for any other. The default is 64 MiB, for some 300,000 spans. It is not part of a session's
    /// budget, because spans may be open while no session is.
    ///
    /// A span that finds no room is not recorded: [`spans_refused`](crate::Stats::spans_refused)
    /// counts it, and sessions count its Start and Stop as lost. What happens in it is recorded as
    /// if the span were disabled.
    ///
    /// ```
    /// use tracing_nettrace::Options;
    ///
    /// let options = Options::new().span_memory(256 << 20); // a million open spans
    /// ```
    pub fn span_memory(mut self, bytes: usize) -> Self {
        self.span_memory = bytes;
        self
    }

    /// Whether spans have the ids that OpenTelemetry's layer for `tracing` (of
    /// `tracing-opentelemetry` 0.34) makes for them, so that a trace is found by the same ids here
    /// and in what OpenTelemetry exports to. Spans that it does not know, as those of `#[traced]`
    /// within one of them, are in the same trace. Only the [layer](Self::layer) can do that.
    ///
    /// ```
    /// use opentelemetry::trace::TracerProvider as _;
    /// use tracing_nettrace::Options;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let tracer = opentelemetry_sdk::trace::SdkTracerProvider::default().tracer("shop");
    /// let registry = tracing_subscriber::registry()
    ///     .with(Options::new().opentelemetry(true).layer())
    ///     .with(tracing_opentelemetry::layer().with_tracer(tracer));
    /// # drop(registry);
    /// ```
    ///
    /// OpenTelemetry makes the ids of a span when it is first entered, or when a span begins in it,
    /// so that `set_parent` can come before. The Start is recorded then, and not when the span is
    /// made. Its duration counts from when it was made. OpenTelemetry does not tell which span of
    /// a caller is the parent, so a span with such a parent is a root here, of the caller's trace.
    /// A span that ends without all of this has ids of its own in its parent's trace, unless this
    /// layer comes first, as above.
    #[cfg(feature = "opentelemetry")]
    pub fn opentelemetry(mut self, opentelemetry: bool) -> Self {
        self.opentelemetry = opentelemetry;
        self
    }

    /// A layer for a registry.
    #[must_use]
    pub fn layer<S>(self) -> Layer<S>
    where
        S: Dispatched + for<'span> LookupSpan<'span>,
    {
        layer::build(Recorder::new(self))
    }

    /// A subscriber that needs no registry.
    #[must_use]
    pub fn subscriber(self) -> Subscriber {
        Subscriber::new(Recorder::new(self))
    }

    /// A logger for the crate `log`.
    #[cfg(feature = "log")]
    #[must_use]
    pub fn logger(self) -> Logger {
        Logger::new(Recorder::new(self))
    }
}
