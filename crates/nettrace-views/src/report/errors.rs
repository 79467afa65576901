//! Errors, warnings, and spans that failed, and all else that a program logs: which there are, how
//! often, when, and where.
//!
//! Those of one event type, one shape of message and one place are a group. The shape is the
//! template of the type, or the message without its numbers, so that a message which is formatted
//! before it is recorded makes one group and not thousands. The place is the outermost span around
//! that has a dimension, such as a route, or else the root. At most 500 groups are kept.

use std::borrow::Cow;

use foldhash::HashMap;
use nettrace_event::trace_context::TraceId;
use nettrace_reader::{Event, Metadata, Value};

use crate::{
    model::{Key, PerType, clip, event_name, span_name, target_as_name},
    report::timeline::Timeline,
    text::{EventType, Message, Payload, Severity, short_target},
};

/// How many groups are told apart. All others are one.
const MOST_GROUPS: usize = 500;

/// How many characters of a message are shown.
const MOST_TEXT: usize = 200;

/// The least severe level that counts: a warning.
const WARNING: u8 = 3;

/// The fields in which the end of a span says why it failed.
const CAUSES: [&str; 2] = ["err", "error"];

/// Events of one type and one shape of message, at one place.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) provider: Box<str>,
    pub(crate) name: Box<str>,
    /// What all their messages have in common.
    pub(crate) shape: Box<str>,
    /// The message of the first.
    pub(crate) example: Box<str>,
    /// 1 is critical. `None` for spans that failed.
    pub(crate) level: Option<u8>,
    pub(crate) severity: Severity,
    /// Its target, which is its name, if it is of `tracing` or `log`.
    pub(crate) target: Option<Box<str>>,
    /// The number of the name of the span that they are in.
    pub(crate) place: Option<u32>,
    pub(crate) count: u64,
    /// The ticks of the first and the last.
    pub(crate) ticks: (u64, u64),
    /// Where the first belongs to.
    pub(crate) trace: Option<TraceId>,
    pub(crate) span: Option<Key>,
    /// Its row.
    pub(crate) row: usize,
}

/// All groups so far.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) groups: Vec<Group>,
    index: HashMap<(usize, Box<str>, Option<u32>), usize>,
    types: PerType<EventType>,
    /// When they were.
    pub(crate) timeline: Timeline,
    /// Errors and warnings of no group, because there are too many.
    pub(crate) beyond: u64,
}

/// Where an event is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) span: Option<Key>,
    pub(crate) trace: Option<TraceId>,
    /// The number of the name of the span that tells where it is.
    pub(crate) place: Option<u32>,
}

/// Whether events of a type are told apart by what they say: those of `tracing` and `log`.
pub(crate) fn is_message(metadata: &Metadata) -> bool {
    target_as_name(metadata).is_some()
}

/// Whether an event is an error or a warning.
pub(crate) fn is_wrong(event: &Event<'_>) -> bool {
    (1..=WARNING).contains(&event.level())
}

impl Errors {
    /// Adds an event of a type, which is called by its number.
    pub(crate) fn event(&mut self, ty: usize, event: &Event<'_>, at: At) {
        let known = self.types.of(event, EventType::of);
        let payload = Payload::of(event, known);
        let message = match &known.message {
            Some(template) => Message { template, payload: &payload }.to_string(),
            None => {
                let field = payload.fields.iter().find(|(name, _)| *name == "message");
                match field {
                    Some((_, Some(Value::Text(text)))) => text.clone().into_owned(),
                    _ => cause(event).unwrap_or_default(),
                }
            }
        };
        let template = event.metadata().message_template.as_deref().filter(|it| has_words(it));
        let shape = match template {
            Some(template) => Cow::Borrowed(template),
            None => Cow::Owned(shape(&message)),
        };
        let texts = [&*clip(&shape, MOST_TEXT), &*clip(&message, MOST_TEXT)];
        self.add(ty, event, Some(event.level()), texts, at);
    }

    /// Adds a span that failed with this outcome, by the event that ends it. That may say why.
    pub(crate) fn span(&mut self, ty: usize, event: &Event<'_>, outcome: &str, at: At) {
        let Some(why) = cause(event) else {
            return self.add(ty, event, None, [outcome, outcome], at);
        };
        let texts =
            [&*shape(&why), &*why].map(|text| clip(&format!("{outcome}: {text}"), MOST_TEXT));
        self.add(ty, event, None, [&texts[0], &texts[1]], at);
    }

    fn add(
        &mut self,
        ty: usize,
        event: &Event<'_>,
        level: Option<u8>,
        [shape, example]: [&str; 2],
        At { span, trace, place }: At,
    ) {
        let ticks = event.header.timestamp;
        let key = (ty, shape.into(), place);
        let known = self.index.get(&key).copied();
        if known.is_none() && self.groups.len() >= MOST_GROUPS {
            self.beyond += 1;
            return;
        }
        let at = known.unwrap_or_else(|| {
            let metadata = event.metadata();
            self.groups.push(Group {
                provider: (&*metadata.provider).into(),
                name: match level {
                    Some(_) => (&*event_name(metadata)).into(),
                    None => span_name(&event_name(metadata)).into(),
                },
                shape: shape.into(),
                example: example.into(),
                level,
                severity: level.map_or(Severity::Error, |_| Severity::of(event)),
                target: target_as_name(metadata).map(|target| (&*short_target(target)).into()),
                place,
                count: 0,
                ticks: (ticks, ticks),
                trace,
                span,
                row: self.timeline.add_row(),
            });
            self.index.insert(key, self.groups.len() - 1);
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.count += 1;
        group.ticks = (group.ticks.0.min(ticks), group.ticks.1.max(ticks));
        self.timeline.add(ticks, [(group.row, 1)]);
    }
}

/// What an event says of the cause of a failure.
fn cause(event: &Event<'_>) -> Option<String> {
    let mut texts = event.fields().filter_map(Result::ok).filter_map(|(name, value)| match value {
        _ if !CAUSES.contains(&name) => None,
        Value::Text(text) => Some(text.into_owned()),
        // An option.
        Value::Array(values) => values.into_iter().find_map(|value| match value {
            Value::Text(text) => Some(text.into_owned()),
            _ => None,
        }),
        _ => None,
    });
    texts.find(|text| !text.is_empty())
}

/// Whether a template says more than its fields do.
fn has_words(template: &str) -> bool {
    let mut depth = 0_u32;
    template.chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c.is_alphabetic()
    })
}

/// A message with `#` for its numbers and ids.
fn shape(message: &str) -> String {
    /// From how many digits on a word can be an id in hexadecimal digits.
    const ID: usize = 8;

    let begin: String = message.chars().take(4 * MOST_TEXT).collect();
    let mut shape = String::new();
    let mut rest = &*begin;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| c.is_alphanumeric() != first.is_alphanumeric());
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let has_digits = word.contains(|c: char| c.is_ascii_digit());
        let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (has_digits, is_hex && word.len() >= ID) {
            (true, true) => shape.push('#'),
            (true, false) => {
                let mut is_number = false;
                for c in word.chars() {
                    if !c.is_ascii_digit() {
                        shape.push(c);
                    } else if !is_number {
                        shape.push('#');
                    }
                    is_number = c.is_ascii_digit();
                }
            }
            (false, _) => shape.push_str(word),
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::{has_words, shape};

    #[test]
    fn numbers_and_ids_are_no_part_of_a_shape() {
        for (message, expected) in [
            ("connection to 10.0.0.7:8080 lost", "connection to #.#.#.#:# lost"),
            ("timeout after 35ms, try 2", "timeout after #ms, try #"),
            ("no user 4bf92f3577b34da6", "no user #"),
            ("id 04030201-0605-0807-090a-0b0c0d0e0f10", "id #-#-#-#a-#"),
            ("deadbeef is no number", "deadbeef is no number"),
            ("é1 ü", "é# ü"),
            ("", ""),
        ] {
            assert_eq!(shape(message), expected);
        }
        assert!(shape(&"1 ".repeat(10_000)).len() <= 800);
    }

    #[test]
    fn templates_with_words() {
        assert!(has_words("refused {count} of {what}") && has_words("x"));
        assert!(!has_words("{message}") && !has_words("") && !has_words("{a}: {b}"));
    }
}
