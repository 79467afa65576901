//! Trees as text for people.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt,
    io::{self, Write},
};

use nettrace_reader::Event;
use nettrace_views::{
    model::{SpanRef, SpanState, Time},
    text::{
        Detail, EventLook, EventType, Payload, Severity, ShownEvent, Style, is_id, write_end,
        write_event, write_fields, write_key, write_label,
    },
};

use crate::{
    dump::Facts,
    seconds::Seconds,
    spelling::{FullName, OneLine},
    tree::{
        choice::Ranking,
        fold::{self, FEW, Group, Item},
        forest::{Forest, Span},
        id_text,
        order::{Extent, Node, Outside, Trees},
        process_name,
        short::ShortDuration,
    },
    wrap::wrap,
};

/// The levels that are shown by more blanks than the level above.
const MOST_INDENT: usize = 100;

/// How trees are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether equal siblings are one line.
    pub(super) folds: bool,
    /// Whether each line has the times of its span on an axis.
    pub(super) has_axis: bool,
    /// Whether each span has its place in the source code.
    pub(super) has_places: bool,
    pub(super) has_colors: bool,
    /// How many columns a terminal has.
    pub(super) columns: Option<usize>,
}

/// How many lines may still be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Of all trees together.
    left: usize,
    /// Of one tree.
    of_tree: usize,
    /// How many lines of trees were left out.
    hidden: u64,
}

impl Room {
    /// `lines` for so many trees.
    pub(super) fn new(lines: usize, trees: usize) -> Self {
        /// No tree takes more than this part, so that others are seen, too.
        const PART: usize = 5;

        let of_tree = if trees > 1 { lines.div_ceil(PART) } else { lines };
        Self { left: lines, of_tree, hidden: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Says what was left out, beside so many trees.
    pub(super) fn write_left_out(&self, trees: usize, out: &mut impl Write) -> io::Result<()> {
        let (trees, lines) = match (trees, self.hidden) {
            (0, 0) => return Ok(()),
            (0, lines) => (String::new(), format!("{lines} more lines of the trees above")),
            (trees, 0) => (format!("{trees} more trees"), String::new()),
            (trees, lines) => {
                (format!("{trees} more trees, and "), format!("{lines} more lines of those above"))
            }
        };
        writeln!(
            out,
            "Not shown: {trees}{lines}. --lines all shows everything, --trace ID one trace"
        )
    }
}

/// Writes a tree, and an empty line after it.
pub(super) fn write(
    forest: &Forest,
    trees: &Trees<'_>,
    root: SpanRef,
    facts: &Facts,
    (look, room): (Look, &mut Room),
    out: &mut impl Write,
) -> io::Result<()> {
    let span = &forest.spans[root];
    let mut tree = Tree {
        forest,
        trees,
        facts,
        look,
        ranked: (!forest.choice.has_filter() && forest.choice.ranking != Ranking::Extent)
            .then_some(root),
        start: span.record.first(),
        axis: trees.ends(root),
        lines: Vec::new(),
        left: room.of_tree.min(room.left),
        hidden: 0,
    };
    tree.head(root, trees.followed(root))?;
    // The spans around the current one.
    let mut above: Vec<Above<'_>> = Vec::new();
    for node in trees.around(root) {
        tree.line(node, above.last().map(|it| it.span))?;
        above.push(Above::context(node.span));
    }
    let mut next = vec![(Item::Span(root), above.len(), false)];
    while let Some((item, depth, is_whole)) = next.pop() {
        match item {
            Item::Span(at) => {
                let is_whole = is_whole || trees.is_whole(at);
                tree.span(trees.node(at, depth), is_whole, &mut above)?;
                // Each span that passes the filters has its line.
                let folds = look.folds && (is_whole || forest.choice.is_open);
                let below = fold::items(forest, trees, trees.below(at, is_whole), folds);
                next.extend(below.into_iter().rev().map(|item| (item, depth + 1, is_whole)));
            }
            Item::Group(group) => tree.group(&group, depth, &mut above)?,
        }
        // A tree can be as large as the trace.
        out.write_all(&tree.lines)?;
        tree.lines.clear();
    }
    tree.close(0, &mut above)?;
    if tree.hidden > 0 {
        let lines = if tree.hidden == 1 { "line" } else { "lines" };
        writeln!(tree.lines, "{:>36} … and {} more {lines} of this tree", "", tree.hidden)?;
    }
    room.hidden += tree.hidden;
    // The head and the empty line are lines, too.
    let written = room.of_tree.min(room.left) - tree.left + 2;
    room.left = room.left.saturating_sub(written);
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

/// Writes what stands before the trees of spans that are under way at the end of the trace: how
/// many there are of each name.
pub(super) fn write_open(
    forest: &Forest,
    trees: &Trees<'_>,
    roots: &[SpanRef],
    out: &mut impl Write,
) -> io::Result<()> {
    /// How many names are listed.
    const MOST: usize = 10;

    match roots.len() {
        1 => writeln!(out, "1 tree has a span without an end:\n")?,
        count => writeln!(out, "{count} trees have spans without an end, the oldest first:\n")?,
    }
    let spans = forest.spans.places().into_iter().map(|at| &forest.spans[at]);
    let mut names = BTreeMap::<u32, Vec<i64>>::new();
    for span in spans.filter(|span| span.record.state == SpanState::Started) {
        let age = span.record.at_least(trees.last()).unwrap_or(0);
        span.ty.into_iter().for_each(|ty| names.entry(ty).or_default().push(age));
    }
    let mut names: Vec<_> = names.into_iter().collect();
    if names.iter().all(|(_, ages)| ages.len() < FEW) {
        return Ok(());
    }
    names.sort_by_key(|(_, ages)| Reverse(ages.len()));
    for (ty, ages) in names.iter().take(MOST) {
        let ty = &forest.types[*ty as usize];
        let name = FullName(&ty.provider, &ty.name);
        write!(out, "{:>12} × {name}, under way for ", ages.len())?;
        match (ages.iter().min(), ages.iter().max()) {
            (Some(newest), Some(oldest)) if newest < oldest => {
                writeln!(out, "{} to {}", ShortDuration(*newest), ShortDuration(*oldest))?;
            }
            (age, _) => writeln!(out, "{}", ShortDuration(age.copied().unwrap_or(0)))?,
        }
    }
    writeln!(out)
}

/// A tree that is being written.
struct Tree<'a> {
    forest: &'a Forest,
    trees: &'a Trees<'a>,
    facts: &'a Facts,
    look: Look,
    /// The span that is ranked, unless whole trees are.
    ranked: Option<SpanRef>,
    start: i64,
    /// The first and the last time of the axis.
    axis: (i64, i64),
    lines: Vec<u8>,
    /// How many lines may still be written, and how many were left out.
    left: usize,
    hidden: u64,
}

/// A span around the current one.
struct Above<'a> {
    span: &'a Span,
    /// How many of its events were shown or left out.
    done: usize,
    /// How many were left out because they do not pass the filters.
    left_out: usize,
    /// Whether all its events are shown.
    is_whole: bool,
}

impl<'a> Above<'a> {
    /// A span around the tree, whose events are not shown.
    fn context(span: &'a Span) -> Self {
        Self { span, done: span.events.len(), left_out: 0, is_whole: false }
    }
}

impl<'a> Tree<'a> {
    fn head(&mut self, at: SpanRef, followed: Option<Node<'_>>) -> io::Result<()> {
        let root = &self.forest.spans[at];
        let line = self.lines.len();
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
        } else if let Some(parent) = root.parent.filter(|_| !self.trees.is_below(at)) {
            // A trace does not tell a parent from a span of another trace that a root follows from.
            write!(out, ", within or after {}, which is not in the trace", id_text(&parent))?;
            if self.forest.counts.spans_gone > 0 {
                write!(out, " or made room for slower ones")?;
            }
        }
        if let Some(Extent { nanos, most, .. }) = self.trees.extent(at) {
            if Some(nanos) != root.record.duration() {
                write!(out, ", {} in all", ShortDuration(nanos))?;
            }
            if let Some((Node { span, key, .. }, count, own)) = most {
                write!(out, ", {} of it in ", ShortDuration(own))?;
                if count > 1 {
                    write!(out, "{count} × ")?;
                }
                if let Some(ty) = span.ty.map(|ty| &self.forest.types[ty as usize]) {
                    write!(out, "{}", FullName(&ty.provider, &ty.name))?;
                }
                if let Some(key) = key.filter(|_| count == 1) {
                    write_key(&key, span.record.process, out)?;
                }
            }
        }
        self.end_line(line, 4);
        Ok(())
    }

    /// Where the text of a line of this depth begins, behind the columns.
    fn indent(&self, depth: usize) -> usize {
        (if self.look.has_axis { 61 } else { 36 }) + 2 * depth.min(MOST_INDENT)
    }

    /// Ends the line that begins there, and breaks it if the terminal is too narrow.
    fn end_line(&mut self, start: usize, indent: usize) {
        self.lines.push(b'\n');
        if let Some(columns) = self.look.columns {
            let line = self.lines.split_off(start);
            let indent = indent.min(columns / 2);
            wrap(&String::from_utf8_lossy(&line), columns, indent, &mut self.lines);
        }
    }

    /// Takes the room of a line. Returns whether there is some.
    fn has_room(&mut self) -> bool {
        let has_room = self.left > 0;
        self.left -= usize::from(has_room);
        self.hidden += u64::from(!has_room);
        has_room
    }

    /// Writes what comes before a line of this depth: the rest of the trees that are done, and the
    /// events of its parent that were earlier.
    fn before(&mut self, first: i64, depth: usize, above: &mut Vec<Above<'a>>) -> io::Result<()> {
        self.close(depth, above)?;
        match above.last_mut() {
            Some(parent) => self.events(parent, depth - 1, first),
            None => Ok(()),
        }
    }

    fn span(
        &mut self,
        node: Node<'a>,
        is_whole: bool,
        above: &mut Vec<Above<'a>>,
    ) -> io::Result<()> {
        self.before(node.span.record.first(), node.depth, above)?;
        let parent = above.last().map(|parent| parent.span);
        above.push(Above { span: node.span, done: 0, left_out: 0, is_whole });
        self.line(node, parent)
    }

    fn group(&mut self, group: &Group, depth: usize, above: &mut Vec<Above<'a>>) -> io::Result<()> {
        let (forest, last) = (self.forest, self.trees.last());
        self.before(group.first(forest), depth, above)?;
        if !self.has_room() {
            return Ok(());
        }
        let (covered, outcome) = group.columns(forest, last);
        let covered = covered.map_or_else(|| "-".into(), |nanos| ShortDuration(nanos).to_string());
        let outcome = outcome.unwrap_or_else(|| "-".into());
        let line = self.lines.len();
        write!(self.lines, "{covered:>12} {:>12}  {:<9} ", "-", OneLine(outcome).to_string())?;
        self.axis(&group.times(forest, last))?;
        write!(self.lines, "{}", Indent(depth))?;
        group.write(forest, last, &mut self.lines)?;
        self.end_line(line, self.indent(depth + 1));
        Ok(())
    }

    /// Writes when something was under way, if there is an axis: `━`, or `█` several at once.
    fn axis(&mut self, times: &[(i64, i64)]) -> io::Result<()> {
        /// Into how many parts the axis is divided.
        const PARTS: usize = 24;

        if !self.look.has_axis {
            return Ok(());
        }
        let (first, last) = self.axis;
        let length = i128::from(last.saturating_sub(first)).max(1);
        let part = |at: i64| {
            let since = i128::from(at) - i128::from(first);
            (since * PARTS as i128 / length).clamp(0, PARTS as i128 - 1) as usize
        };
        let mut parts = [0_u8; PARTS];
        for (from, to) in times {
            // What ends where the next part begins is not in it.
            let (from, to) = (part(*from), part((*to).saturating_sub(1).max(*from)));
            parts[from..=to].iter_mut().for_each(|it| *it = it.saturating_add(1));
        }
        let sign = |count: &u8| match count {
            0 => '·',
            1 => '━',
            _ => '█',
        };
        write!(self.lines, "{} ", parts.iter().map(sign).collect::<String>())
    }

    /// Writes the remaining events of the spans from this depth on.
    fn close(&mut self, depth: usize, above: &mut Vec<Above<'a>>) -> io::Result<()> {
        while above.len() > depth {
            let Some(mut span) = above.pop() else { break };
            self.events(&mut span, above.len(), i64::MAX)?;
            self.left_out(&span, above.len())?;
        }
        Ok(())
    }

    fn line(&mut self, node: Node<'_>, parent: Option<&Span>) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        let Node { span, depth, .. } = node;
        let record = &span.record;
        let length = match (record.duration(), node.at_least) {
            (Some(nanos), _) => ShortDuration(nanos).to_string(),
            (None, Some(nanos)) => format!(">{}", ShortDuration(nanos)),
            (None, None) => "-".into(),
        };
        let own = node.own.map_or_else(|| "-".into(), |own| ShortDuration(own).to_string());
        let outcome = match (&record.outcome, record.state) {
            (Some(outcome), _) => OneLine(outcome).to_string(),
            (None, SpanState::Started) => "no end".into(),
            (None, SpanState::OnlyStopped) => "no start".into(),
            (None, _) => "-".into(),
        };
        let mark = if node.is_match || self.ranked == Some(node.at) { '*' } else { ' ' };
        let style = match &*outcome {
            "ok" => Style::GREEN,
            "-" => Style::DEFAULT,
            _ => Style::RED,
        };
        let style = style.on(self.look.has_colors);
        let line = self.lines.len();
        write!(self.lines, "{mark}{length:>11} {own:>12}  {style}{outcome:<9}{style:#} ")?;
        let last = self.trees.last();
        let time = record.start.map(|start| (start, record.end.unwrap_or(last)));
        self.axis(time.as_slice())?;
        let out = &mut self.lines;
        write!(out, "{}", Indent(depth))?;
        match span.ty.map(|ty| &self.forest.types[ty as usize]) {
            Some(ty) => {
                write!(out, "{}", FullName(&ty.provider, &ty.name))?;
                if let Some(place) = ty.shown_place(span, self.look.has_places) {
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
                write!(out, " (begins {} before its parent)", ShortDuration(nanos))?
            }
            Some(Outside::After(nanos)) => {
                write!(out, " (ends {} after its parent)", ShortDuration(nanos))?
            }
            None => {}
        }
        out.extend_from_slice(&span.start_details);
        if !span.stop_details.is_empty() {
            write!(out, " ->")?;
            out.extend_from_slice(&span.stop_details);
        }
        if let Some(aside) = &span.aside {
            let busy = aside.busy.filter(|_| record.state == SpanState::Started);
            busy.map_or(Ok(()), |busy| write!(out, " (busy {})", ShortDuration(busy)))?;
            if aside.gone > 0 {
                write!(out, " ({} spans below made room)", aside.gone)?;
            }
        }
        self.end_line(line, self.indent(depth + 1));
        Ok(())
    }

    /// Writes the events of a span before a time, without those that were written.
    fn events(&mut self, above: &mut Above<'a>, depth: usize, before: i64) -> io::Result<()> {
        let span = above.span;
        // Of what is open, the last event says how far it has come.
        let is_open = self.forest.choice.is_open && span.record.state == SpanState::Started;
        let is_last = |at: usize| is_open && at + 1 == span.events.len();
        while let Some(event) = span.events.get(above.done).filter(|event| event.at < before) {
            let at = above.done;
            above.done += 1;
            let is_match = span.is_match(at);
            if !above.is_whole && !is_match && !is_last(at) {
                above.left_out += 1;
                continue;
            }
            if !self.has_room() {
                continue;
            }
            let line = self.lines.len();
            let out = &mut self.lines;
            let since = event.at.saturating_sub(self.start);
            let since = match since < 0 {
                true => ShortDuration(since).to_string(),
                false => format!("+{}", ShortDuration(since)),
            };
            let mark = if is_match { '*' } else { ' ' };
            let width = if self.look.has_axis { 48 } else { 23 };
            write!(out, "{mark}{since:>11} {:>width$} {}· ", "", Indent(depth + 1))?;
            out.extend_from_slice(&event.text);
            // Behind the letter of the level.
            self.end_line(line, self.indent(depth + 1) + 4);
        }
        Ok(())
    }

    fn left_out(&mut self, above: &Above<'_>, depth: usize) -> io::Result<()> {
        let width = if self.look.has_axis { 61 } else { 36 };
        for (count, why) in
            [(above.left_out as u64, ""), (above.span.left_out, ", for which there was no room")]
        {
            if count > 0 && self.has_room() {
                let indent = Indent(depth + 1);
                let events = if count == 1 { "event" } else { "events" };
                writeln!(self.lines, "{:>width$} {indent}· and {count} more {events}{why}", "")?;
            }
        }
        Ok(())
    }
}

/// Room for the text of most events.
const USUAL: usize = 128;

/// An event inside: the letter of its level, its name, message, fields, and the labels that are not
/// ids. `place` is that of its type, if another type has the same name.
pub(crate) fn event(
    event: &Event<'_>,
    place: Option<&str>,
    ty: &EventType,
    payload: &Payload<'_>,
    look: EventLook,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(USUAL);
    let severity = Severity::of(event);
    let style = severity.style().on(look.has_colors);
    write!(out, "{style}{}{style:#} ", severity.letter())?;
    let labels = event.labels();
    let labels = labels.iter().filter(|label| !is_id(label));
    let shown = ShownEvent { event, ty, payload, key: None, place };
    write_event(&shown, labels, look, &mut out)?;
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
        let labels = event.labels();
        let mut labels = labels.iter().filter(|label| !is_id(label));
        labels.try_for_each(|label| write_label(label, &mut out))?;
    } else {
        write_end(payload, detail, &mut out)?;
    }
    Ok(out)
}

/// Two blanks for each level.
struct Indent(usize);

impl fmt::Display for Indent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:width$}", "", width = 2 * self.0.min(MOST_INDENT))?;
        if self.0 > MOST_INDENT { write!(f, "(level {}) ", self.0) } else { Ok(()) }
    }
}
