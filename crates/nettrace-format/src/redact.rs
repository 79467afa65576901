//! Traces without the values of some fields.
//!
//! A [`Redaction`] has names, and replaces the values of the fields, labels and key-values that
//! have them: a text by `***` or a hash, any other value by zeros, an empty array or a part of a
//! hash. Types, numbers and times stay the same. A
//! [`Transcoder`](crate::Transcoder::redacted) does this for a stream.
//!
//! A name is that of a field, or its path through objects and lists: `customer`, `card.number`. The
//! name of an event, or of a span, may precede it: `Sold:customer`. The text that is a key of a
//! map, or of a tag of a metric, is a name, too: `authorization`, `headers.authorization`.
//!
//! ```
//! use nettrace_format::{
//!     Field, Type,
//!     payload::Refusal,
//!     redact::{Redact, Redaction},
//! };
//!
//! let text = Type::Array(Box::new(Type::Utf8CodeUnit));
//! let fields = [Field::new("cents", Type::UInt8), Field::new("customer", text)];
//! let mut redaction = Redaction::new([1, 2]).with("customer", Redact::Mask);
//! assert!(redaction.define(7, "Sold", &fields));
//!
//! let redacted = redaction.payload(7, b"\x05\x03\0Ada");
//! assert_eq!(redacted, Some(Ok(b"\x05\x03\0***".to_vec())));
//! // What cannot be taken apart is refused.
//! assert_eq!(redaction.payload(7, b"\x05\xFF\0Ada"), Some(Err(Refusal::Malformed)));
//! // Nothing is known of this type, and nothing has to be replaced.
//! assert_eq!(redaction.payload(8, b"Ada"), None);
//! ```

mod keys;
mod payload;
mod stream;

use alloc::{
    borrow::{Cow, ToOwned as _},
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::{fmt, hash::Hasher as _, str::FromStr};

use nettrace_event::role;

use self::{keys::Keys, payload::PayloadRedaction};
use crate::{
    payload::Refusal,
    schema::{Field, Type},
};

/// By how many paths a field can be named.
const MOST_PATHS: usize = 16;

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redact {
    /// A text becomes `***`, a number 0, an array empty.
    Mask,
    /// A text becomes 16 digits of a keyed hash, and an integer of 16 bits and more, or a GUID, a
    /// part of one: equal values have equal hashes. Whatever else has so few values that they could
    /// be guessed, and becomes 0.
    Hash,
    /// Nothing: an exception from an earlier name.
    Keep,
}

impl FromStr for Redact {
    type Err = ();

    /// `mask`, `hash` or `keep`.
    fn from_str(name: &str) -> Result<Self, ()> {
        Ok(match name {
            "mask" => Self::Mask,
            "hash" => Self::Hash,
            "keep" => Self::Keep,
            _ => return Err(()),
        })
    }
}

/// Replaces the values that have chosen names.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct Redaction {
    names: Vec<Name>,
    key: [u64; 2],
    /// The types with chosen fields, by metadata id. `None`: their events are refused.
    types: BTreeMap<u32, Option<Vec<Chosen>>>,
}

/// A name that was given, and whether something has it.
#[derive(Clone, Debug)]
struct Name {
    given: String,
    how: Redact,
    is_used: bool,
}

impl Name {
    /// Whether it is this path, or that in the event. Either can have colons.
    fn fits(&self, event: Option<&str>, path: &str) -> bool {
        self.given == path
            || event.is_some_and(|event| {
                let before = self.given.strip_suffix(path).and_then(|rest| rest.strip_suffix(':'));
                let rest = before.and_then(|before| event.strip_prefix(before));
                // The events of a span can be named by the span.
                rest.is_some_and(|rest| role::SUFFIXES.contains(&rest))
            })
    }
}

/// What happens to a field.
#[derive(Clone, Debug)]
struct Chosen {
    /// Without the names of fields.
    ty: Type,
    fate: Fate,
}

#[derive(Clone, Debug)]
enum Fate {
    Stays,
    /// Some fields of the object, or of the objects in the array.
    Parts(Vec<Chosen>),
    /// The value of a map's entry: the key before it decides. If it stays, this.
    OfKey(Keys, Box<Fate>),
    /// Some values in a text of tags, each behind its key and this.
    Tags(Keys, char),
    /// All of it. If it stayed, this: whose names are in it shows only there.
    Goes(Values, Box<Fate>),
}

impl Redaction {
    /// Replaces nothing yet. `key` is that of hashes.
    #[must_use]
    pub fn new(key: [u64; 2]) -> Self {
        Self { names: Vec::new(), key, types: BTreeMap::new() }
    }

    /// Adds a name. Of several that fit a field, the last decides.
    #[must_use]
    pub fn with(mut self, name: &str, how: Redact) -> Self {
        self.names.push(Name { given: name.to_owned(), how, is_used: false });
        self
    }

    /// The names that nothing had so far. What is within a field that goes as a whole has its name
    /// all the same.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|name| !name.is_used).map(|name| &*name.given)
    }

    /// Takes over a type, by the id that its events have. Returns whether values of it may be
    /// replaced.
    pub fn define(&mut self, id: u32, event: &str, fields: &[Field]) -> bool {
        let chosen = self.fields(event, &[String::new()], fields, false);
        let is_chosen = chosen.iter().any(|field| !matches!(field.fate, Fate::Stays));
        match is_chosen {
            true => self.types.insert(id, Some(chosen)),
            false => self.types.remove(&id),
        };
        is_chosen
    }

    /// Takes over a type of which it is not known what its payloads are: they are refused.
    pub fn refuse(&mut self, id: u32) {
        self.types.insert(id, None);
    }

    /// `prefixes` are the paths by which these fields can be named. `is_element`: they are those of
    /// an object in an array.
    fn fields(
        &mut self,
        event: &str,
        prefixes: &[String],
        fields: &[Field],
        is_element: bool,
    ) -> Vec<Chosen> {
        let is_entry = is_element && keys::is_entry(fields);
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let paths = prefixes.iter().map(|prefix| format!("{prefix}{}", field.name));
            let paths: Vec<_> = paths.collect();
            let how = self.of(Some(event), &paths, &field.name);
            // A field without a name adds nothing to a path.
            let dot = if field.name.is_empty() { "" } else { "." };
            let mut within: Vec<_> = paths.iter().map(|path| format!("{path}{dot}")).collect();
            if is_wrapper(fields) {
                // The author of the type does not know of it.
                within.splice(..0, prefixes.iter().cloned());
                while within.len() > MOST_PATHS {
                    // The first has no wrapper's name, and the last has all.
                    within.remove(MOST_PATHS / 2);
                }
            }
            let parts = objects(&field.ty).unwrap_or_default();
            let is_object = matches!(field.ty, Type::Object(_));
            let parts = self.fields(event, &within, parts, !is_object);
            let is_whole = parts.iter().all(|part| matches!(part.fate, Fate::Stays));
            let kept = match &field.ty {
                _ if is_whole => match keys::separator(event, field) {
                    Some(separator) => Fate::Tags(self.keys(event, &within, &[]), separator),
                    None => Fate::Stays,
                },
                // All of the data: parts of it may be parts of others.
                Type::RelLoc(_) | Type::DataLoc(_) => Fate::Goes(MASK, Box::new(Fate::Stays)),
                _ => Fate::Parts(parts),
            };
            let fate = match self.values(how) {
                _ if is_entry && field.name == "Value" => {
                    let whole = [&paths[..], core::slice::from_ref(&field.name)].concat();
                    Fate::OfKey(self.keys(event, prefixes, &whole), Box::new(kept))
                }
                Some(values) => Fate::Goes(values, Box::new(kept)),
                None => kept,
            };
            if let Fate::Goes(..) = fate {
                self.cover(event, &paths);
            }
            all.push(Chosen { ty: nameless(&field.ty), fate });
        }
        all
    }

    /// What becomes of what has one of these names. Without an event: of something else than a
    /// field.
    fn of(&mut self, event: Option<&str>, paths: &[String], name: &str) -> Redact {
        let mut how = Redact::Keep;
        for known in &mut self.names {
            if known.fits(event, name) || paths.iter().any(|path| known.fits(event, path)) {
                (known.is_used, how) = (true, known.how);
            }
        }
        how
    }

    /// Notes the names that lead into a field with these paths, which goes as a whole. The key of a
    /// map that no event has is no mistake there.
    fn cover(&mut self, event: &str, paths: &[String]) {
        for name in &mut self.names {
            let is_within = |named: &str| {
                let mut within = paths.iter().filter_map(|path| named.strip_prefix(&**path));
                within.any(|rest| rest.starts_with('.'))
            };
            name.is_used = name.is_used || name.paths(event).any(is_within);
        }
    }

    fn values(&self, how: Redact) -> Option<Values> {
        match how {
            Redact::Keep => None,
            Redact::Mask => Some(MASK),
            Redact::Hash => Some(Values { key: Some(self.key) }),
        }
    }

    /// Whether the value of this key, of a label or a key-value, is to be replaced.
    pub fn hides(&mut self, key: &str) -> bool {
        self.of(None, &[], key) != Redact::Keep
    }

    /// What a text with this key becomes, in a label or a key-value.
    pub fn text<'a>(&mut self, key: &str, value: &'a str) -> Cow<'a, str> {
        let how = self.of(None, &[], key);
        self.values(how).map_or(value.into(), |values| values.text(value).into())
    }

    /// What a number with this key becomes, in a label.
    pub fn number(&mut self, key: &str, value: i64) -> i64 {
        let how = self.of(None, &[], key);
        self.values(how).map_or(value, |values| values.number(value.into()) as i64)
    }

    /// The payload of an event of this type without the values of its chosen fields; `None` if it
    /// has none.
    ///
    /// # Errors
    /// It cannot be decoded, or becomes too large. Or it has dates, and fits its type as well with
    /// those of eight bytes as with those of sixteen: it is not known where a value begins.
    #[must_use]
    pub fn payload(&mut self, id: u32, payload: &[u8]) -> Option<Result<Vec<u8>, Refusal>> {
        let Some(fields) = self.types.get(&id)? else {
            return (!payload.is_empty()).then_some(Err(Refusal::Malformed));
        };
        let mut used = Vec::new();
        let again = self::again(payload, fields, &mut used);
        used.into_iter().for_each(|name| self.names[name].is_used = true);
        Some(again)
    }
}

fn again(payload: &[u8], fields: &[Chosen], used: &mut Vec<usize>) -> Result<Vec<u8>, Refusal> {
    let mut again = |date| PayloadRedaction::new(payload, date, used).fields(fields);
    // Bytes behind the last field are not copied.
    let short = again(8);
    if !fields.iter().any(|field| has_dates(&field.ty)) {
        return short.map(|taken| taken.payload);
    }
    // Dates have eight bytes, or sixteen if only that fits, as readers take them. If both can be,
    // what is a secret in one is another field in the other. Of those that fit both, few of eight
    // bytes are a time in sixteen: they are of the years up to 1709.
    match (short, again(16)) {
        (Ok(short), Ok(long)) if short.is_whole => match long.is_whole && long.has_times {
            true => Err(Refusal::Malformed),
            false => Ok(short.payload),
        },
        (Ok(_), Ok(long)) if !long.is_whole => Err(Refusal::Malformed),
        (_, Ok(long)) => Ok(long.payload),
        (short, Err(_)) => short.map(|taken| taken.payload),
    }
}

/// What replaces values.
#[derive(Clone, Copy, Debug)]
struct Values {
    /// The key of hashes. `None`: values are masked.
    key: Option<[u64; 2]>,
}

const MASK: Values = Values { key: None };

impl Values {
    /// Equal texts have equal hashes, however they are encoded: that of a
    /// [secret](nettrace_event::secret) too, if it has this key.
    fn text(self, value: impl fmt::Display) -> String {
        if self.key.is_none() {
            return "***".to_owned();
        }
        let hash = self.hash(&[value.to_string().as_bytes(), &[0xff]]);
        format!("{:016x}", hash.unwrap_or_default())
    }

    #[allow(deprecated, reason = "for maps, whose function must not be fixed; this is SipHash-2-4")]
    fn hash(self, parts: &[&[u8]]) -> Option<u64> {
        let [first, second] = self.key?;
        let mut hasher = core::hash::SipHasher::new_with_keys(first, second);
        parts.iter().for_each(|part| hasher.write(part));
        Some(hasher.finish())
    }

    /// Equal integers have equal hashes, whatever their size. 0 if values are masked.
    fn number(self, number: i128) -> u64 {
        self.hash(&[&number.to_le_bytes()]).unwrap_or(0)
    }
}

/// The fields of an object, or of the objects in an array.
fn objects(ty: &Type) -> Option<&[Field]> {
    match ty {
        Type::Object(fields) => Some(fields),
        _ => objects(ty.element()?),
    }
}

/// Whether an object stands for an array within another, which version 6 does not have.
fn is_wrapper(fields: &[Field]) -> bool {
    let [Field { name, ty }] = fields else { return false };
    let is_array = matches!(ty, Type::Array(_) | Type::FixedArray(..));
    is_array && matches!(&**name, "items" | "value")
}

fn has_dates(ty: &Type) -> bool {
    match ty {
        Type::RelLoc(_) | Type::DataLoc(_) => false,
        Type::DateTime => true,
        Type::Object(fields) => fields.iter().any(|field| has_dates(&field.ty)),
        _ => ty.element().is_some_and(has_dates),
    }
}

fn nameless(ty: &Type) -> Type {
    let boxed = |ty: &Type| Box::new(nameless(ty));
    match ty {
        Type::Object(fields) => {
            Type::Object(fields.iter().map(|field| Field::new("", nameless(&field.ty))).collect())
        }
        Type::Array(element) => Type::Array(boxed(element)),
        Type::FixedArray(element, count) => Type::FixedArray(boxed(element), *count),
        Type::CountedArray(element, field) => Type::CountedArray(boxed(element), *field),
        Type::RelLoc(element) => Type::RelLoc(boxed(element)),
        Type::DataLoc(element) => Type::DataLoc(boxed(element)),
        plain => plain.clone(),
    }
}
