//! `nettrace redact`: a trace without the values of some fields.
//!
//! A value is replaced where it stands: a text by `***` or by a hash, any other by zeros or an
//! empty array. Types, numbers and times stay the same, so everything else can be done with the
//! result. The fields of a type are found by their paths. What cannot be decoded is not copied.

mod payload;

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::Hasher,
    path::{Path, PathBuf},
};

use clap::ValueHint;
use nettrace_format::payload::Refusal;
use nettrace_reader::{Field, Label, Metadata, Type};

use self::payload::Again;
use crate::{convert::omissions::is_unread, failure::Failure};

/// What to leave out, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RedactOptions {
    /// Fields by their names, or by their paths through objects and lists: `customer,card.number`.
    /// The name of an event may precede: `Sold:customer`. A name also selects labels and key-values
    /// with that key
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    fields: Vec<String>,
    /// Replace a value by a keyed hash instead: equal values have equal hashes
    #[arg(long)]
    hash: bool,
    /// A file with the key: 32 hexadecimal digits. Otherwise each run has a key of its own
    #[arg(long, value_name = "FILE", requires = "hash", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
}

/// Replaces the values of chosen fields.
#[derive(Debug)]
pub(super) struct Redaction {
    names: Vec<Name>,
    /// The key of hashes, if there are some.
    key: Option<[u64; 2]>,
    /// The types with chosen fields, by metadata id. `None`: their events are left out.
    types: HashMap<u32, Option<Vec<Chosen>>>,
}

/// A name that was given, and whether something has it.
#[derive(Debug)]
struct Name {
    given: String,
    event: Option<String>,
    path: String,
    is_used: bool,
}

/// By how many paths a field can be named.
const MOST_PATHS: usize = 16;

/// What happens to a field.
#[derive(Clone, Debug)]
struct Chosen {
    ty: Type,
    fate: Fate,
}

#[derive(Clone, Debug)]
enum Fate {
    Stays,
    /// Some fields of the object, or of the objects in the array.
    Parts(Vec<Chosen>),
    Goes,
}

impl Redaction {
    pub(super) fn new(options: &RedactOptions) -> Result<Self, Failure> {
        let name = |given: &String| {
            let (event, path) = match given.split_once(':') {
                Some((event, path)) => (Some(event.to_owned()), path),
                None => (None, given.as_str()),
            };
            Name { given: given.clone(), event, path: path.to_owned(), is_used: false }
        };
        let key = match (options.hash, &options.key_file) {
            (false, _) => None,
            (true, Some(path)) => Some(read_key(path)?),
            (true, None) => {
                let mut key = [0; 16];
                getrandom::fill(&mut key).map_err(|error| {
                    Failure::Redact(format!("there are no random numbers for a key: {error}"))
                })?;
                Some(words(u128::from_le_bytes(key)))
            }
        };
        let names = options.fields.iter().map(name).collect();
        Ok(Self { names, key, types: HashMap::new() })
    }

    /// What nothing had the name of.
    pub(super) fn result(&self) -> Result<(), Failure> {
        let unused = self.names.iter().filter(|name| !name.is_used);
        let unused: Vec<_> = unused.map(|name| format!("`{}`", name.given)).collect();
        match unused.is_empty() {
            true => Ok(()),
            false => Err(Failure::Redact(format!(
                "nothing in the trace is called {}",
                unused.join(", ")
            ))),
        }
    }

    /// Takes over a type.
    pub(super) fn define(&mut self, metadata: &Metadata) {
        let chosen = self.fields(&metadata.name, &[String::new()], &metadata.fields);
        // What is in these is not known, or not all of it.
        let is_unknown = metadata.fields.is_empty()
            || metadata.is_damaged
            || metadata.fields.iter().any(|field| is_unread(&field.ty));
        if is_unknown {
            self.types.insert(metadata.id, None);
        } else if chosen.iter().all(|field| matches!(field.fate, Fate::Stays)) {
            self.types.remove(&metadata.id);
        } else {
            // What the trace does not describe is not taken apart.
            let chosen = (!metadata.is_from_table).then_some(chosen);
            self.types.insert(metadata.id, chosen);
        }
    }

    /// `prefixes` are the paths by which these fields can be named.
    fn fields(&mut self, event: &str, prefixes: &[String], fields: &[Field]) -> Vec<Chosen> {
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let paths = prefixes.iter().map(|prefix| format!("{prefix}{}", field.name));
            let paths: Vec<_> = paths.collect();
            let mut is_named = false;
            for path in &paths {
                is_named |= self.names(Some(event), path, &field.name);
            }
            let mut within: Vec<_> = paths.into_iter().map(|path| path + ".").collect();
            if is_wrapper(fields) {
                // The author of the type does not know of it.
                within.splice(..0, prefixes.iter().cloned());
                while within.len() > MOST_PATHS {
                    // The first has no wrapper's name, and the last has all.
                    within.remove(MOST_PATHS / 2);
                }
            }
            let parts = objects(&field.ty).unwrap_or_default();
            let parts = self.fields(event, &within, parts);
            let is_whole = parts.iter().all(|part| matches!(part.fate, Fate::Stays));
            let fate = match &field.ty {
                _ if is_named => Fate::Goes,
                _ if is_whole => Fate::Stays,
                Type::RelLoc(_) | Type::DataLoc(_) => Fate::Goes,
                _ => Fate::Parts(parts),
            };
            all.push(Chosen { ty: field.ty.clone(), fate });
        }
        all
    }

    /// Whether one of the names is that of a field. Without an event: of something else.
    fn names(&mut self, event: Option<&str>, path: &str, name: &str) -> bool {
        let mut is_named = false;
        for known in &mut self.names {
            let is_here = known.event.is_none() || known.event.as_deref() == event;
            if is_here && (known.path == path || known.path == name) {
                (known.is_used, is_named) = (true, true);
            }
        }
        is_named
    }

    /// Whether the process is not to be told.
    pub(super) fn hides_process(&mut self) -> bool {
        self.names(None, "ProcessId", "ProcessId")
    }

    /// A label, with another value if its key was named.
    pub(super) fn label(&mut self, label: &Label) -> Label {
        match label {
            Label::Text(key, value) => {
                Label::Text(key.clone(), self.value(key, value).into_owned())
            }
            Label::Number(key, value) if self.names(None, key, key) => {
                Label::Number(key.clone(), self.hash_of_number((*value).into()) as i64)
            }
            label => label.clone(),
        }
    }

    /// The value of a key-value, or another one if its key was named.
    pub(super) fn value<'a>(&mut self, key: &str, value: &'a str) -> Cow<'a, str> {
        match self.names(None, key, key) {
            true => self.replaced_text(value).into(),
            false => value.into(),
        }
    }

    /// Equal texts have equal hashes, however they are encoded.
    fn replaced_text(&self, value: &str) -> String {
        match self.hash(value.as_bytes()) {
            None => "***".to_owned(),
            Some(hash) => format!("{hash:016x}"),
        }
    }

    #[allow(deprecated, reason = "for maps, whose function must not be fixed; this is SipHash-2-4")]
    fn hash(&self, bytes: &[u8]) -> Option<u64> {
        let [first, second] = self.key?;
        let mut hasher = std::hash::SipHasher::new_with_keys(first, second);
        hasher.write(bytes);
        Some(hasher.finish())
    }

    /// Equal integers have equal hashes, whatever their size. 0 if values are masked.
    fn hash_of_number(&self, number: i128) -> u64 {
        self.hash(&number.to_le_bytes()).unwrap_or(0)
    }

    /// The payload of an event of this type without the values of its chosen fields; `None` if it
    /// has none.
    ///
    /// # Errors
    /// It cannot be decoded, or becomes too large.
    pub(super) fn payload(&self, id: u32, payload: &[u8]) -> Option<Result<Vec<u8>, Refusal>> {
        let Some(fields) = self.types.get(&id)? else {
            return (!payload.is_empty()).then_some(Err(Refusal::Malformed));
        };
        let again = |date| Again::new(self, payload, date).fields(fields);
        // Dates have eight bytes, or sixteen if only that fits, as the reader takes them. Bytes
        // behind the last field are not copied.
        let short = again(8);
        let is_short = matches!(short, Ok((true, _)));
        if !is_short && fields.iter().any(|field| has_dates(&field.ty)) {
            if let Ok((true, long)) = again(16) {
                return Some(Ok(long));
            }
        }
        Some(short.map(|(_, payload)| payload))
    }
}

fn words(key: u128) -> [u64; 2] {
    [key as u64, (key >> 64) as u64]
}

fn read_key(path: &Path) -> Result<[u64; 2], Failure> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::Open(name(), error))?;
    let text = text.trim();
    let is_key = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = u128::from_str_radix(text, 16).ok().filter(|_| is_key);
    let key = key.ok_or_else(|| {
        Failure::Redact(format!("{} has no key: it should be 32 hexadecimal digits", name()))
    })?;
    Ok(words(key))
}

/// The fields of an object, or of the objects in an array.
fn objects(ty: &Type) -> Option<&[Field]> {
    match ty {
        Type::Object(fields) => Some(fields),
        Type::Array(element)
        | Type::FixedArray(element, _)
        | Type::RelLoc(element)
        | Type::DataLoc(element) => objects(element),
        _ => None,
    }
}

/// Whether an object stands for an array within another, which version 6 does not have.
fn is_wrapper(fields: &[Field]) -> bool {
    let [Field { name, ty, .. }] = fields else { return false };
    let is_array = matches!(ty, Type::Array(_) | Type::FixedArray(..));
    is_array && matches!(name.as_str(), "items" | "value")
}

fn has_dates(ty: &Type) -> bool {
    match ty {
        Type::DateTime => true,
        Type::Object(fields) => fields.iter().any(|field| has_dates(&field.ty)),
        Type::Array(element) | Type::FixedArray(element, _) => has_dates(element),
        _ => false,
    }
}
