//! The target flame graph: SVG, by the crate `inferno`.

use std::{fmt, io::Write, str::FromStr};

use inferno::flamegraph as inferno_svg;
use nettrace_reader::Trace;

use crate::{
    LeftOut,
    model::is_hidden,
    viewers::{
        Options,
        profile::{Profile, Profiler, interval},
        spans::{Begin, Place},
        stacks::Samples,
        timeline::{Relieve, Timeline},
        tree::{Amount, CUT_SAMPLES, CUT_SPANS, Counted, SampleTree, SpanTree},
    },
};

/// What the widths of a flame graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum By {
    /// The samples of the processor: how many, or how long they stand for if the trace states that.
    Cpu,
    /// The times of spans, in nanoseconds: each without that of its children.
    Spans,
    /// The times in which threads waited, in nanoseconds, as context switches state them.
    OffCpu,
    /// How many events have the stack: those that are neither samples nor context switches.
    Events,
}

impl By {
    /// All, in the order in which they are chosen if the caller makes no choice.
    pub const ALL: &'static [Self] = &[Self::Cpu, Self::Spans, Self::OffCpu, Self::Events];

    /// Its name, as in command lines.
    ///
    /// ```
    /// use nettrace_views::viewers::By;
    ///
    /// assert_eq!("cpu".parse(), Ok(By::Cpu));
    /// assert_eq!(By::Spans.to_string(), "spans");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Spans => "spans",
            Self::OffCpu => "off-cpu",
            Self::Events => "events",
        }
    }
}

impl FromStr for By {
    type Err = UnknownBy;

    fn from_str(name: &str) -> Result<Self, UnknownBy> {
        Self::ALL.iter().copied().find(|by| by.name() == name).ok_or(UnknownBy)
    }
}

/// Shows [`By::name`].
impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such kind of flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a flame graph is by cpu, spans, off-cpu or events")]
#[non_exhaustive]
pub struct UnknownBy;

/// The stacks of a trace with how much each took, for a flame graph that compares another trace
/// with it: the text of [`View::Folded`](crate::viewers::View::Folded).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(pub(crate) Vec<(String, u64)>);

impl Folded {
    /// Reads lines of stacks: frames from the outermost with `;` between them, a space, a number.
    /// Other lines are passed over.
    ///
    /// ```
    /// let folded = nettrace_views::viewers::Folded::read("main;work 3\nmain 1\n");
    /// assert_eq!(folded.total(), 4);
    /// ```
    #[must_use]
    pub fn read(text: &str) -> Self {
        let line = |line: &str| {
            let (stack, number) = line.rsplit_once(' ')?;
            Some((stack.to_owned(), number.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// All stacks together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, number)| sum.saturating_add(*number))
    }
}

/// What is written of the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Svg,
    Text,
}

/// Begins a flame graph.
pub(crate) fn begin<W: Write>(
    sink: W,
    kind: Kind,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Profiler<Flames>, W> {
    let profile = Flames {
        kind,
        by: options.by,
        before: options.before.clone(),
        stacks: Default::default(),
        spans: SpanTree::default(),
        interval: interval(trace),
        drawn: None,
        failure: None,
    };
    Timeline::new(sink, Profiler::new(profile), Vec::new(), trace, version, options)
}

/// What a flame graph has.
#[derive(Debug)]
pub(crate) struct Flames {
    kind: Kind,
    by: Option<By>,
    before: Option<Folded>,
    /// Samples, context switches and other events.
    stacks: [SampleTree; 3],
    spans: SpanTree,
    interval: Option<u64>,
    /// What was drawn.
    drawn: Option<By>,
    failure: Option<String>,
}

/// A frame's name in a folded stack, in which `;` and line breaks have a meaning.
fn folded(name: &str) -> String {
    let is_bad = |c: char| is_hidden(c) || matches!(c, ';' | '\u{FFFE}' | '\u{FFFF}');
    name.chars().map(|c| if is_bad(c) { '_' } else { c }).collect()
}

impl Flames {
    /// The stacks of one kind. Spans have none.
    fn stacks(&self, by: By) -> Option<&SampleTree> {
        let [samples, waits, events] = &self.stacks;
        match by {
            By::Cpu => Some(samples),
            By::OffCpu => Some(waits),
            By::Events => Some(events),
            By::Spans => None,
        }
    }

    /// How many there are of a kind.
    fn count(&self, by: By) -> u64 {
        self.stacks(by).map_or(&self.spans.root, |tree| &tree.root).total().count
    }

    /// The lines of the stacks, in the order of the frames' names, and what their numbers count.
    fn lines(&mut self) -> (Vec<(String, u64)>, &'static str, By) {
        self.spans.complete();
        let mut all = By::ALL.iter().copied();
        let by = self.by.or_else(|| all.find(|by| self.count(*by) > 0)).unwrap_or(By::Spans);
        self.drawn = Some(by);
        let mut lines = Vec::new();
        let stacks = self.stacks(by);
        let mut add = |stack: &[u32], number: u64| {
            let name = |frame: &u32| match stacks {
                Some(tree) => folded(&tree.frames.names[*frame as usize].name),
                None => folded(&self.spans.texts[*frame as usize]),
            };
            let stack: Vec<_> = stack.iter().map(name).collect();
            if number > 0 {
                lines.push((stack.join(";"), number));
            }
        };
        let (has_times, unit) = match by {
            By::Spans | By::OffCpu => (true, "ns"),
            By::Cpu if self.interval.is_some() => (true, "ns"),
            By::Cpu => (false, "samples"),
            By::Events => (false, "events"),
        };
        let mut visit = |stack: &[u32], own: Amount| {
            add(stack, if has_times { own.nanos } else { own.count });
        };
        let root = stacks.map_or(&self.spans.root, |tree| &tree.root);
        root.each(&mut Vec::new(), &mut visit);
        lines.sort();
        (lines, unit, by)
    }

    fn svg(&mut self, out: &mut Vec<u8>) {
        let (lines, unit, by) = self.lines();
        let mut options = inferno_svg::Options::default();
        options.title = match by {
            By::Cpu => "Samples by stack".to_owned(),
            By::Spans => "Time of spans, each without its children's".to_owned(),
            By::OffCpu => "Time in which threads waited, by stack".to_owned(),
            By::Events => "Events by stack".to_owned(),
        };
        options.count_name = unit.to_owned();
        options.deterministic = true;
        if lines.is_empty() {
            let what = match by {
                By::Cpu => "samples",
                By::Spans => "spans that have ended",
                By::OffCpu => "context switches",
                By::Events => "events with stacks",
            };
            empty(out, what);
            return;
        }
        let mut text: Vec<String> = Vec::new();
        match &self.before {
            None => text.extend(lines.iter().map(|(stack, number)| format!("{stack} {number}"))),
            Some(before) => {
                options.title.push_str(", compared");
                // Both in one table: the number before, the number now.
                let mut both = std::collections::BTreeMap::<&str, (u64, u64)>::new();
                for (stack, number) in &before.0 {
                    both.entry(stack).or_default().0 += number;
                }
                for (stack, number) in &lines {
                    both.entry(stack).or_default().1 += number;
                }
                let line = |(stack, (before, now)): (&&str, &(u64, u64))| {
                    format!("{stack} {before} {now}")
                };
                text.extend(both.iter().map(line));
            }
        }
        let start = out.len();
        let written =
            inferno_svg::from_lines(&mut options, text.iter().map(|line| &**line), &mut *out);
        if let Err(error) = written {
            out.truncate(start);
            self.failure = Some(error.to_string());
            empty(out, "stacks that can be drawn");
        }
    }
}

/// Writes a picture that says that there is nothing to draw.
fn empty(out: &mut Vec<u8>, what: &str) {
    let text = format!("The trace has no {what}.");
    out.extend_from_slice(
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"60\">\
             <text x=\"20\" y=\"35\" font-family=\"monospace\">{text}</text></svg>\n"
        )
        .as_bytes(),
    );
}

impl Profile for Flames {
    const TAKES_SAMPLES_EARLY: bool = true;

    fn span(&mut self, _: Place, span: &Begin, end: i64) {
        self.spans.add(span, end);
    }

    fn samples(&mut self, samples: &Samples) {
        let counted =
            [Counted::Running(self.interval.unwrap_or(1)), Counted::Waiting, Counted::Events];
        for (tree, counted) in self.stacks.iter_mut().zip(counted) {
            tree.add(samples, counted);
        }
    }

    fn wants_stacks(&self, samples: &Samples) -> bool {
        match self.by {
            Some(by) => by == By::Events,
            // What is drawn by default if there is nothing else.
            None => {
                let [running, waiting, _] = &self.stacks;
                let before = !running.root.inside.is_empty() || !waiting.root.inside.is_empty();
                !before && samples.taken.is_empty() && samples.waits.is_empty()
            }
        }
    }

    fn events(&self) -> u64 {
        if self.drawn == Some(By::Events) { self.count(By::Events) } else { 0 }
    }

    fn write(&mut self, out: &mut Vec<u8>, _: Relieve<'_>) {
        match self.kind {
            Kind::Svg => self.svg(out),
            Kind::Text => {
                for (stack, number) in self.lines().0 {
                    out.extend_from_slice(format!("{stack} {number}\n").as_bytes());
                }
            }
        }
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        let drawn = self.drawn.unwrap_or(By::Spans);
        match self.stacks(drawn) {
            Some(tree) => left_out.miss(tree.cut, CUT_SAMPLES),
            None => left_out.miss(self.spans.cut, CUT_SPANS),
        }
        for (by, what) in [
            (By::Spans, "spans (--by spans)"),
            (By::Cpu, "samples (--by cpu)"),
            (By::OffCpu, "context switches (--by off-cpu)"),
        ] {
            if by != drawn {
                left_out.add(self.count(by), what);
            }
        }
        left_out.miss(u64::from(self.failure.is_some()), "stacks: the graph cannot be drawn");
    }
}
