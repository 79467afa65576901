//! A catalogue as a text that people read and review.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt::{self, Write as _};

use crate::{
    lock::{
        Catalogue, Event, Field,
        words::{Name, is_of_word, name, quoted},
    },
    schema::Level,
};

/// The first line of the file.
pub const FIRST_LINE: &str = "# nettrace schema 1";

/// A text that is not a catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The number of the line, from 1.
    pub line: usize,
    /// A description of the problem.
    pub problem: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for ParseError {}

/// The text: sorted, the same for equal events.
impl fmt::Display for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut provider = None;
        let by_id = self.by_id();
        for event in &self.events {
            if provider != Some(&event.provider) {
                provider = Some(&event.provider);
                writeln!(f, "\nprovider {}", Name(&event.provider))?;
            }
            writeln!(f, "\nevent {}", Name(&event.name))?;
            write_event(event, by_id.get(&event.key_of_id()).map_or(&[], Vec::as_slice), f)?;
            for field in &event.fields {
                let secret = if field.is_secret { "secret " } else { "" };
                writeln!(f, "  field {} {secret}{}", Name(&field.name), field.ty)?;
                if let Some(format) = &field.format {
                    writeln!(f, "    format {}", Name(format))?;
                }
                if field.tag != 0 {
                    writeln!(f, "    tag {:#x}", field.tag)?;
                }
                if let Some(role) = &field.role {
                    writeln!(f, "    role {}", Name(role))?;
                }
                write_texts(field.meaning.as_ref(), &field.keys, "    ", f)?;
            }
        }
        Ok(())
    }
}

/// `same` are the events that want the same id, with this one.
fn write_event(event: &Event, same: &[&Event], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    /// The number of others that are named.
    const MOST: usize = 3;

    writeln!(f, "  version {}", event.version)?;
    write!(f, "  id {}", event.id)?;
    match event.id_is_given {
        Some(true) => f.write_str(" given")?,
        Some(false) => {
            f.write_str(" derived")?;
            let others = same.iter().filter(|other| !core::ptr::eq(**other, event));
            for other in others.take(MOST) {
                write!(f, ", as that of {}", Name(&other.name))?;
            }
            if same.len() > MOST + 1 {
                write!(f, ", and of {} more", same.len() - 1 - MOST)?;
            }
        }
        None => {}
    }
    f.write_char('\n')?;
    if let Some(guid) = event.guid {
        f.write_str("  guid ")?;
        guid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('\n')?;
    }
    if let Some(group) = &event.group {
        writeln!(f, "  group {}", Name(group))?;
    }
    writeln!(f, "  level {}", level(event.level))?;
    if event.keywords != 0 {
        writeln!(f, "  keywords {:#x}", event.keywords)?;
    }
    if let Some(opcode) = event.opcode {
        writeln!(f, "  opcode {opcode}")?;
    }
    if event.tag != 0 {
        writeln!(f, "  tag {:#x}", event.tag)?;
    }
    if !event.module.is_empty() {
        let is_path = event.module.bytes().all(|byte| is_of_word(byte) || byte == b':');
        match is_path {
            true => writeln!(f, "  module {}", event.module)?,
            false => writeln!(f, "  module {:?}", event.module)?,
        }
    }
    if let Some(message) = &event.message {
        writeln!(f, "  message {message:?}")?;
    }
    write_texts(event.meaning.as_ref(), &event.keys, "  ", f)
}

fn write_texts(
    meaning: Option<&String>,
    keys: &[(String, String)],
    indent: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if let Some(meaning) = meaning {
        writeln!(f, "{indent}meaning {meaning:?}")?;
    }
    keys.iter().try_for_each(|(key, value)| writeln!(f, "{indent}key {} {value:?}", Name(key)))
}

/// A level's name in small letters, or its number.
pub(super) fn level(number: u8) -> String {
    Level::new(number).name().map_or(number.to_string(), str::to_lowercase)
}

fn parse_level(text: &str) -> Option<u8> {
    (0..=5).find(|number| level(*number) == text).or_else(|| text.parse().ok())
}

/// The whole text is a name, or a text in quotes.
fn whole(read: Option<(String, &str)>) -> Option<String> {
    read.filter(|(_, rest)| rest.is_empty()).map(|(name, _)| name)
}

impl core::str::FromStr for Catalogue {
    type Err = ParseError;

    /// Reads the text. Lines that begin with `#` are comments.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut reading = Reading::default();
        for (at, line) in text.lines().enumerate() {
            let is_comment = line.starts_with('#') || line.trim().is_empty();
            if is_comment {
                continue;
            }
            let read = reading.line(line.trim_end());
            read.map_err(|problem| ParseError { line: at + 1, problem })?;
        }
        Ok(Self::new(reading.events))
    }
}

#[derive(Default)]
struct Reading {
    provider: Option<String>,
    events: Vec<Event>,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let indent = line.len() - line.trim_start().len();
        let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        let rest = rest.trim_start();
        let wrong = || {
            let begin: String = line.trim_start().chars().take(80).collect();
            format!("`{begin}` is not what a schema has here")
        };
        let done = match (indent, word) {
            (0, "provider") => {
                self.provider = whole(name(rest));
                self.provider.is_some()
            }
            (0, "event") => {
                let provider = self.provider.clone().ok_or("an event comes before a provider")?;
                let name = whole(name(rest)).ok_or_else(wrong)?;
                self.events.push(Event { provider, name, ..Event::default() });
                true
            }
            (2, _) => {
                let event = self.events.last_mut().ok_or_else(wrong)?;
                event_line(event, word, rest)?.is_some()
            }
            (4, _) => {
                let event = self.events.last_mut().ok_or_else(wrong)?;
                let field = event.fields.last_mut().ok_or_else(wrong)?;
                field_line(field, word, rest).is_some()
            }
            _ => false,
        };
        if done { Ok(()) } else { Err(wrong()) }
    }
}

fn texts_line(
    meaning: &mut Option<String>,
    keys: &mut Vec<(String, String)>,
    word: &str,
    rest: &str,
) -> Option<()> {
    match word {
        "meaning" => *meaning = Some(whole(quoted(rest))?),
        "key" => {
            let (key, rest) = name(rest)?;
            keys.push((key, whole(quoted(rest))?));
        }
        _ => return None,
    }
    Some(())
}

fn field_line(field: &mut Field, word: &str, rest: &str) -> Option<()> {
    match word {
        "format" => field.format = Some(whole(name(rest))?),
        "tag" => field.tag = hex(rest)?.try_into().ok()?,
        "role" => field.role = Some(whole(name(rest))?),
        _ => texts_line(&mut field.meaning, &mut field.keys, word, rest)?,
    }
    Some(())
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn event_line(event: &mut Event, word: &str, rest: &str) -> Result<Option<()>, String> {
    let field = |rest: &str| -> Option<Result<Field, String>> {
        let (name, rest) = name(rest)?;
        let (is_secret, ty) = match rest.strip_prefix("secret ") {
            Some(ty) => (true, ty),
            None => (false, rest),
        };
        let field = |ty| Field { is_secret, ..Field::new(name, ty) };
        Some(ty.parse().map(field))
    };
    let mut line = || {
        match word {
            "version" => event.version = rest.parse().ok()?,
            "id" => {
                let (id, how) = rest.split_once(' ').unwrap_or((rest, ""));
                event.id = id.parse().ok()?;
                event.id_is_given = match how.split(',').next() {
                    Some("given") => Some(true),
                    Some("derived") => Some(false),
                    _ => None,
                };
            }
            "guid" => {
                let guid = u128::from_str_radix(rest, 16).ok().filter(|_| rest.len() == 32)?;
                event.guid = Some(guid.to_be_bytes());
            }
            "group" => event.group = Some(whole(name(rest))?),
            "level" => event.level = parse_level(rest)?,
            "keywords" => event.keywords = hex(rest)?,
            "opcode" => event.opcode = Some(rest.parse().ok()?),
            "tag" => event.tag = hex(rest)?.try_into().ok()?,
            "module" if rest.starts_with('"') => event.module = whole(quoted(rest))?,
            "module" => event.module = rest.to_string(),
            "message" => event.message = Some(whole(quoted(rest))?),
            _ => return texts_line(&mut event.meaning, &mut event.keys, word, rest),
        }
        Some(())
    };
    if word != "field" {
        return Ok(line());
    }
    match field(rest) {
        Some(field) => event.fields.push(field?),
        None => return Ok(None),
    }
    Ok(Some(()))
}
