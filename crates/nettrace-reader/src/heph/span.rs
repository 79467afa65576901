//! Spans of NetTrace for Rust in the attributes of events.

use crate::heph::{packet::Event, value::Value};

/// The opcodes of the events that begin and end a span.
const START: u64 = 1;
const STOP: u64 = 2;

/// How an event belongs to its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanPart {
    /// It is the span: [`Event::start`] and [`Event::end`] are those of the span.
    Whole,
    /// The span begins. If it has ended, another event is the whole span.
    Start,
    /// The span ends. Its start comes later in the trace, or is lost.
    End,
}

/// A span, as NetTrace for Rust writes them. [`Event::span`] returns it.
///
/// The event that begins a span is an instant, and so is every event inside of it. When the span
/// ends, the packet of that event is the span. Ids are texts of hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span<'a> {
    /// How the event belongs to the span.
    pub part: SpanPart,
    /// The provider.
    pub provider: &'a str,
    /// The name: that of the events without `Start` and `Stop`. If nothing else is left, it is
    /// `Start` for both.
    pub name: &'a str,
    /// The trace: 32 digits, or `None`.
    pub trace: Option<&'a str>,
    /// The span: 16 digits, or a GUID if the span has an activity id alone, as spans of .NET do.
    /// `None` if nothing names it.
    pub id: Option<&'a str>,
    /// The span that caused it, in the same form.
    pub parent: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// The span of which the event is the start, the end, or the whole. Returns `None` for other
    /// events, also for those inside of a span.
    ///
    /// ```no_run
    /// use nettrace_reader::heph::{Reader, SpanPart};
    ///
    /// let mut reader = Reader::new(std::fs::File::open("service.heph")?);
    /// while let Some(event) = reader.next_event()? {
    ///     let Some(span) = event.span().filter(|span| span.part == SpanPart::Whole) else {
    ///         continue;
    ///     };
    ///     let parent = span.parent.unwrap_or("nothing");
    ///     println!("{} took {} ns, inside of {parent}", span.name, event.end - event.start);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn span(&self) -> Option<Span<'a>> {
        let (mut is_whole, mut opcode) = (false, 0);
        let (mut provider, mut event) = ("", self.description);
        let (mut trace, mut span, mut parent) = (None, None, None);
        let (mut activity, mut related) = (None, None);
        for (name, value) in self.attributes().filter_map(Result::ok) {
            // The writer's own attributes come first, and an event's fields may have any name.
            if !name.starts_with('@') {
                break;
            }
            match (name, value) {
                ("@provider", Value::Text(text)) => provider = text,
                ("@event", Value::Text(text)) => event = text,
                ("@kind", Value::Text(text)) => is_whole = text == "span",
                ("@opcode", Value::U64(number)) => opcode = number,
                ("@trace", Value::Text(text)) => trace = Some(text),
                ("@span", Value::Text(text)) => span = Some(text),
                ("@parent", Value::Text(text)) => parent = Some(text),
                ("@activity", Value::Text(text)) => activity = Some(text),
                ("@related", Value::Text(text)) => related = Some(text),
                _ => {}
            }
        }
        let (id, parent) = (span.or(activity), parent.or(related));
        let part = match opcode {
            _ if is_whole => SpanPart::Whole,
            START if id.is_some() => SpanPart::Start,
            STOP if id.is_some() => SpanPart::End,
            _ => return None,
        };
        let end = match opcode {
            START => "Start",
            STOP => "Stop",
            _ => "",
        };
        let short = event.strip_suffix(end).map(|name| name.strip_suffix('/').unwrap_or(name));
        let name = match short {
            Some("") if !end.is_empty() => "Start",
            Some(name) => name,
            None => event,
        };
        Some(Span { part, provider, name, trace, id, parent })
    }
}
