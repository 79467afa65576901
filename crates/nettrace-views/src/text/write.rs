//! An event as text for people: its name, its span, its message and fields.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
};

use nettrace_reader::{Event, Label, Value};

use crate::{
    model::{
        FullName, Key, Meant, OneLine, Plain, event_name, is_given_up, label_name, place,
        process_id, target_as_name,
    },
    text::{EventType, LabelValue, Message, Payload, Style, message::CUT, quoted},
};

/// How much is written of an event's message and fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What people read: no field whose value is an empty text or list, or none, and of a long
    /// message or value the first 500 characters, with the number of the others.
    #[default]
    Short,
    /// Everything.
    Full,
}

/// How many characters of a message or of a value are written, unless all are.
const MOST_TEXT: usize = 500;

impl Detail {
    fn has(self, value: &Meant<'_, '_>) -> bool {
        self == Self::Full
            || match value {
                Meant::Nothing => false,
                Meant::Array(values, _) => !values.is_empty(),
                Meant::Value(value, _) => match &**value {
                    Value::Text(text) => !text.is_empty(),
                    Value::Bytes(bytes) => !bytes.is_empty(),
                    _ => true,
                },
                Meant::Duration(_) | Meant::Time(_) => true,
            }
    }

    /// Writes a text as one line.
    fn write(self, text: impl fmt::Display, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        write!(out, "{}", OneLine(text))?;
        if self == Self::Full || out.len() - start <= MOST_TEXT {
            return Ok(());
        }
        // Each character has one byte that does not go on with another.
        let begins = out[start..].iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80);
        let mut beyond = begins.skip(MOST_TEXT).map(|(at, _)| start + at);
        let Some(end) = beyond.next() else { return Ok(()) };
        let more = 1 + beyond.count();
        out.truncate(end);
        write!(out, "… ({more} more)")
    }
}

/// How the line of an event looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLook {
    /// How much of the event is written.
    pub detail: Detail,
    /// Whether its place in the source code is.
    pub has_place: bool,
    /// Whether there are colors.
    pub has_colors: bool,
}

/// What the line of an event is made of.
#[derive(Debug)]
pub struct ShownEvent<'a> {
    /// The event.
    pub event: &'a Event<'a>,
    /// Its type.
    pub ty: &'a EventType,
    /// Its fields.
    pub payload: &'a Payload<'a>,
    /// The span that it belongs to, if that is to be said.
    pub key: Option<Key>,
    /// The place of its type, if another type has the same name.
    pub place: Option<&'a str>,
}

/// Writes what an event is called and says, with these labels.
///
/// An event of `tracing` or `log` that has no name begins with its message. Its target comes last,
/// and is shortened: `hickory_server::…::catalog`.
///
/// # Errors
/// None: the result is in memory.
pub fn write_event<'a>(
    shown: &ShownEvent<'_>,
    labels: impl IntoIterator<Item = &'a Label>,
    look: EventLook,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let ShownEvent { event, ty, payload, key, place: of_namesake } = shown;
    let grey = Style::GREY.on(look.has_colors);
    let key = |out: &mut Vec<u8>| match key {
        Some(key) => {
            write!(out, "{grey}")?;
            write_key_of(key, event, out)?;
            write!(out, "{grey:#}")
        }
        None => Ok(()),
    };
    let whole = if look.has_place { place(event.metadata()) } else { None };
    let Some(target) = target_as_name(event.metadata()) else {
        write_name(event, whole.as_deref().or(*of_namesake), out)?;
        key(out)?;
        write_said(ty, payload, look.detail, out)?;
        return labels.into_iter().try_for_each(|label| write_label(label, out));
    };
    let start = out.len();
    write_said(ty, payload, look.detail, out)?;
    labels.into_iter().try_for_each(|label| write_label(label, out))?;
    // What would part it from a name.
    let parting = out[start..].iter().take(2).take_while(|byte| b": ".contains(byte)).count();
    out.drain(start..start + parting);
    let blank = if out.len() > start { " " } else { "" };
    match whole {
        None => write!(out, "{blank}{grey}({}){grey:#}", OneLine(short_target(target)))?,
        Some(place) if place.starts_with(target) => {
            write!(out, "{blank}{grey}({}){grey:#}", OneLine(place))?;
        }
        Some(place) => {
            write!(out, "{blank}{grey}({}; {}){grey:#}", OneLine(target), OneLine(place))?;
        }
    }
    key(out)
}

/// A path of modules that is not long, or else its first and its last part.
pub(crate) fn short_target(target: &str) -> Cow<'_, str> {
    const LONG: usize = 32;

    let parts = target.split_once("::").zip(target.rsplit_once("::"));
    match parts {
        Some(((first, rest), (_, last))) if target.len() > LONG && rest != last => {
            Cow::Owned(format!("{first}::…::{last}"))
        }
        _ => Cow::Borrowed(target),
    }
}

/// Writes the provider and the name of an event, the given place of its type, its message and its
/// fields.
///
/// # Errors
/// None: the result is in memory.
pub fn write_what(
    event: &Event<'_>,
    place: Option<&str>,
    ty: &EventType,
    payload: &Payload<'_>,
    detail: Detail,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    write_name(event, place, out)?;
    write_said(ty, payload, detail, out)
}

/// Writes the provider and the name of an event, and the given place of its type.
///
/// # Errors
/// None: the result is in memory.
pub fn write_name(event: &Event<'_>, place: Option<&str>, out: &mut Vec<u8>) -> io::Result<()> {
    let metadata = event.metadata();
    let name = event_name(metadata);
    let opcode = Opcode { opcode: event.opcode(), name: &name };
    write!(out, "{}{opcode}", FullName(&metadata.provider, &name))?;
    match place {
        Some(place) => write!(out, " ({})", OneLine(place)),
        None => Ok(()),
    }
}

/// Writes the short id of a span of this process, after a blank.
///
/// # Errors
/// None: the result is in memory.
pub fn write_key(key: &Key, process: u32, out: &mut Vec<u8>) -> io::Result<()> {
    match key {
        Key::Span(_, id) => write!(out, " [{id}]"),
        Key::Activity(id) => match id.path_in(process).or(id.path()) {
            Some(path) => write!(out, " ({path})"),
            None => write!(out, " [{id}]"),
        },
    }
}

/// As [`write_key`], for a span of the process of an event.
pub(super) fn write_key_of(key: &Key, event: &Event<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    write_key(key, process_id(event).and_then(|id| id.try_into().ok()).unwrap_or(0), out)
}

/// Writes the message of an event, and the fields that the message does not show.
///
/// # Errors
/// None: the result is in memory.
pub fn write_said(
    ty: &EventType,
    payload: &Payload<'_>,
    detail: Detail,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(template) = &ty.message else { return write_fields(payload, &[], detail, out) };
    write!(out, ": ")?;
    detail.write(Message { template, payload }, out)?;
    let is_whole = !out.ends_with(CUT.as_bytes());
    write_others(payload, |number, _, _| is_whole && template.shows(number), detail, out)
}

/// Writes the fields but those named, each after a blank.
///
/// # Errors
/// None: the result is in memory.
pub fn write_fields(
    payload: &Payload<'_>,
    without: &[&str],
    detail: Detail,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    write_others(payload, |_, name, _| without.contains(&name), detail, out)
}

/// Writes the fields of the event that ends a span, each after a blank, but those that a line shows
/// in another way: `started`, `duration` and `outcome`.
///
/// [`Detail::Short`] also leaves out zeros that say nothing: `polls` and `busy` of a span that is
/// no future, and what a span has come to that was cancelled or panicked. One event for a whole
/// span has the values of its start, too, so their zeros stay.
///
/// A span of `tracing` can be entered on several threads at once, and `busy` is the sum of all.
/// Where it exceeds the duration, the line says why.
///
/// # Errors
/// None: the result is in memory.
pub fn write_end(payload: &Payload<'_>, detail: Detail, out: &mut Vec<u8>) -> io::Result<()> {
    let find = |wanted| payload.fields.iter().find(|(name, _)| *name == wanted)?.1.as_ref();
    let is_short = detail == Detail::Short;
    let is_no_future = find("polls").is_some_and(is_zero);
    let is_given_up = find("started").is_none()
        && matches!(find("outcome"), Some(Value::Text(outcome)) if is_given_up(outcome));
    let without = |_, name: &str, value: &Value<'_>| match name {
        "started" | "duration" | "outcome" => true,
        "polls" | "busy" if is_short && is_no_future => true,
        _ => is_short && is_given_up && is_zero(value),
    };
    write_others(payload, without, detail, out)?;
    match (find("busy"), find("duration")) {
        (Some(Value::U64(busy)), Some(Value::U64(duration))) if busy > duration => {
            out.write_all(b" (busy on several threads at once)")
        }
        _ => Ok(()),
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    matches!(Plain::of(value), Plain::Unsigned(0) | Plain::Signed(0))
}

/// Writes the fields but those that `without` names by number, name or value, each after a blank.
fn write_others(
    payload: &Payload<'_>,
    without: impl Fn(usize, &str, &Value<'_>) -> bool,
    detail: Detail,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for (number, (name, value)) in payload.fields.iter().enumerate() {
        let value = value.as_ref().filter(|value| !without(number, name, value));
        let Some(value) = value else { continue };
        let value = quoted(value, payload.types.field(name));
        if detail.has(&value.value) {
            write!(out, " {}=", OneLine(name))?;
            detail.write(value, out)?;
        }
    }
    let Some(error) = &payload.error else { return Ok(()) };
    let missing = payload.fields.iter().position(|(_, value)| value.is_none());
    let behind = missing.and_then(|at| payload.fields.get(at + 1..)).unwrap_or_default();
    match missing {
        Some(at) if behind.iter().any(|(_, value)| value.is_some()) => {
            let name = OneLine(payload.fields[at].0);
            write!(out, " (`{name}` cannot be decoded: {error})")?;
        }
        _ => write!(out, " (the next field cannot be decoded: {error})")?,
    }
    Ok(())
}

/// Writes a label, after a blank.
///
/// # Errors
/// None: the result is in memory.
pub fn write_label(label: &Label, out: &mut Vec<u8>) -> io::Result<()> {
    write!(out, " {{{}={}}}", OneLine(label_name(label)), OneLine(LabelValue(label)))
}

/// The names of opcodes 1 to 9 in .NET.
const OPCODES: [&str; 9] = [
    "Start",
    "Stop",
    "DataCollectionStart",
    "DataCollectionStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Transfer",
];

/// The suffix of an opcode after an event's name: `/Start`. Empty if the name already ends so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opcode<'a> {
    pub(super) opcode: u8,
    pub(super) name: &'a str,
}

impl fmt::Display for Opcode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(index) = usize::from(self.opcode).checked_sub(1) else { return Ok(()) };
        match OPCODES.get(index) {
            Some(word) if ends_with(self.name, word) => Ok(()),
            Some(word) => write!(f, "/{word}"),
            None => write!(f, "/{}", self.opcode),
        }
    }
}

fn ends_with(name: &str, word: &str) -> bool {
    let at = name.len().checked_sub(word.len());
    at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{Detail, MOST_TEXT, Opcode, short_target};

    #[test]
    fn long_texts_are_cut_between_characters() {
        let written = |detail: Detail, text: &str| {
            let mut out = b"x=".to_vec();
            detail.write(text, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for (letter, beyond) in ["a", "é", "💡"].iter().zip([1, 2, 700]) {
            let fits = letter.repeat(MOST_TEXT);
            let long = letter.repeat(MOST_TEXT + beyond);
            assert_eq!(written(Detail::Short, &fits), format!("x={fits}"));
            let cut = format!("x={fits}… ({beyond} more)");
            assert_eq!(written(Detail::Short, &long), cut);
            assert_eq!(written(Detail::Full, &long), format!("x={long}"));
        }
    }

    #[test]
    fn targets_are_shortened() {
        for (target, shown) in [
            ("shop", "shop"),
            ("shop::orders::cart", "shop::orders::cart"),
            ("hickory_server::server::server_future", "hickory_server::…::server_future"),
            (
                "a_crate_with_a_long_name::and_one_module",
                "a_crate_with_a_long_name::and_one_module",
            ),
            (
                "no path, but a text of more than 32 letters",
                "no path, but a text of more than 32 letters",
            ),
            ("::::::::::::::::::::::::::::::::::::", "::…::"),
        ] {
            assert_eq!(short_target(target), shown);
        }
    }

    #[test]
    fn opcodes() {
        let shown = |name, opcode| Opcode { opcode, name }.to_string();
        assert_eq!(shown("Work", 0), "");
        assert_eq!(shown("Work", 1), "/Start");
        assert_eq!(shown("WORKSTART", 1), "");
        assert_eq!(shown("WorkStart", 2), "/Stop");
        assert_eq!(shown("é", 24), "/24");
        assert_eq!(shown("éa", 7), "/Resume");
    }
}
