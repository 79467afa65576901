//! `nettrace redact`: a trace without the values of some fields.
//!
//! A value is replaced where it stands: a text by `***` or by a hash, any other by zeros or an
//! empty array. Types, numbers and times stay the same, so everything else can be done with the
//! result. The fields of a type are found by their paths. What cannot be decoded is not copied.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
    hash::Hasher,
    path::{Path, PathBuf},
};

use clap::ValueHint;
use nettrace_format::payload::{MAX_PAYLOAD, Refusal};
use nettrace_reader::{Field, Label, Metadata, Type};

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
            Some(hash) => {
                let mut digits = String::new();
                let _ = write!(digits, "{hash:016x}");
                digits
            }
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
        let again = |date| {
            let mut again = Again::new(self, payload, date);
            let mut is_whole = true;
            for field in fields {
                // An older version of the type has fewer fields.
                if again.rest.is_empty() {
                    is_whole = false;
                    break;
                }
                again.field(field)?;
            }
            let used = (payload.len() - again.rest.len()).max(again.used);
            Ok((is_whole && used == payload.len(), again.finish()?))
        };
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

/// A payload that is made again.
struct Again<'a> {
    redaction: &'a Redaction,
    payload: &'a [u8],
    /// The bytes that come next.
    rest: &'a [u8],
    /// The size of a date.
    date: usize,
    out: Vec<u8>,
    located: Vec<Located>,
    /// Where the last located data of the payload ends.
    used: usize,
    /// The size of all located data so far.
    located_bytes: usize,
    /// How many more elements of arrays there may be. Some take no bytes.
    budget: usize,
}

/// A RelLoc or DataLoc.
struct Located {
    /// Where it is in the result.
    at: usize,
    is_relative: bool,
    data: Vec<u8>,
}

impl<'a> Again<'a> {
    fn new(redaction: &'a Redaction, payload: &'a [u8], date: usize) -> Self {
        let (out, located) = (Vec::with_capacity(payload.len()), Vec::new());
        let budget = payload.len() * 8 + 1_024;
        Self {
            redaction,
            payload,
            rest: payload,
            date,
            out,
            located,
            used: 0,
            located_bytes: 0,
            budget,
        }
    }

    fn field(&mut self, field: &Chosen) -> Result<(), Refusal> {
        match &field.fate {
            Fate::Stays => self.copied(&field.ty),
            Fate::Goes => self.replaced(&field.ty),
            Fate::Parts(parts) => self.parts(&field.ty, parts),
        }
    }

    /// An object, or an array of objects, of which parts go.
    fn parts(&mut self, ty: &Type, parts: &[Chosen]) -> Result<(), Refusal> {
        match ty {
            Type::Object(_) => parts.iter().try_for_each(|part| self.field(part)),
            Type::Array(element) => {
                let count = self.count()?;
                self.parts_of_elements(element, count, parts)
            }
            Type::FixedArray(element, count) => self.parts_of_elements(element, *count, parts),
            _ => Err(Refusal::Malformed),
        }
    }

    fn parts_of_elements(
        &mut self,
        element: &Type,
        count: u16,
        parts: &[Chosen],
    ) -> Result<(), Refusal> {
        if element.fixed_size() == Some(0) {
            return Ok(());
        }
        (0..count).try_for_each(|_| {
            self.spend()?;
            self.parts(element, parts)
        })
    }

    fn copied(&mut self, ty: &Type) -> Result<(), Refusal> {
        let bytes = self.skip(ty)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Passes over a value. Returns its bytes. Data that is located elsewhere is copied.
    fn skip(&mut self, ty: &Type) -> Result<&'a [u8], Refusal> {
        let start = self.rest;
        let out = self.out.len();
        self.pass(ty, out, start)?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// `out` is where the bytes from `start` on will be.
    fn pass(&mut self, ty: &Type, out: usize, start: &'a [u8]) -> Result<(), Refusal> {
        match ty {
            Type::DateTime => _ = self.take(self.date)?,
            Type::Object(fields) => {
                fields.iter().try_for_each(|field| self.pass(&field.ty, out, start))?;
            }
            Type::Array(element) => {
                let count = self.take(2)?;
                let count = u16::from_le_bytes([count[0], count[1]]);
                self.pass_elements(element, count, out, start)?;
            }
            Type::FixedArray(element, count) => {
                self.pass_elements(element, *count, out, start)?;
            }
            Type::RelLoc(_) | Type::DataLoc(_) => {
                let is_relative = matches!(ty, Type::RelLoc(_));
                let at = out + (start.len() - self.rest.len());
                let data = self.located(is_relative)?.to_vec();
                self.located.push(Located { at, is_relative, data });
            }
            Type::Utf16String => {
                let units = self.rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                self.take(2 * (units.ok_or(Refusal::Malformed)? + 1))?;
            }
            Type::VarInt | Type::VarUInt => {
                let last = self.rest.iter().position(|byte| byte & 0x80 == 0);
                self.take(last.ok_or(Refusal::Malformed)? + 1)?;
            }
            other => _ = self.take(other.fixed_size().ok_or(Refusal::Malformed)? as usize)?,
        }
        Ok(())
    }

    fn pass_elements(
        &mut self,
        element: &Type,
        count: u16,
        out: usize,
        start: &'a [u8],
    ) -> Result<(), Refusal> {
        if element.fixed_size() == Some(0) {
            return Ok(());
        }
        (0..count).try_for_each(|_| {
            self.spend()?;
            self.pass(element, out, start)
        })
    }

    /// The data of a location.
    fn located(&mut self, is_relative: bool) -> Result<&'a [u8], Refusal> {
        let word = self.take(4)?;
        let behind = self.payload.len() - self.rest.len();
        let position = usize::from(u16::from_le_bytes([word[0], word[1]]));
        let size = usize::from(u16::from_le_bytes([word[2], word[3]]));
        let start = if is_relative { behind + position } else { position };
        self.used = self.used.max(start + size);
        // Locations may overlap. What they all have together is copied.
        self.located_bytes += size;
        if self.located_bytes > MAX_PAYLOAD {
            return Err(Refusal::PayloadTooLarge);
        }
        let data = self.payload.get(start..).and_then(|rest| rest.get(..size));
        data.ok_or(Refusal::Malformed)
    }

    /// Puts something else in the place of a value.
    fn replaced(&mut self, ty: &Type) -> Result<(), Refusal> {
        match ty {
            Type::Object(fields) => {
                return fields.iter().try_for_each(|field| self.replaced(&field.ty));
            }
            Type::FixedArray(element, count) => {
                if element.fixed_size() == Some(0) {
                    return Ok(());
                }
                return self.replaced_elements(element, *count);
            }
            // Of a hash, that each element is there is of use: an option has one.
            Type::Array(element) if !is_unit(element) && self.redaction.key.is_some() => {
                let count = self.count()?;
                if element.fixed_size() == Some(0) {
                    return Ok(());
                }
                return self.replaced_elements(element, count);
            }
            Type::RelLoc(element) | Type::DataLoc(element) => {
                let (at, is_relative) = (self.out.len(), matches!(ty, Type::RelLoc(_)));
                let value = self.located(is_relative)?;
                let data = match is_unit(element) {
                    true => self.units(element, value),
                    false => Vec::new(),
                };
                self.out.extend_from_slice(&[0; 4]);
                self.located.push(Located { at, is_relative, data });
                return Ok(());
            }
            _ => {}
        }
        let located = self.located.len();
        let value = self.skip(ty)?;
        self.located.truncate(located);
        let hash = || self.redaction.hash_of_number(number(ty, value).unwrap_or_default());
        match ty {
            Type::Array(element) if is_unit(element) => {
                let units = self.units(element, &value[2..]);
                let count = units.len() / unit_size(element);
                self.out.extend_from_slice(&(count as u16).to_le_bytes());
                self.out.extend_from_slice(&units);
            }
            Type::Array(_) => self.out.extend_from_slice(&[0; 2]),
            Type::Utf16String => {
                let units = self.units(&Type::Utf16CodeUnit, &value[..value.len() - 2]);
                self.out.extend_from_slice(&units);
                self.out.extend_from_slice(&[0; 2]);
            }
            Type::VarInt | Type::VarUInt => {
                let mut number = hash();
                while number >= 0x80 {
                    self.out.push(number as u8 | 0x80);
                    number >>= 7;
                }
                self.out.push(number as u8);
            }
            Type::Int16
            | Type::UInt16
            | Type::Int32
            | Type::UInt32
            | Type::Int64
            | Type::UInt64 => self.out.extend_from_slice(&hash().to_le_bytes()[..value.len()]),
            Type::Guid => {
                let hash = self.redaction.hash(value).unwrap_or(0).to_le_bytes();
                self.out.extend_from_slice([hash, hash].as_flattened());
            }
            // So few values could be told from each other by their hashes.
            _ => self.out.resize(self.out.len() + value.len(), 0),
        }
        Ok(())
    }

    fn replaced_elements(&mut self, element: &Type, count: u16) -> Result<(), Refusal> {
        (0..count).try_for_each(|_| {
            self.spend()?;
            self.replaced(element)
        })
    }

    fn spend(&mut self) -> Result<(), Refusal> {
        self.budget = self.budget.checked_sub(1).ok_or(Refusal::Malformed)?;
        Ok(())
    }

    /// The code units that replace those of a text.
    fn units(&self, unit: &Type, value: &[u8]) -> Vec<u8> {
        let value: Cow<'_, str> = match unit_size(unit) {
            1 => String::from_utf8_lossy(value),
            _ => {
                let units = value.chunks_exact(2);
                let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
                let text = char::decode_utf16(units).map(|it| it.unwrap_or('\u{fffd}'));
                text.collect::<String>().into()
            }
        };
        let text = self.redaction.replaced_text(&value);
        match unit_size(unit) {
            1 => text.into_bytes(),
            _ => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        }
    }

    /// Copies the count of an array.
    fn count(&mut self) -> Result<u16, Refusal> {
        let count = self.take(2)?;
        self.out.extend_from_slice(count);
        Ok(u16::from_le_bytes([count[0], count[1]]))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Appends the data of all locations.
    fn finish(mut self) -> Result<Vec<u8>, Refusal> {
        for Located { at, is_relative, data } in &self.located {
            let origin = if *is_relative { at + 4 } else { 0 };
            let position = u16::try_from(self.out.len() - origin);
            let position = position.map_err(|_| Refusal::PayloadTooLarge)?;
            let size = u16::try_from(data.len()).map_err(|_| Refusal::PayloadTooLarge)?;
            self.out[*at..at + 2].copy_from_slice(&position.to_le_bytes());
            self.out[at + 2..at + 4].copy_from_slice(&size.to_le_bytes());
            self.out.extend_from_slice(data);
        }
        match self.out.len() > MAX_PAYLOAD {
            true => Err(Refusal::PayloadTooLarge),
            false => Ok(self.out),
        }
    }
}

/// The integer with these bytes.
fn number(ty: &Type, bytes: &[u8]) -> Option<i128> {
    let unsigned = |bytes: &[u8]| {
        bytes.iter().rev().fold(0_u128, |number, byte| number << 8 | u128::from(*byte)) as i128
    };
    let bits = 8 * bytes.len() as u32;
    Some(match ty {
        Type::UInt16 | Type::UInt32 | Type::UInt64 => unsigned(bytes),
        Type::Int16 | Type::Int32 | Type::Int64 => unsigned(bytes) << (128 - bits) >> (128 - bits),
        Type::VarUInt | Type::VarInt => {
            let seven = |number: u128, byte: &u8| number << 7 | u128::from(byte & 0x7F);
            let number = bytes.iter().rev().fold(0, seven) as i128;
            match ty {
                Type::VarInt => number >> 1 ^ -(number & 1),
                _ => number,
            }
        }
        _ => return None,
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Utf16CodeUnit | Type::Utf8CodeUnit)
}

fn unit_size(ty: &Type) -> usize {
    if matches!(ty, Type::Utf8CodeUnit) { 1 } else { 2 }
}
