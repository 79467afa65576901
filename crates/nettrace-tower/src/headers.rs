//! The headers of W3C Trace Context in a request.

use http::{HeaderMap, HeaderName, HeaderValue};
use nettrace_writer::{Context, trace_context::TraceContext};

// Constants to insert, and the same in memory to look up.
const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");
static TRACEPARENT: HeaderName = PARENT;
static TRACESTATE: HeaderName = STATE;

/// In so many headers, [`get`] and [`has`] compare each name.
const FEW: usize = 8;

/// The first header of this name, which is not one of HTTP's own.
///
/// The map hashes such a name byte by byte, which takes longer than to compare it with a few names:
/// their lengths differ.
fn get<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    if headers.len() > FEW {
        return headers.get(name);
    }
    headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// Whether there is a header of this name, which is not one of HTTP's own.
#[inline]
pub(crate) fn has(headers: &HeaderMap, name: &HeaderName) -> bool {
    if headers.len() > FEW {
        return headers.contains_key(name);
    }
    headers.keys().any(|other| other == name)
}

/// Reads `traceparent` and `tracestate`: where the caller of a request is in its trace.
///
/// `None` if there is no `traceparent`, more than one, or one that breaks a rule of the standard. A
/// `tracestate` that breaks a rule is left out. A
/// [`ServerLayer`](crate::ServerLayer::trust_callers) does this by itself for callers that it
/// trusts. At the edge anybody can send these headers.
///
/// ```
/// use http::HeaderMap;
/// use nettrace_tower::extract;
/// use nettrace_writer::Context;
///
/// let mut headers = HeaderMap::new();
/// assert!(extract(&headers).is_none());
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// headers.insert("traceparent", header.parse()?);
/// let caller = extract(&headers).expect("it is valid");
/// let _scope = Context::from(caller).enter();
/// // A span that begins here is a child of the caller's.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn extract(headers: &HeaderMap) -> Option<TraceContext> {
    let parent = get(headers, &TRACEPARENT)?;
    // Most requests have no name twice, and no state.
    let is_twice = || headers.get_all(&TRACEPARENT).iter().nth(1).is_some();
    if headers.len() > headers.keys_len() && is_twice() {
        return None;
    }
    if !has(headers, &TRACESTATE) {
        return TraceContext::from_traceparent(parent).ok();
    }
    let states = headers.get_all(&TRACESTATE).iter();
    // What is no text is no valid member either.
    let states = states.map(|state| state.to_str().unwrap_or("not text"));
    TraceContext::from_headers(parent, states).ok()
}

/// Writes the span of `context` into `traceparent` and `tracestate`, in place of what is there. If
/// the context has no span, the headers stay as they are.
///
/// [`ClientLayer`](crate::ClientLayer) does this by itself. Call it for a client that takes no
/// layer.
///
/// ```
/// use http::HeaderMap;
/// use nettrace_tower::{extract, inject};
/// use nettrace_writer::Context;
///
/// let mut headers = HeaderMap::new();
/// inject(&Context::current(), &mut headers);
/// assert_eq!(extract(&headers), Context::current().trace_context());
/// ```
pub fn inject(context: &Context, headers: &mut HeaderMap) {
    if let Some(context) = context.trace_context() {
        write(&context, headers);
    }
}

/// Writes both headers, in place of what is there.
pub(crate) fn write(context: &TraceContext, headers: &mut HeaderMap) {
    let had_state = has(headers, &TRACESTATE);
    // The texts of both consist of printable ASCII characters, so no conversion fails.
    if let Ok(parent) = HeaderValue::from_bytes(context.to_traceparent().as_bytes()) {
        headers.insert(PARENT, parent);
    }
    match context.state().map(|state| HeaderValue::from_str(state.as_str())) {
        Some(Ok(state)) => drop(headers.insert(STATE, state)),
        _ if had_state => drop(headers.remove(&TRACESTATE)),
        _ => {}
    }
}
