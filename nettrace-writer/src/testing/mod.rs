//! Captures of emitted events, and assertions about them: feature `testing`, for dev-dependencies.
//!
//! ```
//! use nettrace_writer::{Emit, TraceEvent, assert_event, assert_no_event, testing};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Checkout")]
//! struct Answered<'a> {
//!     url: &'a str,
//!     status: u16,
//! }
//!
//! // In a test:
//! let events = testing::capture();
//! Answered { url: "/cart", status: 200 }.emit(); // what the test calls
//! assert_event!(events, Answered { status: 200, url: "/cart" });
//! assert_no_event!(events, Answered { status: 500.., .. });
//! ```
//!
//! # What is captured
//!
//! What the thread emits that called [`capture`], until the returned [`Capture`] is dropped, and
//! what others emit in its context: tasks, threads and blocking calls that it was carried to as any
//! context is ([`Context::current`](crate::Context::current),
//! [`with_context`](crate::FutureExt::with_context), [`in_span`](crate::FutureExt::in_span),
//! spans of `tracing` that are entered there). Events of every provider and level are captured,
//! derived, traced, and of `tracing`.
//!
//! - A thread or a task that was given no context is not captured, like its spans that would be in
//!   no tree. (On a runtime with one thread, tasks run on the test's own thread.)
//! - Other tests see nothing of it, and it sees nothing of them, in one process and at the same
//!   time.
//! - Sessions record what they would record without it. It needs no session, but takes one of the
//!   30 places for those, however many captures there are.
//! - A root that begins within it is recorded, whatever its [`Sampling`](crate::Sampling) says: a
//!   test must not depend on chance. Within a tree that is sampled out already, only errors are.
//! - A capture within a capture, on the same thread: both get the events of the inner one.
//! - A capture that is dropped before one within it leaves that one in force.
//! - An event that is emitted in a signal handler may be missing, and so may one of an allocator
//!   that emits: that of the memory for a captured event is.
//! - The child of a `fork` captures nothing until it calls [`capture`] itself.

mod event;
mod pattern;
mod span;
mod value;
mod watch;

use std::{
    fmt, future,
    marker::PhantomData,
    panic::Location,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use nettrace_event::TraceEvent;
use nettrace_span::{
    backend::NotAcrossAwait,
    frames::{self, Entered},
};

use self::watch::EventWaker;
pub use self::{
    event::Event,
    pattern::{Expected, Pattern, That, that},
    span::Span,
    value::{FromValue, Value},
};
use crate::{
    emit::attach,
    shared::sessions::captures::{self, Store},
};

/// The number of captured lines that a message shows.
const SHOWN: usize = 20;

/// Captures what this thread emits, and what others emit in its context, until the returned guard
/// is dropped. See the [module](self).
///
/// # Panics
///
/// If the process has 30 sessions, or in a signal handler.
#[must_use = "it captures until this is dropped; keep it in a variable"]
#[track_caller]
pub fn capture() -> Capture {
    let store = Arc::new(Store::default());
    match captures::begin(attach, &store, frames::captured()) {
        Ok(number) => {
            let entered = frames::enter_capture(number);
            Capture { store, number, entered, not_send: PhantomData }
        }
        Err(error) => panic!("cannot capture events: {error}"),
    }
}

/// The events emitted since [`capture`] was called.
///
/// It belongs to its thread, like a [`ContextScope`](crate::ContextScope). A test may hold it
/// across an `.await` all the same: a runtime polls the body of `#[tokio::test]` on one thread. But
/// a future that has a context of its own, such as a traced one, takes it out of force with that.
#[must_use = "it captures until this is dropped; keep it in a variable"]
pub struct Capture {
    store: Arc<Store>,
    number: u32,
    entered: Entered,
    not_send: PhantomData<NotAcrossAwait>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        frames::leave(&self.entered);
        captures::end(self.number);
    }
}

impl Capture {
    /// All events so far, in the order in which they came.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.store.events().into_iter().map(Event::new).collect()
    }

    /// The events of a type.
    #[must_use]
    pub fn of<T: TraceEvent>(&self) -> Vec<Event> {
        let types = T::event_types();
        let mut events = self.events();
        events.retain(|event| types.iter().any(|ty| std::ptr::eq(ty.schema(), event.schema())));
        events
    }

    /// The events that fit a [pattern](crate::pattern).
    #[must_use]
    pub fn find(&self, pattern: &Pattern<'_>) -> Vec<Event> {
        let events = self.events();
        pattern.find_events(&span::trees(&events), &events).fitting
    }

    /// The spans so far, as trees: those that began in no other of them.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let trees = span::trees(&self.events());
        trees.iter().filter_map(|item| item.span().cloned()).collect()
    }

    /// The spans that fit a [pattern](crate::pattern), at any depth.
    #[must_use]
    pub fn find_spans(&self, pattern: &Pattern<'_>) -> Vec<Span> {
        pattern.find_spans(&span::trees(&self.events())).fitting
    }

    /// Forgets what has come so far.
    pub fn clear(&self) {
        self.store.clear();
    }

    /// Waits until a condition holds, for work on other threads. It is asked after each event.
    ///
    /// This blocks the thread. On a runtime with one thread, as `#[tokio::test]` has, tasks go on
    /// only while the test awaits something: use [`until`](Self::until) there.
    ///
    /// ```
    /// # use nettrace_writer::{Emit, TraceEvent, testing};
    /// use std::{thread, time::Duration};
    ///
    /// use nettrace_writer::Context;
    ///
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Contoso-Checkout")]
    /// # struct Sent { id: u64 }
    /// let events = testing::capture();
    /// let context = Context::current();
    /// thread::spawn(move || {
    ///     let _scope = context.enter();
    ///     (0..3).for_each(|id| Sent { id }.emit());
    /// });
    /// events.wait_for(|events| events.of::<Sent>().len() == 3, Duration::from_secs(60));
    /// ```
    ///
    /// # Panics
    ///
    /// If it does not hold after `limit`.
    #[track_caller]
    pub fn wait_for(&self, mut condition: impl FnMut(&Self) -> bool, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            // Before the condition is asked, so that no event comes unnoticed in between.
            let known = self.store.len();
            if condition(self) {
                return;
            }
            if !self.store.wait_for_more(known, deadline, || false) {
                panic!(
                    "what the test waits for has not come in {limit:?} (meanwhile this thread was \
                     blocked; if tasks need it to go on, write `until(…).await`)\n{self}"
                );
            }
        }
    }

    /// [`wait_for`](Self::wait_for) without blocking the thread, for tasks of a runtime that has no
    /// other. It works on every runtime.
    ///
    /// ```
    /// # use nettrace_writer::{Emit, TraceEvent, testing};
    /// use std::time::Duration;
    ///
    /// use nettrace_writer::{Context, FutureExt};
    ///
    /// # #[derive(TraceEvent)]
    /// # #[trace_event(provider = "Contoso-Checkout")]
    /// # struct Sent { id: u64 }
    /// #[tokio::main(flavor = "current_thread")] // as that of `#[tokio::test]`
    /// async fn main() {
    ///     let events = testing::capture();
    ///     let sends = async { (0..3).for_each(|id| Sent { id }.emit()) };
    ///     tokio::spawn(sends.with_context(Context::current()));
    ///     let limit = Duration::from_secs(60);
    ///     events.until(|events| events.of::<Sent>().len() == 3, limit).await;
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// If it does not hold after `limit`.
    #[track_caller]
    pub fn until(
        &self,
        mut condition: impl FnMut(&Self) -> bool,
        limit: Duration,
    ) -> impl Future<Output = ()> {
        let caller = Location::caller();
        let deadline = Instant::now() + limit;
        let mut watch: Option<EventWaker> = None;
        future::poll_fn(move |cx| {
            // All of this before the condition is asked, so that no event comes unnoticed in
            // between.
            let known = self.store.len();
            let is_over = watch.as_ref().is_some_and(|watch| watch.wake(cx.waker()));
            if condition(self) {
                return Poll::Ready(());
            }
            assert!(
                !is_over,
                "what the test waits for at {caller} has not come in {limit:?}\n{self}"
            );
            watch
                .get_or_insert_with(|| EventWaker::start(&self.store, known, deadline, cx.waker()));
            Poll::Pending
        })
    }

    /// All that came, as text in which nothing differs from run to run: no times, durations, GUIDs
    /// and ids of spans. Spans are trees, and in a span everything is in the order in which it
    /// came. For `insta::assert_snapshot!` and the like.
    ///
    /// ```
    /// # use nettrace_writer::{Emit, TraceEvent, testing, traced};
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Sold {
    ///     cents: u64,
    /// }
    ///
    /// #[traced(provider = "Contoso-Checkout", fields = [cart], err)]
    /// fn check_out(cart: u64) -> Result<(), std::fmt::Error> {
    ///     Sold { cents: 1_250 }.emit();
    ///     if cart > 7 { Err(std::fmt::Error) } else { Ok(()) }
    /// }
    ///
    /// let events = testing::capture();
    /// let _ = (check_out(7), check_out(8));
    /// let expected = "\
    /// check_out { cart: 7, err: None } -> ok
    ///   Sold { cents: 1250 }
    /// check_out { cart: 8, err: \"an error occurred when formatting an argument\" } -> err
    ///   Sold { cents: 1250 }
    /// ";
    /// assert_eq!(events.snapshot(), expected);
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> String {
        span::text(&span::trees(&self.events()), false)
    }

    /// [`snapshot`](Self::snapshot) for work that goes on at the same time on several threads:
    /// what is in one span comes in the order of its text.
    #[must_use]
    pub fn sorted_snapshot(&self) -> String {
        span::text(&span::trees(&self.events()), true)
    }

    /// Returns the first event that fits a pattern. [`assert_event!`](crate::assert_event) calls it.
    ///
    /// # Panics
    ///
    /// If there is none. The message has the nearest one.
    #[track_caller]
    #[allow(clippy::must_use_candidate, reason = "it asserts")]
    pub fn assert_event(&self, pattern: &Pattern<'_>) -> Event {
        let events = self.events();
        let found = pattern.find_events(&span::trees(&events), &events);
        match found.fitting.into_iter().next() {
            Some(event) => event,
            None => panic!("{}{self}", found.text),
        }
    }

    /// Returns the first span that fits a pattern. [`assert_span!`](crate::assert_span) calls it.
    ///
    /// # Panics
    ///
    /// If there is none. The message has the nearest one.
    #[track_caller]
    #[allow(clippy::must_use_candidate, reason = "it asserts")]
    pub fn assert_span(&self, pattern: &Pattern<'_>) -> Span {
        let found = pattern.find_spans(&span::trees(&self.events()));
        match found.fitting.into_iter().next() {
            Some(span) => span,
            None => panic!("{}{self}", found.text),
        }
    }

    /// Asserts that no event fits a pattern. [`assert_no_event!`](crate::assert_no_event) calls it.
    ///
    /// # Panics
    ///
    /// If one does.
    #[track_caller]
    pub fn assert_no_event(&self, pattern: &Pattern<'_>) {
        let found: Vec<_> = self.find(pattern).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}{self}", pattern.unwanted(&found));
    }

    /// Asserts that there is no event. [`assert_no_event!`](crate::assert_no_event) calls it.
    ///
    /// # Panics
    ///
    /// If there is one.
    #[track_caller]
    pub fn assert_nothing(&self) {
        assert!(self.store.events().is_empty(), "there should be no event\n{self}");
    }
}

/// The captured events, a line for each.
impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events();
        match events.len() {
            0 => return f.write_str("captured: nothing"),
            1 => f.write_str("captured: 1 event")?,
            count => write!(f, "captured: {count} events")?,
        }
        for event in events.iter().take(SHOWN) {
            write!(f, "\n    {}/{event}", event.provider())?;
        }
        if events.len() > SHOWN {
            write!(f, "\n    … {} more", events.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Asserts that an event was captured, and returns it. Otherwise the message has the nearest one,
/// and how it differs. The pattern is that of [`pattern!`](crate::pattern), without `event`.
///
/// ```
/// # use nettrace_writer::{Emit, TraceEvent, assert_event, testing};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Contoso-Checkout")]
/// # struct Answered<'a> { url: &'a str, status: u16, micros: u64 }
/// let events = testing::capture();
/// Answered { url: "/cart", status: 200, micros: 180 }.emit();
/// let answered = assert_event!(events, Answered { status: 200, url: "/cart", .. });
/// assert!(answered.get::<u64>("micros") < 1_000);
/// ```
#[macro_export]
macro_rules! assert_event {
    ($events:expr, $($pattern:tt)+) => {
        $events.assert_event(&$crate::pattern!(event $($pattern)+))
    };
}

/// Asserts that no such event was captured; without a pattern, that none was.
///
/// ```
/// use nettrace_writer::{assert_no_event, testing};
///
/// let events = testing::capture();
/// assert_no_event!(events, "Contoso-Checkout/Failed" { status: 500, .. });
/// assert_no_event!(events);
/// ```
#[macro_export]
macro_rules! assert_no_event {
    ($events:expr $(,)?) => { $events.assert_nothing() };
    ($events:expr, $($pattern:tt)+) => {
        $events.assert_no_event(&$crate::pattern!(event $($pattern)+))
    };
}

/// Asserts that a span was captured, at any depth, and returns it. The pattern is that of
/// [`pattern!`](crate::pattern), without `span`. Its fields are those of the Start and of the Stop.
///
/// ```
/// use nettrace_writer::{TraceSpan, assert_span, testing, traced};
///
/// #[derive(TraceSpan)]
/// #[trace_event(provider = "Contoso-Checkout", later = [status: u16])]
/// struct Request<'a> {
///     route: &'a str,
/// }
///
/// #[traced(provider = "Contoso-Checkout")]
/// fn check_out() {}
///
/// let events = testing::capture();
/// let mut request = Request { route: "/cart" }.enter();
/// check_out();
/// request.record_status(200);
/// drop(request);
/// let request = assert_span!(events, Request { route: "/cart", "status": 200, .. });
/// assert_eq!(request.children().next().unwrap().name(), "check_out");
/// assert_span!(events, "check_out" { outcome: "ok", .. });
/// ```
#[macro_export]
macro_rules! assert_span {
    ($events:expr, $($pattern:tt)+) => {
        $events.assert_span(&$crate::pattern!(span $($pattern)+))
    };
}
