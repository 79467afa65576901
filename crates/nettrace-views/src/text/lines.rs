//! [`Lines`]: events while they come, for people who look on.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
    time::Duration,
};

use nettrace_reader::Event;

use crate::{
    model::{
        Clock, EndFields, Ids, Key, OneLine, Part, SpanRef, SpanTable, event_name, place,
        process_id, role_of, span_name,
    },
    text::{
        Detail, EventType, Payload, is_id, write_end, write_key, write_label, write_name,
        write_said,
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
/// The levels are those of other Rust libraries: `CRIT`, `ERROR`, `WARN`, `INFO`, and `DEBUG` for
/// [`Verbose`](super::level). Texts from the trace stay on their line and have no escapes.
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
        Self { look, colors, detail, open, lost: 0 }
    }

    /// How much of each event is written. [`Detail::Short`] otherwise.
    #[must_use]
    pub fn detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
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
        match part {
            Part::Start(_) => {
                let grey = self.style(Style::GREY);
                write!(out, "{grey}>{grey:#} {}", OneLine(&name))?;
            }
            Part::Stop(_) | Part::Whole => {
                let grey = self.style(Style::GREY);
                write!(out, "{grey}<{grey:#} {}", OneLine(&name))?;
            }
            Part::Inside(_) | Part::Outside => write_name(event, None, out)?,
        }
        if let Some(key) = &ids.span {
            self.key(key, event, out)?;
        }
        let mut said = Vec::new();
        if let Part::Stop(_) | Part::Whole = part {
            let since = ended.as_ref().map(|open| open.start);
            self.end(event, since, clock, out)?;
            write_end(payload, self.detail, &mut said)?;
        } else {
            write_said(ty, payload, self.detail, &mut said)?;
        }
        labels.iter().filter(|it| !is_id(it)).try_for_each(|it| write_label(it, &mut said))?;
        out.extend_from_slice(&said);
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
        let red = self.style(Style::RED);
        writeln!(
            out,
            "{red}{new} events were lost here: they came faster than they were taken{red:#}"
        )
    }

    /// Writes the time and the level.
    fn head(&self, event: &Event<'_>, clock: Clock, out: &mut Vec<u8>) -> io::Result<()> {
        let grey = self.style(Style::GREY);
        let at = clock.at(event.header.timestamp);
        match (at.time, at.since_start) {
            (Some(time), _) => write!(out, "{grey}{}{grey:#}", &time.to_string()[11..26])?,
            (None, Some(nanos)) => write!(out, "{grey}{:>13.3}ms{grey:#}", nanos as f64 / 1e6)?,
            (None, None) => write!(out, "{:>15}", event.header.timestamp)?,
        }
        let (style, level) = match event.level() {
            0 => (Style::DEFAULT, Cow::Borrowed("LOG")),
            1 => (Style::RED, "CRIT".into()),
            2 => (Style::RED, "ERROR".into()),
            3 => (Style::YELLOW, "WARN".into()),
            4 => (Style::GREEN, "INFO".into()),
            5 => (Style::BLUE, "DEBUG".into()),
            other => (Style::PURPLE, other.to_string().into()),
        };
        let style = self.style(style);
        write!(out, " {style}{level:>5}{style:#} ")
    }

    fn key(&self, key: &Key, event: &Event<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let process = process_id(event).and_then(|id| id.try_into().ok()).unwrap_or(0);
        let grey = self.style(Style::GREY);
        write!(out, "{grey}")?;
        write_key(key, process, out)?;
        write!(out, "{grey:#}")
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
            let style = self.style(style);
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
        let grey = self.style(Style::GREY);
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

    fn style(&self, style: Style) -> Style {
        if self.colors { style } else { Style::DEFAULT }
    }
}

/// A color of a terminal. `{}` begins it, `{:#}` ends it.
///
/// These are of the colors from 16 on, which are the same in every theme. The first 16 are up to
/// the theme: xterm's yellow cannot be read on white, nor its blue on black.
#[derive(Clone, Copy, Debug)]
struct Style(u8);

impl Style {
    const DEFAULT: Self = Self(0);
    const GREY: Self = Self(244);
    const RED: Self = Self(196);
    const GREEN: Self = Self(28);
    const YELLOW: Self = Self(136);
    const BLUE: Self = Self(32);
    const PURPLE: Self = Self(133);
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            _ if f.alternate() => f.write_str("\x1b[0m"),
            color => write!(f, "\x1b[38;5;{color}m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Style;

    /// The luminance of a color, as WCAG 2 defines it.
    fn luminance(rgb: [u8; 3]) -> f64 {
        let linear = rgb.map(|it| match f64::from(it) / 255.0 {
            dark if dark <= 0.04045 => dark / 12.92,
            bright => ((bright + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// A color of the fixed part of xterm's palette.
    fn rgb(color: u8) -> [u8; 3] {
        match color {
            232.. => [8 + 10 * (color - 232); 3],
            16.. => {
                [36, 6, 1].map(|it| [0, 95, 135, 175, 215, 255][usize::from((color - 16) / it % 6)])
            }
            _ => panic!("{color} is another color in each theme"),
        }
    }

    #[test]
    fn colors_can_be_read() {
        let backgrounds = [
            ("white", [0xFF; 3]),
            ("black", [0; 3]),
            ("VS Code, dark", [0x1E; 3]),
            ("Solarized, light", [0xFD, 0xF6, 0xE3]),
            ("Solarized, dark", [0, 0x2B, 0x36]),
            ("Dracula", [0x28, 0x2A, 0x36]),
        ];
        let styles =
            [Style::GREY, Style::RED, Style::GREEN, Style::YELLOW, Style::BLUE, Style::PURPLE];
        for style in styles {
            for (name, background) in backgrounds {
                let [one, other] = [rgb(style.0), background].map(|it| luminance(it) + 0.05);
                let contrast = one.max(other) / one.min(other);
                assert!(contrast >= 3.0, "{style:?} on {name}: {contrast:.2}");
            }
        }
    }
}
