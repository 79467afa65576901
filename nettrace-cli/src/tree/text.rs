//! Trees as text for people.

use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};

use nettrace_reader::Event;
use nettrace_views::{
    model::{SpanRef, SpanState, Time},
    text::{
        Detail, EventType, Payload, is_id, write_end, write_fields, write_key, write_label,
        write_what,
    },
};

use crate::{
    dump::Facts,
    seconds::Seconds,
    spelling::OneLine,
    tree::{
        forest::{Forest, Span},
        id_text,
        order::{Node, Outside, Trees},
        process_name,
    },
};

/// The levels that are shown by more blanks than the level above.
const MOST_INDENT: usize = 100;

/// Writes a tree, and an empty line after it.
pub(super) fn write(
    forest: &Forest,
    trees: &Trees<'_>,
    root: SpanRef,
    facts: &Facts,
    out: &mut impl Write,
) -> io::Result<()> {
    let span = &forest.spans[root];
    let mut tree = Tree { forest, facts, start: span.record.first(), lines: Vec::new() };
    tree.head(span, trees.followed(root))?;
    let mut result = Ok(());
    // The spans around the current one, and how many of their events were shown.
    let mut above = Vec::new();
    trees.walk(root, |node| {
        if result.is_ok() {
            result = tree.span(node, &mut above).and_then(|()| {
                // A tree can be as large as the trace.
                out.write_all(&tree.lines)?;
                tree.lines.clear();
                Ok(())
            });
        }
    });
    result?;
    tree.close(0, &mut above)?;
    tree.lines.push(b'\n');
    out.write_all(&tree.lines)
}

/// Writes what stands before the trees that are cut: how many there are, and how many follow.
pub(super) fn write_cut(count: usize, shown: usize, out: &mut impl Write) -> io::Result<()> {
    let trees = if count == 1 { "tree is" } else { "trees are" };
    write!(out, "{count} {trees} cut: the start or the end of the root is not in the trace")?;
    match shown < count {
        true => writeln!(out, ". The first {shown}:\n"),
        false => writeln!(out, "\n"),
    }
}

/// A tree that is being written.
struct Tree<'a> {
    forest: &'a Forest,
    facts: &'a Facts,
    start: i64,
    lines: Vec<u8>,
}

impl<'a> Tree<'a> {
    fn head(&mut self, root: &Span, followed: Option<Node<'_>>) -> io::Result<()> {
        let out = &mut self.lines;
        let since = i128::from(self.start);
        if let Some(time) = self.facts.clock.start().and_then(|start| Time::of_unix(start + since))
        {
            write!(out, "{time} ")?;
        }
        write!(out, "{:>15}", Seconds(since).to_string())?;
        if let Some(id) = root.trace {
            write!(out, ", trace {id}")?;
        }
        if let Some(Node { key: Some(key), span, .. }) = followed {
            write!(out, ", follows from {}", id_text(&key))?;
            if let Some(id) = span.trace {
                write!(out, " of trace {id}")?;
            }
        } else if let Some(parent) = &root.parent {
            // A trace does not tell a parent from a span of another trace that a root follows from.
            write!(out, ", within or after {}, which is not in the trace", id_text(parent))?;
            if self.forest.counts.spans_gone > 0 {
                write!(out, " or made room for slower ones")?;
            }
        }
        writeln!(out)
    }

    /// Writes the line of a span. Before it come the events of its parent that were earlier, and
    /// the rest of the trees that are done.
    fn span(&mut self, node: Node<'a>, above: &mut Vec<(&'a Span, usize)>) -> io::Result<()> {
        self.close(node.depth, above)?;
        let first = node.span.record.first();
        if let Some((parent, shown)) = above.last_mut() {
            *shown = self.events(parent, *shown, node.depth - 1, first)?;
        }
        let parent = above.last().map(|(parent, _)| *parent);
        above.push((node.span, 0));
        self.line(node, parent)
    }

    /// Writes the remaining events of the spans from this depth on.
    fn close(&mut self, depth: usize, above: &mut Vec<(&'a Span, usize)>) -> io::Result<()> {
        while above.len() > depth {
            let Some((span, shown)) = above.pop() else { break };
            self.events(span, shown, above.len(), i64::MAX)?;
            self.left_out(span, above.len())?;
        }
        Ok(())
    }

    fn line(&mut self, node: Node<'_>, parent: Option<&Span>) -> io::Result<()> {
        let Node { span, depth, .. } = node;
        let record = &span.record;
        let length = match (record.duration(), node.at_least) {
            (Some(nanos), _) => Short(nanos).to_string(),
            (None, Some(nanos)) => format!(">{}", Short(nanos)),
            (None, None) => "-".into(),
        };
        let own = node.own.map_or_else(|| "-".into(), |own| Short(own).to_string());
        let outcome = match (&record.outcome, record.state) {
            (Some(outcome), _) => OneLine(outcome).to_string(),
            (None, SpanState::Started) => "no end".into(),
            (None, SpanState::OnlyStopped) => "no start".into(),
            (None, _) => "-".into(),
        };
        let out = &mut self.lines;
        write!(out, "{length:>12} {own:>12}  {outcome:<9} {}", Indent(depth))?;
        match span.ty.map(|ty| &self.forest.types[ty as usize]) {
            Some(ty) => {
                write!(out, "{}/{}", OneLine(&ty.provider), OneLine(&ty.name))?;
                if let Some(place) = ty.shown_place(span) {
                    write!(out, " ({})", OneLine(place))?;
                }
            }
            None => write!(out, "(neither start nor end)")?,
        }
        if let Some(key) = &node.key {
            write_key(key, record.process, out)?;
        }
        let process = record.process;
        let is_as_parent = parent.is_some_and(|parent| parent.record.process == process);
        if let Some(name) = process_name(span, self.facts).filter(|_| !is_as_parent) {
            write!(out, " (process {})", OneLine(name))?;
        }
        match record.state {
            SpanState::OnlyStopped if record.outcome.is_some() => write!(out, " (no start)")?,
            SpanState::Single => write!(out, " (single)")?,
            _ => {}
        }
        match node.outside {
            Some(Outside::Before(nanos)) => {
                write!(out, " (begins {} before its parent)", Short(nanos))?
            }
            Some(Outside::After(nanos)) => {
                write!(out, " (ends {} after its parent)", Short(nanos))?
            }
            None => {}
        }
        out.extend_from_slice(&span.start_details);
        if !span.stop_details.is_empty() {
            write!(out, " ->")?;
            out.extend_from_slice(&span.stop_details);
        }
        writeln!(out)
    }

    /// Writes the events of a span before a time, without those that were shown. Returns how many
    /// were shown then.
    fn events(
        &mut self,
        span: &Span,
        mut shown: usize,
        depth: usize,
        before: i64,
    ) -> io::Result<usize> {
        while let Some(event) = span.events.get(shown).filter(|event| event.at < before) {
            let out = &mut self.lines;
            let since = event.at.saturating_sub(self.start);
            let since = match since < 0 {
                true => Short(since).to_string(),
                false => format!("+{}", Short(since)),
            };
            write!(out, "{since:>12} {:>23} {}· ", "", Indent(depth + 1))?;
            out.extend_from_slice(&event.text);
            out.push(b'\n');
            shown += 1;
        }
        Ok(shown)
    }

    fn left_out(&mut self, span: &Span, depth: usize) -> io::Result<()> {
        match span.left_out {
            0 => Ok(()),
            count => writeln!(
                self.lines,
                "{:>36} {}· and {count} more events, for which there was no room",
                "",
                Indent(depth + 1)
            ),
        }
    }
}

/// Room for the text of most events.
const USUAL: usize = 128;

/// An event inside: its name, message, fields, and the labels that are not ids. `place` is that of
/// its type, if another type has the same name.
pub(crate) fn event(
    event: &Event<'_>,
    place: Option<&str>,
    ty: &EventType,
    payload: &Payload<'_>,
    detail: Detail,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(USUAL);
    write_what(event, place, ty, payload, detail, &mut out)?;
    write_labels(event, &mut out)?;
    Ok(out)
}

/// What an event says of its span: its fields and labels, each after a blank.
pub(crate) fn details(
    event: &Event<'_>,
    payload: &Payload<'_>,
    is_start: bool,
    detail: Detail,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(USUAL);
    if is_start {
        write_fields(payload, &[], detail, &mut out)?;
        write_labels(event, &mut out)?;
    } else {
        write_end(payload, detail, &mut out)?;
    }
    Ok(out)
}

fn write_labels(event: &Event<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let labels = event.labels();
    labels.iter().filter(|label| !is_id(label)).try_for_each(|label| write_label(label, out))
}

/// Nanoseconds with the nearest unit and three decimals.
struct Short(i64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let duration = Duration::from_nanos(self.0.unsigned_abs());
        match duration.as_nanos() < 1000 {
            true => write!(f, "{sign}{duration:?}"),
            false => write!(f, "{sign}{duration:.3?}"),
        }
    }
}

/// Two blanks for each level.
struct Indent(usize);

impl fmt::Display for Indent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:width$}", "", width = 2 * self.0.min(MOST_INDENT))?;
        if self.0 > MOST_INDENT { write!(f, "(level {}) ", self.0) } else { Ok(()) }
    }
}
