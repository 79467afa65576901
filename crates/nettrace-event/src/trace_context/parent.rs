//! The header `traceparent`.

use alloc::sync::Arc;
use core::{fmt, ops::Deref, str};

use crate::{
    hex::{self, NoDigit},
    trace_context::{
        id::{SpanId, TraceId},
        state::TraceState,
    },
};

/// The length of `traceparent` in version 00: `00-TRACE-SPAN-FLAGS`.
const LEN: usize = 55;

/// Why a text is not a valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceParentError {
    /// It is shorter than version 00 requires, or longer, or lacks a dash where the standard
    /// requires one.
    Form,
    /// It has a character that is not a lowercase hexadecimal digit.
    Digit,
    /// Version `ff`, which the standard forbids.
    Version,
    /// The trace id is zero.
    ZeroTrace,
    /// The span id is zero.
    ZeroSpan,
}

impl fmt::Display for TraceParentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "a traceparent has the form 00-TRACE-SPAN-FLAGS with 2, 32, 16 and 2 digits"
            }
            Self::Digit => "the parts of a traceparent consist of lowercase hexadecimal digits",
            Self::Version => "a traceparent cannot have version ff",
            Self::ZeroTrace => "the trace id of a traceparent cannot be zero",
            Self::ZeroSpan => "the span id of a traceparent cannot be zero",
        })
    }
}

impl core::error::Error for TraceParentError {}

impl From<NoDigit> for TraceParentError {
    fn from(_: NoDigit) -> Self {
        Self::Digit
    }
}

/// A caller's information about a trace besides its ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TraceFlags(u8);

impl TraceFlags {
    /// No flag is set.
    pub const NONE: Self = Self(0);
    /// The caller may have recorded the trace.
    pub const SAMPLED: Self = Self(1);
    /// At least the last 7 bytes of the trace id were chosen at random (Trace Context level 2).
    pub const RANDOM: Self = Self(2);
    /// The flags that have a meaning.
    const KNOWN: u8 = 3;

    /// Flags with these bits. Bits that have no meaning yet are cleared, as the standard requires
    /// of those who pass flags on.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceFlags;
    ///
    /// assert_eq!(TraceFlags::from_bits(0xfd), TraceFlags::SAMPLED);
    /// ```
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::KNOWN)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether [`SAMPLED`](Self::SAMPLED) is set.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED.0 != 0
    }

    /// Whether [`RANDOM`](Self::RANDOM) is set.
    #[must_use]
    pub const fn is_random(self) -> bool {
        self.0 & Self::RANDOM.0 != 0
    }

    /// These flags, with [`SAMPLED`](Self::SAMPLED) set or cleared.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceFlags;
    ///
    /// let flags = TraceFlags::RANDOM.with_sampled(true);
    /// assert_eq!((flags.bits(), flags.with_sampled(false)), (3, TraceFlags::RANDOM));
    /// ```
    #[must_use]
    pub const fn with_sampled(self, is_sampled: bool) -> Self {
        Self(self.0 & !Self::SAMPLED.0 | is_sampled as u8)
    }
}

/// A place in a trace: its id, the id of a span, flags, and what services along the way have added.
///
/// A clone costs no more than a reference count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: TraceId,
    span: SpanId,
    flags: TraceFlags,
    /// `None` if it has no members.
    state: Option<Arc<TraceState>>,
}

impl TraceContext {
    /// A context of these ids, without a state.
    ///
    /// ```
    /// use nettrace_event::trace_context::{SpanId, TraceContext, TraceFlags, TraceId};
    ///
    /// let (trace, span) = (TraceId::from_bytes([0xab; 16]), SpanId::from_u64(1));
    /// let context = TraceContext::new(trace.unwrap(), span.unwrap(), TraceFlags::NONE);
    /// let expected = "00-abababababababababababababababab-0000000000000001-00";
    /// assert_eq!(&*context.to_traceparent(), expected);
    /// ```
    #[inline]
    #[must_use]
    pub const fn new(trace: TraceId, span: SpanId, flags: TraceFlags) -> Self {
        Self { trace, span, flags, state: None }
    }

    /// Reads the header `traceparent`, which is text, or bytes as libraries for HTTP have them.
    ///
    /// If the version is above 00, it reads only the parts that version 00 has, as the standard
    /// requires.
    ///
    /// # Errors
    ///
    /// [`TraceParentError`] if the header breaks a rule of the standard. A service then begins a
    /// trace of its own, and also ignores `tracestate`.
    ///
    /// # Example
    ///
    /// ```
    /// use nettrace_event::trace_context::{TraceContext, TraceParentError};
    ///
    /// let read = |header: &str| TraceContext::from_traceparent(header);
    /// let context = read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")?;
    /// assert_eq!(context.span_id().to_string(), "00f067aa0ba902b7");
    /// assert_eq!(
    ///     read("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-00"),
    ///     Err(TraceParentError::Digit)
    /// );
    /// # Ok::<(), TraceParentError>(())
    /// ```
    #[inline]
    pub fn from_traceparent(header: impl AsRef<[u8]>) -> Result<Self, TraceParentError> {
        Self::read(header.as_ref())
    }

    fn read(header: &[u8]) -> Result<Self, TraceParentError> {
        let (parts, rest) = header.split_first_chunk::<LEN>().ok_or(TraceParentError::Form)?;
        match hex::read_byte(part(parts, 0))? {
            0xff => return Err(TraceParentError::Version),
            0 if !rest.is_empty() => return Err(TraceParentError::Form),
            _ => {}
        }
        let has_dashes = parts[2] == b'-' && parts[35] == b'-' && parts[52] == b'-';
        if !has_dashes || rest.first().is_some_and(|byte| *byte != b'-') || !rest.is_ascii() {
            return Err(TraceParentError::Form);
        }
        // Both ids at once take fewer instructions than one after the other.
        let mut digits = [0; 48];
        digits[..32].copy_from_slice(&parts[3..35]);
        digits[32..].copy_from_slice(&parts[36..52]);
        let ids: [u8; 24] = hex::read(&digits)?;
        let trace = TraceId::from_bytes(part(&ids, 0));
        let span = SpanId::from_bytes(part(&ids, 16));
        let flags = hex::read_byte(part(parts, 53))?;
        Ok(Self {
            trace: trace.ok_or(TraceParentError::ZeroTrace)?,
            span: span.ok_or(TraceParentError::ZeroSpan)?,
            flags: TraceFlags::from_bits(flags),
            state: None,
        })
    }

    /// Reads the headers of a request: `traceparent`, and any number of `tracestate`.
    ///
    /// A `tracestate` that breaks a rule of the standard is left out as a whole, which the standard
    /// requires. The rest of the context is valid.
    ///
    /// # Errors
    ///
    /// As for [`from_traceparent`](Self::from_traceparent).
    ///
    /// # Example
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceContext;
    ///
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let context = TraceContext::from_headers(parent, ["rojo=1", "congo=2"])?;
    /// assert_eq!(context.state().unwrap().to_string(), "rojo=1,congo=2");
    /// assert!(TraceContext::from_headers(parent, ["no member"])?.state().is_none());
    /// # Ok::<(), nettrace_event::trace_context::TraceParentError>(())
    /// ```
    #[inline]
    pub fn from_headers<'a>(
        traceparent: impl AsRef<[u8]>,
        tracestate: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TraceParentError> {
        let mut context = Self::from_traceparent(traceparent)?;
        let mut headers = tracestate.into_iter().peekable();
        // Most requests have none.
        if headers.peek().is_some() {
            if let Ok(state) = TraceState::from_headers(headers) {
                context = context.with_state(state);
            }
        }
        Ok(context)
    }

    /// This context with another state.
    #[must_use]
    pub fn with_state(self, state: TraceState) -> Self {
        let state = (!state.is_empty()).then(|| Arc::new(state));
        Self { state, ..self }
    }

    /// This context with a state that others have too: see [`shared_state`](Self::shared_state).
    ///
    /// ```
    /// use nettrace_event::trace_context::{TraceContext, TraceState};
    ///
    /// # let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let state = TraceState::from_headers(["rojo=1"])?;
    /// let context = TraceContext::from_traceparent(parent)?.with_state(state);
    /// let other = TraceContext::from_traceparent(parent)?;
    /// let other = other.with_shared_state(context.shared_state());
    /// assert_eq!(other, context);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_shared_state(self, state: Option<Arc<TraceState>>) -> Self {
        let state = state.filter(|state| !state.is_empty());
        Self { state, ..self }
    }

    /// This context with other flags.
    #[must_use]
    pub fn with_flags(mut self, flags: TraceFlags) -> Self {
        self.flags = flags;
        self
    }

    /// The context of a span within this one's: the same trace, flags and state.
    #[must_use]
    pub fn child(&self, span: SpanId) -> Self {
        Self { span, ..self.clone() }
    }

    /// The id of the trace.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// The id of the span: of the caller's span if the context was read from a request.
    #[must_use]
    pub const fn span_id(&self) -> SpanId {
        self.span
    }

    /// The flags.
    #[must_use]
    pub const fn flags(&self) -> TraceFlags {
        self.flags
    }

    /// The additions of services along the way. `None` if they have added nothing.
    #[must_use]
    pub fn state(&self) -> Option<&TraceState> {
        self.state.as_deref()
    }

    /// The [state](Self::state), to be kept without a copy of it.
    #[must_use]
    pub fn shared_state(&self) -> Option<Arc<TraceState>> {
        self.state.clone()
    }

    /// The header `traceparent`, of version 00. Does not allocate.
    #[must_use]
    pub fn to_traceparent(&self) -> TraceParent {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        let (trace, span) = (self.trace.to_bytes(), self.span.to_bytes());
        text[3..35].copy_from_slice(&hex::digits::<16, 32>(&trace));
        text[36..52].copy_from_slice(&hex::digits::<8, 16>(&span));
        text[53..].copy_from_slice(&hex::digits_of_byte(self.flags.0));
        TraceParent(text)
    }
}

/// So many bytes from `at` on.
#[inline]
fn part<const N: usize, const ALL: usize>(bytes: &[u8; ALL], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().unwrap_or([0; N])
}

/// The text of a header `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent([u8; LEN]);

impl TraceParent {
    /// The bytes of the text, which are ASCII.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // They are digits and dashes.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Deref for TraceParent {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for TraceParent {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<[u8]> for TraceParent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
