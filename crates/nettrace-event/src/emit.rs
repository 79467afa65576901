//! Emission of events.

use core::{marker::PhantomData, num::NonZero};

use crate::{
    any_event::AnyEvent,
    event::{EventType, TraceEvent},
    recorder::record,
};

/// Records events: every type that implements [`TraceEvent`] has these methods.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use nettrace_event::{Emit, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Answered {
///     micros: u64,
/// }
///
/// /// Takes any event, and passes its value on.
/// fn traced<E: TraceEvent>(event: E) -> E {
///     (&event).emit();
///     event
/// }
///
/// assert_eq!(traced(Answered { micros: 180 }).micros, 180);
/// # }
/// ```
pub trait Emit: TraceEvent {
    /// Records the event in every session that listens to its type. If none does, this costs one
    /// load and one branch.
    ///
    /// Never fails and never panics: an event that cannot be recorded is counted. Never blocks,
    /// unless a session asks for it (`OnFull::Block` of `nettrace-writer`).
    ///
    /// Takes the event by value. So its fields need not be in memory before the check whether a
    /// session listens. To keep the event, write `(&event).emit()`.
    ///
    /// ```
    /// # #[cfg(feature = "derive")] {
    /// use nettrace_event::{Emit, TraceEvent};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Answered<'a> {
    ///     url: &'a str,
    ///     micros: u64,
    /// }
    ///
    /// let event = Answered { url: "/cart", micros: 180 };
    /// (&event).emit();
    /// event.emit();
    /// # }
    /// ```
    #[inline]
    fn emit(self)
    where
        Self: Sized,
    {
        let ty = self.event_type();
        if ty.enabled() != 0 {
            record(&self, ty);
        }
    }

    /// Records the event with a stack or a related thread: the `Origin` of `nettrace-writer`.
    /// Otherwise as [`emit`](Self::emit).
    #[inline]
    fn emit_with(&self, origin: &impl Accompany) {
        let ty = self.event_type();
        if let Some(word) = NonZero::new(ty.enabled()) {
            origin.record(&self, word, ty);
        }
    }
}

impl<T: TraceEvent + ?Sized> Emit for T {}

/// [`Emit::emit`] for an event of any type.
#[doc(hidden)]
pub fn emit_dyn(event: &dyn AnyEvent, ty: &'static EventType) {
    if ty.enabled() != 0 {
        record(event, ty);
    }
}

/// Data that an event can be [emitted with](Emit::emit_with). `nettrace-writer` implements it for
/// its `Origin`.
pub trait Accompany {
    /// Records an event together with this. The word of its type was not 0.
    fn record(&self, event: &dyn AnyEvent, word: NonZero<u32>, ty: &'static EventType);
}

/// Records an event, and evaluates the expression that makes it only if a session listens. If none
/// does, this costs one load and one branch, however expensive the expression is. ([`Emit::emit`]
/// checks as cheaply, but its event exists already.)
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use nettrace_event::{TraceEvent, emit};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Snapshot {
///     rows: usize,
/// }
/// # fn count_rows() -> usize { 3 }
///
/// emit!(Snapshot { rows: count_rows() });
/// # }
/// ```
///
/// The expression is a part of the function around it: it may borrow from temporary values, such as
/// `&format!("…")` or `&names.lock().unwrap()`, and use `?` and `.await`.
#[macro_export]
macro_rules! emit {
    ($event:expr) => {{
        let unmade = $crate::__private::Unmade::EVENT;
        if unmade.is_any_enabled() {
            unmade.emit($event);
        }
    }};
}

/// The type of an event before there is one. For the code of [`emit!`], which no closure can have:
/// what a closure returns cannot borrow from its temporary values.
#[doc(hidden)]
#[derive(Debug)]
pub struct Unmade<T>(PhantomData<fn() -> T>);

impl<T> Unmade<T> {
    /// The compiler finds out `T` by [`emit`](Self::emit).
    pub const EVENT: Self = Self(PhantomData);
}

impl<T: TraceEvent> Unmade<T> {
    /// Whether anybody listens.
    #[inline]
    #[must_use]
    pub fn is_any_enabled(&self) -> bool {
        T::is_any_enabled()
    }

    /// Records the event.
    #[inline]
    pub fn emit(self, event: T) {
        event.emit();
    }
}

/// Records the event that `event` returns. Calls `event` only if a session listens.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use nettrace_event::{TraceEvent, emit_lazy};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Snapshot {
///     rows: usize,
/// }
/// # fn count_rows() -> usize { 3 }
///
/// emit_lazy(|| Snapshot { rows: count_rows() });
/// # }
/// ```
#[inline]
pub fn emit_lazy<T: TraceEvent>(event: impl FnOnce() -> T) {
    if T::is_any_enabled() {
        event().emit();
    }
}
