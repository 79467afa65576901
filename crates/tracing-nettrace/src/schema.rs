//! The schema of an event type: what readers are told of a callsite.

use std::collections::BTreeSet;

use nettrace_event::keys;
use nettrace_writer::{
    Level, bridge,
    event::{EventSchema, EventType, FieldSchema, FieldType, Place, ProviderSchema, StrEncoding},
};
use tracing_core::Metadata;

use crate::{
    callsite::Callsite,
    stats,
    sync::{Mutex, PoisonError},
    values::{Kind, MAX_FIELDS, Signature},
};

/// What part of a span an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The end of a span.
    Stop,
    /// The start of a span, told to a session that began after it.
    Late,
    /// A span follows from another one.
    Follows,
    /// A span is entered.
    Resume,
    /// A span is left.
    Suspend,
    /// An event, which is no part.
    Event,
    /// The start of a span.
    Start,
    /// Fields of a span that were recorded later.
    Record,
}

impl Part {
    /// How many parts have the same fields in every span. They come first.
    pub(crate) const OTHERS: usize = 5;

    /// What the name of the span's event ends with.
    fn suffix(self) -> &'static str {
        match self {
            Self::Event => "",
            Self::Start | Self::Late => "Start",
            Self::Follows => "Follows",
            Self::Stop => "Stop",
            Self::Resume => "Resume",
            Self::Suspend => "Suspend",
            Self::Record => "Record",
        }
    }

    fn opcode(self) -> Option<u8> {
        match self {
            // Without 0, readers take the opcode from a name that ends in `Start` or `Stop`.
            Self::Event | Self::Record | Self::Follows => Some(0),
            Self::Start | Self::Late => Some(1),
            Self::Stop => Some(2),
            Self::Resume => Some(7),
            Self::Suspend => Some(8),
        }
    }

    /// The fields that do not depend on the callsite.
    fn own_fields(self) -> &'static [FieldSchema] {
        const STOP: &[FieldSchema] = &[
            FieldSchema::new("duration", FieldType::DurationNanos),
            FieldSchema::new("outcome", FieldType::Str(StrEncoding::Utf16)),
            FieldSchema::new("polls", FieldType::U32),
            FieldSchema::new("busy", FieldType::DurationNanos),
            FieldSchema::new("idle", FieldType::DurationNanos),
        ];
        const LATE: &[FieldSchema] = &[FieldSchema::new("age", FieldType::DurationNanos)];
        const FOLLOWS: &[FieldSchema] = &[
            FieldSchema::new("trace", FieldType::Str(StrEncoding::Utf16)),
            FieldSchema::new("span", FieldType::Str(StrEncoding::Utf16)),
        ];
        match self {
            Self::Stop => STOP,
            Self::Late => LATE,
            Self::Follows => FOLLOWS,
            _ => &[],
        }
    }
}

/// The level of a callsite. `TRACE` is [`Level::Verbose`], too.
pub(crate) fn level(level: &tracing_core::Level) -> Level {
    match *level {
        tracing_core::Level::ERROR => Level::Error,
        tracing_core::Level::WARN => Level::Warning,
        tracing_core::Level::INFO => Level::Informational,
        _ => Level::Verbose,
    }
}

/// A name that a provider can have.
pub(crate) fn provider_name(target: String) -> String {
    let is_forbidden = |c: char| matches!(c, '\0'..=' ' | ',' | ':' | ';' | '\x7f');
    let name = if target.is_empty() { "tracing".into() } else { target };
    name.replace(is_forbidden, "_")
}

/// A provider's name, kept for good.
pub(crate) fn kept_provider_name(name: String) -> &'static str {
    static ALL: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(&*name) {
        Some(same) => same,
        None => {
            let new: &'static str = leak(name);
            all.insert(new);
            new
        }
    }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// The name of a span or event, without what its part adds.
///
/// The macros name an event after its file and line (`event src/main.rs:55`) unless they are given
/// a name. That means nothing to who counts events by name, and changes with each edit. So the
/// name is the target then, as in the lines of `fmt`. Readers have the place in key-values. A span
/// whose name is empty has that of its target, too.
fn name(metadata: &Metadata<'static>) -> &'static str {
    let is_place = metadata.is_event() && metadata.name().starts_with("event ");
    let says_nothing = is_place || metadata.name().is_empty();
    match metadata.target() {
        target if says_nothing && !target.is_empty() => target,
        _ => metadata.name(),
    }
}

/// Makes the type of a callsite's events and registers it. If it is refused, sessions count its
/// events as lost.
///
/// The id that it wants is a hash of what identifies it, so it is the same in the next run.
pub(crate) fn registered(
    callsite: &Callsite,
    part: Part,
    signature: Signature,
) -> &'static EventType {
    let Callsite { metadata, provider, level, keywords, .. } = *callsite;
    let mut fields = part.own_fields().to_vec();
    for (index, field) in metadata.fields().iter().enumerate().take(MAX_FIELDS) {
        if let Some(kind) = Kind::of_field(signature, index) {
            fields.push(FieldSchema::new(field.name(), kind.field_type()));
        }
    }
    let name: &'static str = leak(name(metadata).to_owned() + part.suffix());
    let has_message = part == Part::Event && fields.iter().any(|field| field.name == "message");
    let mut hash = Hash::new();
    hash.add(provider.as_bytes());
    hash.add(name.as_bytes());
    hash.add(metadata.target().as_bytes());
    let file = metadata.file().map_or("", from_package);
    hash.add(file.as_bytes());
    hash.add(&metadata.line().unwrap_or_default().to_le_bytes());
    hash.add(metadata.level().as_str().as_bytes());
    for field in metadata.fields() {
        hash.add(field.name().as_bytes());
    }
    hash.add(&signature.to_le_bytes());
    hash.add(&[part as u8]);
    let place = Place {
        module: metadata.module_path().map_or("", own),
        file: own(file),
        line: metadata.line().unwrap_or_default(),
        column: 0,
    };
    let schema = EventSchema {
        provider: ProviderSchema { name: provider, guid: None, group: None },
        name,
        place,
        id: hash.id(),
        id_is_explicit: false,
        version: 0,
        level,
        keywords,
        opcode: part.opcode(),
        tag: 0,
        message: has_message.then_some("{message}"),
        description: None,
        key_values: key_values(metadata, place, part),
        fields: Box::leak(fields.into_boxed_slice()),
    };
    let schema: &'static EventSchema = Box::leak(Box::new(schema));
    let ty: &'static EventType = Box::leak(Box::new(EventType::new(schema)));
    // A refused type has its events counted. In a signal handler, the first event registers it.
    let _ = bridge::register(ty);
    if ty.id() != schema.id {
        stats::IDS_MOVED.add(1);
    }
    ty
}

/// What else is to be said of a type. Tracepoints have the place from here.
fn key_values(
    metadata: &Metadata<'_>,
    place: Place,
    part: Part,
) -> &'static [(&'static str, &'static str)] {
    let mut all = vec![("level", metadata.level().as_str()), ("target", own(metadata.target()))];
    let Place { module, file, line, .. } = place;
    all.extend((!module.is_empty()).then_some(("module", module)));
    all.extend((!file.is_empty()).then_some(("file", file)));
    all.extend((line != 0).then(|| ("line", leak(line.to_string()))));
    all.extend((part == Part::Late).then_some(keys::LATE));
    Box::leak(all.into_boxed_slice())
}

/// A file of a dependency from the folder of its package on: `hyper-util-0.1.17/src/lib.rs`. Cargo
/// has these folders below its own, which is the home of whoever has compiled the program.
fn from_package(file: &str) -> &str {
    let is_separator = |c| matches!(c, '/' | '\\');
    if !file.starts_with(is_separator) && !file.get(1..).is_some_and(|rest| rest.starts_with(':')) {
        return file; // a file of the workspace
    }
    let below = |folders: [&str; 2]| {
        let mut rest = file;
        while let Some((first, others)) = rest.split_once(is_separator) {
            rest = others;
            let second = others.split_once(is_separator);
            if let Some((_, within)) = second.filter(|(name, _)| [first, *name] == folders) {
                return Some(within);
            }
        }
        None
    };
    // In between is a folder for each registry.
    let of_registry = below(["registry", "src"]).and_then(|rest| rest.split_once(is_separator));
    let of_git = || below(["git", "checkouts"]);
    of_registry.map(|(_, package)| package).or_else(of_git).unwrap_or(file)
}

fn own(text: &str) -> &'static str {
    leak(text.to_owned())
}

/// FNV-1a.
struct Hash(u32);

impl Hash {
    fn new() -> Self {
        Self(0x811c_9dc5)
    }

    /// Adds a text and its end.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// In the range of ids that are derived: 8,192 to 65,534.
    fn id(&self) -> u16 {
        const FIRST: u32 = 8_192;
        (FIRST + (self.0 ^ self.0 >> 16) % (u32::from(u16::MAX) - FIRST)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::from_package;

    #[test]
    fn files_of_dependencies_begin_at_their_package() {
        for (file, short) in [
            (
                "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/hyper-util-0.1.17/src/\
                 client/legacy/pool.rs",
                "hyper-util-0.1.17/src/client/legacy/pool.rs",
            ),
            (
                r"C:\Users\me\.cargo\registry\src\index.crates.io-1949\h2-0.4.7\src\lib.rs",
                r"h2-0.4.7\src\lib.rs",
            ),
            (
                "/root/.cargo/git/checkouts/h2-4bc1a2d6b4c0f5a3/9a1f0c2/src/lib.rs",
                "h2-4bc1a2d6b4c0f5a3/9a1f0c2/src/lib.rs",
            ),
            ("src/registry/src/git/checkouts/a/b.rs", "src/registry/src/git/checkouts/a/b.rs"),
            ("/home/me/shop/src/main.rs", "/home/me/shop/src/main.rs"),
            ("/registry/src", "/registry/src"),
            ("/a/registry/src/index", "/a/registry/src/index"),
            ("é", "é"),
            ("", ""),
        ] {
            assert_eq!(from_package(file), short);
        }
    }
}
