//! A copy of what is in force, to carry it on.

use std::{fmt, marker::PhantomData};

use nettrace_event::{
    Label,
    trace_context::{SpanId, TraceContext, TraceId},
};

use super::{
    NotAcrossAwait,
    frames::{self, Begun, Entered, Ids, SAMPLED_OUT, Snapshot},
    labels::LabelError,
};

/// What is in force on a thread: the span, its trace, and labels. It can be carried to another
/// thread, through a channel, or into a future.
///
/// A clone is cheap. Labels and `tracestate` are shared, not copied.
///
/// ```
/// use std::thread;
///
/// use nettrace_span::{Context, Label, enter_labels};
///
/// # let session = nettrace_writer::Session::builder()
/// #     .sink(nettrace_writer::sink::MemorySink::new())
/// #     .start()?;
/// let request = enter_labels(&[Label::Str("route", "/cart")])?;
/// let context = Context::current();
/// thread::spawn(move || {
///     let _scope = context.enter();
///     // Events of this thread carry the request's labels, and its span's ids.
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A context that another service sent:
///
/// ```
/// use nettrace_event::trace_context::TraceContext;
/// use nettrace_span::Context;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let caller = Context::from(TraceContext::from_traceparent(header)?);
/// let _scope = caller.enter();
/// // A span that begins here is a child of the caller's.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Context {
    snapshot: Snapshot,
}

impl Context {
    /// A context with no span and no labels. A span that begins in it begins a trace.
    ///
    /// ```
    /// use nettrace_span::Context;
    ///
    /// assert!(Context::none().trace_context().is_none());
    /// ```
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// What is in force on this thread. [`none`](Self::none) if nothing is.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceContext;
    /// use nettrace_span::Context;
    ///
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let _scope = Context::from(TraceContext::from_traceparent(header)?).enter();
    /// let current = Context::current().trace_context().expect("one is in force");
    /// assert_eq!(current.to_traceparent().as_str(), header);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Self {
        Self { snapshot: frames::snapshot() }
    }

    /// Puts this context in force on this thread, instead of what is in force, until the returned
    /// scope ends.
    ///
    /// If the thread is ending, or in a signal handler that interrupted such a change, nothing
    /// changes.
    ///
    /// ```
    /// use nettrace_span::Context;
    ///
    /// let context = Context::current();
    /// {
    ///     let _scope = context.enter();
    ///     // …
    /// }
    /// ```
    pub fn enter(&self) -> ContextScope {
        ContextScope { entered: frames::enter_snapshot(&self.snapshot), not_send: PhantomData }
    }

    /// This context with other labels in addition. Where both have the same kind or key, the new
    /// label is in force.
    ///
    /// # Errors
    ///
    /// [`LabelError::TooLong`] if all labels would exceed [`MAX_LABEL_BYTES`](crate::MAX_LABEL_BYTES);
    /// [`LabelError::ThreadEnding`], [`LabelError::InSignalHandler`].
    ///
    /// # Example
    ///
    /// ```
    /// use nettrace_span::{Context, Label};
    ///
    /// let job = Context::current().with_labels(&[Label::Str("queue", "mail")])?;
    /// let _scope = job.enter();
    /// # Ok::<(), nettrace_span::LabelError>(())
    /// ```
    pub fn with_labels(&self, labels: &[Label<'_>]) -> Result<Self, LabelError> {
        struct Both([Entered; 2]);
        impl Drop for Both {
            fn drop(&mut self) {
                self.0.iter().rev().for_each(frames::leave);
            }
        }
        let mut both = Both([frames::enter_snapshot(&self.snapshot), Entered::NOTHING]);
        both.0[1] = frames::enter_labels(labels)?;
        Ok(Self::current())
    }

    /// The trace and the span, as another service needs them: see
    /// [`TraceContext::to_traceparent`]. `None` if there is no span.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        Some(self.snapshot.ids?.trace_context(self.snapshot.state.clone()))
    }

    /// The id of the trace. `None` if there is no span.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        self.snapshot.ids.map(|ids| ids.trace())
    }

    /// The id of the span. `None` if there is no span.
    #[must_use]
    pub fn span_id(&self) -> Option<SpanId> {
        self.snapshot.ids.map(|ids| ids.span)
    }

    /// Whether this is inside of a tree that sampling left out: spans and events in this context
    /// are not recorded. See [`Sampling`](crate::Sampling).
    ///
    /// ```
    /// use nettrace_span::{Context, Sampling, TraceSpan};
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// #[derive(TraceSpan)]
    /// #[trace_event(provider = "Contoso-Shop", sample = Sampling::never())]
    /// struct Request;
    ///
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// let request = Request.enter();
    /// assert!(Context::current().is_sampled_out() && !request.is_recorded());
    /// # drop(request);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_sampled_out(&self) -> bool {
        self.snapshot.version & SAMPLED_OUT != 0
    }

    /// Calls `f` with this context in force, as [`enter`](Self::enter) does. What is forgotten in
    /// `f` ends with it: it is a poll, or a part of one.
    #[doc(hidden)]
    #[inline]
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let _poll = PollScope(frames::enter_snapshot(&self.snapshot));
        f()
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// The context of a span, for others to be its children.
impl From<&Begun> for Context {
    fn from(span: &Begun) -> Self {
        Self { snapshot: span.into() }
    }
}

/// `trace_id=… span_id=…`, for the lines of a log. Nothing if there is no span.
///
/// So log lines can be found in a trace, and the reverse. With any logger whose lines a closure
/// writes, such as `env_logger` or `fern`:
///
/// ```
/// use nettrace_writer::Context;
///
/// # use std::io::Write;
/// # fn format(line: &mut Vec<u8>, record: &log::Record<'_>) -> std::io::Result<()> {
/// // env_logger::builder().format(|line, record| {
/// writeln!(line, "{} {} {}", record.level(), Context::current(), record.args())
/// // }).init();
/// # }
/// ```
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.trace_id(), self.span_id()) {
            (Some(trace), Some(span)) => write!(f, "trace_id={trace} span_id={span}"),
            _ => Ok(()),
        }
    }
}

/// The span of another service, as its caller or as the parent of spans here.
impl From<TraceContext> for Context {
    fn from(context: TraceContext) -> Self {
        let ids = Ids::of_caller(context.trace_id(), context.span_id(), context.flags());
        Self { snapshot: Snapshot::of_span(ids, context.shared_state()) }
    }
}

/// Ends the scope of a poll, however that ends.
struct PollScope(Entered);

impl Drop for PollScope {
    #[inline]
    fn drop(&mut self) {
        frames::close(&self.0);
    }
}

/// Keeps a [`Context`] in force on the thread that entered it, until it is dropped.
///
/// Scopes may end in any order. What was entered within this one stays in force when this ends.
///
/// Must not be held across an `.await`: a future has
/// [`with_context`](crate::FutureExt::with_context). The
/// [guide] has lines for `clippy.toml`, with which Clippy finds that.
///
/// [guide]: https://docs.rs/nettrace-writer/latest/nettrace_writer/guide/#a-request-as-a-tree
#[derive(Debug)]
#[must_use = "the context is in force until this is dropped; keep it in a variable (`let _ = …` \
              drops it at once)"]
pub struct ContextScope {
    entered: Entered,
    not_send: PhantomData<NotAcrossAwait>,
}

impl Drop for ContextScope {
    #[inline]
    fn drop(&mut self) {
        frames::leave(&self.entered);
    }
}
