//! Spans that are structs.

use super::{EnteredSpan, Parent, Sampling, Span, SpanEvents};
use crate::context::Context;

/// A span that has not begun. `#[derive(TraceSpan)]` implements it for a struct, whose fields the
/// Start has.
///
/// A guard, for what happens on one thread. It is not `Send`:
///
/// ```
/// use nettrace_span::TraceSpan;
///
/// #[derive(TraceSpan)]
/// #[trace_event(provider = "Contoso-Shop", later = [items: u32])]
/// struct Checkout<'a> {
///     cart: &'a str,
/// }
///
/// let mut span = Checkout { cart: "c-17" }.enter();
/// // Events and spans from here on are within it.
/// span.record_items(3);
/// drop(span); // The Stop has `items`.
/// ```
///
/// A future, which is polled on any thread:
///
/// ```
/// use nettrace_span::{FutureExt, Outcome, TraceSpan};
///
/// # #[derive(TraceSpan)]
/// # #[trace_event(provider = "Contoso-Shop", later = [items: u32])]
/// # struct Checkout<'a> {
/// #     cart: &'a str,
/// # }
/// # fn spawn(_: impl Future + Send) {}
/// async fn check_out() -> Result<u32, std::io::Error> {
///     Ok(3)
/// }
///
/// let span = Checkout { cart: "c-17" }.start();
/// spawn(check_out().in_span_with(span, |span, result| {
///     if let Ok(items) = result {
///         span.record_items(*items);
///     }
///     Outcome::of(result)
/// }));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a span",
    label = "not a span",
    note = "a span is a struct with `#[derive(TraceSpan)]`"
)]
pub trait TraceSpan: Sized {
    /// The span's events, with a method `record_…` for each field that becomes known later.
    type Events: SpanEvents;

    /// Begins the span in the one in force on this thread. It is not entered.
    #[inline]
    fn start(self) -> Span<Self::Events> {
        self.start_with(Parent::Current)
    }

    /// Begins the span in a context. It is not entered.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceContext;
    /// use nettrace_span::{Context, TraceSpan};
    ///
    /// #[derive(TraceSpan)]
    /// #[trace_event(provider = "Contoso-Shop")]
    /// struct Request;
    ///
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let caller = Context::from(TraceContext::from_traceparent(header)?);
    /// let span = Request.start_in(&caller);
    /// # drop(span);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    fn start_in(self, parent: &Context) -> Span<Self::Events> {
        self.start_with(Parent::Of(parent))
    }

    /// Begins the span in the one in force on this thread, and enters it until the guard is
    /// dropped.
    #[inline]
    fn enter(self) -> EnteredSpan<Self::Events> {
        self.enter_with(Parent::Current)
    }

    /// Begins the span where `parent` says. It is not entered.
    #[inline]
    fn start_with(self, parent: Parent<'_>) -> Span<Self::Events> {
        self.start_sampled(parent, None)
    }

    /// Begins the span where `parent` says, and enters it until the guard is dropped.
    #[inline]
    fn enter_with(self, parent: Parent<'_>) -> EnteredSpan<Self::Events> {
        self.enter_sampled(parent, None)
    }

    /// Begins the span where `parent` says. It is not entered. If it is a root, `sampling` decides
    /// whether its tree is recorded; `None` leaves that to the key `sample`.
    ///
    /// ```
    /// use nettrace_span::{Parent, Sampling, TraceSpan};
    ///
    /// #[derive(TraceSpan)]
    /// #[trace_event(provider = "Contoso-Shop")]
    /// struct Job;
    ///
    /// let one_in_ten = Sampling::ratio(0.1);
    /// let span = Job.start_sampled(Parent::None, Some(one_in_ten));
    /// # drop(span);
    /// ```
    fn start_sampled(self, parent: Parent<'_>, sampling: Option<Sampling>) -> Span<Self::Events>;

    /// [`start_sampled`](Self::start_sampled), entered until the guard is dropped.
    fn enter_sampled(
        self,
        parent: Parent<'_>,
        sampling: Option<Sampling>,
    ) -> EnteredSpan<Self::Events>;
}
