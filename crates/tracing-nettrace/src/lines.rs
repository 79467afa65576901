//! The ids of the span in the lines of `tracing-subscriber`'s formatters.

use std::fmt::{self, Write};

use nettrace_event::trace_context::{SpanId, TraceId};
use nettrace_writer::Context;
use tracing_core::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// Puts the ids of the span in force before each line, as the trace has them:
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let lines = tracing_subscriber::fmt::layer().map_event_format(tracing_nettrace::with_ids);
/// let registry = tracing_subscriber::registry().with(lines).with(tracing_nettrace::layer());
/// # drop(registry);
/// ```
///
/// ```text
/// trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7 2026-… INFO shop: paid
/// ```
///
/// It takes any format: the default one, compact, pretty, and JSON, whose objects then have
/// `"trace_id"` and `"span_id"`. A line without a span stays as it is, and so does one of an event
/// with a `parent:` other than the current span. The span can also be one of `#[traced]` or of
/// nettrace-tower. Spans that nobody records have no ids.
pub fn with_ids<F>(format: F) -> WithIds<F> {
    WithIds(format)
}

/// A format whose lines have the ids of the span in force: see [`with_ids`].
#[derive(Clone, Copy, Debug, Default)]
pub struct WithIds<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithIds<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let is_in_force = event.is_contextual()
            || event.parent().is_some_and(|parent| {
                context.lookup_current().is_some_and(|current| current.id() == *parent)
            });
        let current = Context::current();
        match (current.trace_id(), current.span_id()) {
            (Some(trace), Some(span)) if is_in_force => {
                // Lines with colours are no JSON, and only this writer knows of colours.
                if writer.has_ansi_escapes() {
                    write!(writer, "{current} ")?;
                    return self.0.format_event(context, writer, event);
                }
                let mut line = Line { writer, trace, span, written: Written::Nothing };
                self.0.format_event(context, Writer::new(&mut line), event)
            }
            _ => self.0.format_event(context, writer, event),
        }
    }
}

/// A line that is being written, as text or as a JSON object.
struct Line<'a> {
    writer: Writer<'a>,
    trace: TraceId,
    span: SpanId,
    written: Written,
}

/// What was written so far.
enum Written {
    Nothing,
    /// The brace of an object, and the ids.
    Ids,
    More,
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Self { writer, trace, span, written } = self;
        let rest = match (&written, text.strip_prefix('{')) {
            _ if text.is_empty() => return Ok(()),
            (Written::Nothing, Some(rest)) => {
                write!(writer, "{{\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"")?;
                *written = Written::Ids;
                return self.write_str(rest);
            }
            (Written::Nothing, None) => {
                write!(writer, "trace_id={trace} span_id={span} ")?;
                text
            }
            (Written::Ids, _) => {
                writer.write_str(if text.starts_with('}') { "" } else { "," })?;
                text
            }
            (Written::More, _) => text,
        };
        *written = Written::More;
        writer.write_str(rest)
    }
}
