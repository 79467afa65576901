//! [`Lines`]: events while they come, for people who look on.

use std::{
    io::{self, Write},
    time::Duration,
};

use nettrace_reader::Event;

use crate::{
    model::{
        Clock, EndFields, Ids, OneLine, Part, SpanRef, SpanTable, event_name, place, role_of,
        span_name,
    },
    text::{
        Detail, EventLook, EventType, Payload, Severity, ShownEvent, Style, is_id, write_end,
        write_event, write_key_of, write_label, write_said,
    },
};

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// A line for each event, which is indented by the depth of its span.
    #[default]
    Compact,
    /// Several lines for each event: also its place in the source code, and the spans around it
    /// with their fields.
    Pretty,
}

/// Writes events in the order of time, each with its time of day (UTC), its level and what it says.
/// `>` is the start of a span. `<` is its end, with its duration and its outcome.
///
/// The levels are those of other Rust libraries: see [`Severity`]. An event of `tracing` or `log`
/// begins with its message, and its target is last. Texts from the trace stay on their line and
/// have no escapes.
///
/// ```
/// use nettrace_reader::Reader;
/// use nettrace_views::{
///     model::{Clock, PerType},
///     text::{EventType, Lines, Look, Payload},
/// };
///
/// # let file = nettrace_reader::example();
/// let mut events = Reader::new(&file[..])?.sorted();
/// let clock = Clock::of(events.trace());
/// let (mut types, mut out) = (PerType::default(), Vec::new());
/// let mut lines = Lines::new(Look::Compact, false);
/// while let Some(event) = events.next_event()? {
///     let ty = types.of(&event, EventType::of);
///     lines.event(&event, ty, &Payload::of(&event, ty), clock, &mut out)?;
/// }
/// assert!(String::from_utf8(out)?.contains("/Sale"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    look: Look,
    colors: bool,
    has_places: bool,
    detail: Detail,
    open: SpanTable<Open>,
    lost: u64,
}

/// A span that is under way.
#[derive(Debug)]
struct Open {
    depth: usize,
    start: u64,
    /// Provider and name.
    name: String,
    /// Its fields and labels.
    said: Vec<u8>,
    parent: Option<SpanRef>,
}

/// The major version of traces that are looked at while they come. In those of .NET, which are of
/// version 5, no event stands for a whole span.
const VERSION: u32 = 6;

/// About how many bytes the spans under way may take. Beyond, the oldest are not known any more.
const MOST_BYTES: usize = 16 << 20;

/// The levels that are shown by more blanks than the level above.
const MOST_INDENT: usize = 50;

impl Lines {
    /// Knows no span yet.
    #[must_use]
    pub fn new(look: Look, colors: bool) -> Self {
        let (detail, open) = (Detail::default(), SpanTable::new(MOST_BYTES, 0));
        Self { look, colors, has_places: false, detail, open, lost: 0 }
    }

    /// How much of each event is written. [`Detail::Short`] otherwise.
    #[must_use]
    pub fn detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// Whether each line has the place of its event in the source code. [`Look::Pretty`] always
    /// says it.
    #[must_use]
    pub fn places(self, has_places: bool) -> Self {
        Self { has_places, ..self }
    }

    /// Writes an event.
    ///
    /// # Errors
    /// None: the result is in memory.
    pub fn event(
        &mut self,
        event: &Event<'_>,
        ty: &EventType,
        payload: &Payload<'_>,
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let metadata = event.metadata();
        let labels = event.labels();
        let ids = Ids::of(&labels);
        let role = role_of(metadata, ids.overrides.opcode, VERSION);
        let event_name = event_name(metadata);
        let name = format!("{}/{}", metadata.provider, span_name(&event_name));
        let part = ids
            .span
            .map_or(Part::Outside, |key| self.open.part(role, key, |open| Some(open.name == name)));
        let parent = match part {
            Part::Inside(span) => Some(span),
            _ => ids.related.and_then(|key| self.open.find(key)),
        };
        let ended = match part {
            Part::Start(Some(own)) | Part::Stop(own) => self.open.take(own),
            _ => None,
        };
        let depth = match (&ended, part) {
            (Some(open), Part::Stop(_)) => open.depth,
            _ => parent.and_then(|it| self.open.get(it)).map_or(0, |open| open.depth + 1),
        };
        self.head(event, clock, out)?;
        if self.look == Look::Compact {
            write!(out, "{:width$}", "", width = 2 * depth.min(MOST_INDENT))?;
        }
        let mut said = Vec::new();
        let labels = labels.iter().filter(|it| !is_id(it));
        if let Part::Inside(_) | Part::Outside = part {
            let look = EventLook {
                detail: self.detail,
                has_place: self.has_places && self.look == Look::Compact,
                has_colors: self.colors,
            };
            let shown = ShownEvent { event, ty, payload, key: ids.span, place: None };
            write_event(&shown, labels, look, out)?;
        } else {
            let grey = Style::GREY.on(self.colors);
            let mark = if let Part::Start(_) = part { '>' } else { '<' };
            write!(out, "{grey}{mark}{grey:#} {}", OneLine(&name))?;
            if let Some(key) = &ids.span {
                write!(out, "{grey}")?;
                write_key_of(key, event, out)?;
                write!(out, "{grey:#}")?;
            }
            if let Part::Start(_) = part {
                write_said(ty, payload, self.detail, &mut said)?;
            } else {
                let since = ended.as_ref().map(|open| open.start);
                self.end(event, since, clock, out)?;
                write_end(payload, self.detail, &mut said)?;
            }
            labels.into_iter().try_for_each(|it| write_label(it, &mut said))?;
            out.extend_from_slice(&said);
        }
        out.push(b'\n');
        if self.look == Look::Pretty {
            let around = match part {
                Part::Stop(_) => ended.and_then(|it| it.parent),
                _ => parent,
            };
            self.around(event, around, out)?;
        }
        if let Part::Start(_) = part {
            let size = size_of::<Open>() + name.len() + said.len();
            let open = Open { depth, start: event.header.timestamp, name, said, parent };
            self.open.begin(ids.keys(), size, open);
            while let Some(oldest) = self.open.give_up() {
                self.open.take(oldest);
            }
        }
        Ok(())
    }

    /// Says that events were lost, if they are more than before. `lost` counts all of the trace.
    ///
    /// # Errors
    /// None: the result is in memory.
    pub fn lost(&mut self, lost: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let new = lost.saturating_sub(std::mem::replace(&mut self.lost, lost));
        if new == 0 {
            return Ok(());
        }
        let red = Style::RED.on(self.colors);
        writeln!(
            out,
            "{red}{new} events were lost here: they came faster than they were taken{red:#}"
        )
    }

    /// Writes the time and the level.
    fn head(&self, event: &Event<'_>, clock: Clock, out: &mut Vec<u8>) -> io::Result<()> {
        let grey = Style::GREY.on(self.colors);
        let at = clock.at(event.header.timestamp);
        match (at.time, at.since_start) {
            (Some(time), _) => write!(out, "{grey}{}{grey:#}", &time.to_string()[11..26])?,
            (None, Some(nanos)) => write!(out, "{grey}{:>13.3}ms{grey:#}", nanos as f64 / 1e6)?,
            (None, None) => write!(out, "{:>15}", event.header.timestamp)?,
        }
        let severity = Severity::of(event);
        let style = severity.style().on(self.colors);
        write!(out, " {style}{:>5}{style:#} ", severity.name())
    }

    /// Writes the duration and the outcome of a span that began at `since`.
    fn end(
        &self,
        event: &Event<'_>,
        since: Option<u64>,
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (duration, outcome) = EndFields::of(event.metadata()).stated(event);
        let measured = since
            .filter(|_| clock.is_known())
            .map(|since| clock.since_start(event.header.timestamp) - clock.since_start(since));
        if let Some(nanos) = duration.or(measured) {
            let duration = Duration::from_nanos(nanos.try_into().unwrap_or(0));
            match duration.as_nanos() < 1000 {
                true => write!(out, " {duration:?}")?,
                false => write!(out, " {duration:.2?}")?,
            }
        }
        if let Some(outcome) = outcome {
            let style = if outcome == "ok" { Style::GREEN } else { Style::RED };
            let style = style.on(self.colors);
            write!(out, " {style}{}{style:#}", OneLine(outcome))?;
        }
        Ok(())
    }

    /// Writes the place of an event's type, the spans around the event, and an empty line.
    fn around(
        &self,
        event: &Event<'_>,
        mut span: Option<SpanRef>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let grey = Style::GREY.on(self.colors);
        if let Some(place) = place(event.metadata()) {
            writeln!(out, "    {grey}at{grey:#} {}", OneLine(place))?;
        }
        while let Some(open) = span.and_then(|it| self.open.get(it)) {
            write!(out, "    {grey}in{grey:#} {}", OneLine(&open.name))?;
            out.extend_from_slice(&open.said);
            out.push(b'\n');
            span = open.parent;
        }
        out.push(b'\n');
        Ok(())
    }
}
