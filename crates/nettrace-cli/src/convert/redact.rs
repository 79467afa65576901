//! `nettrace redact`: a trace without the values of some fields.
//!
//! [`nettrace_format::redact`] replaces the values, as for a session that must not have them. What
//! cannot be decoded is not copied.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::ValueHint;
use nettrace_format::{
    redact::{Redact, Redaction},
    spelling::nearest_field,
};
use nettrace_reader::{Field, Label, Metadata, Type};

use crate::{convert::omissions::is_unread, failure::Failure, suggestions};

/// What to leave out, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RedactOptions {
    /// Fields by their names, or by their paths through objects and lists: `customer,card.number`.
    /// The name of an event may precede: `Sold:customer`. A name also selects labels, key-values,
    /// entries of maps and tags of metrics with that key
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    fields: Vec<String>,
    /// Replace a value by a keyed hash instead: equal values have equal hashes
    #[arg(long)]
    hash: bool,
    /// A file with the key: 32 hexadecimal digits. Otherwise each run has a key of its own
    #[arg(long, value_name = "FILE", requires = "hash", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
}

/// What the options ask for.
pub(super) fn redaction(options: &RedactOptions) -> Result<Redaction, Failure> {
    let key = match (options.hash, &options.key_file) {
        (false, _) => [0; 2],
        (true, Some(path)) => read_key(path)?,
        (true, None) => {
            let mut key = [0; 16];
            getrandom::fill(&mut key).map_err(|error| {
                Failure::Redact(format!("there are no random numbers for a key: {error}"))
            })?;
            words(u128::from_le_bytes(key))
        }
    };
    let how = if options.hash { Redact::Hash } else { Redact::Mask };
    let names = options.fields.iter();
    Ok(names.fold(Redaction::new(key), |redaction, name| redaction.with(name, how)))
}

/// What nothing had the name of, and what is called nearly so.
pub(super) fn result(redaction: &Redaction, types: &[Metadata]) -> Result<(), Failure> {
    let mut unused = redaction.unused().peekable();
    if unused.peek().is_none() {
        return Ok(());
    }
    let mut known = BTreeSet::new();
    types.iter().for_each(|ty| add_names(&ty.fields, &mut known));
    let found = |name| nearest_field(name, known.iter().copied());
    let unused = unused.map(|name| format!("`{name}`{}", suggestions::hint(found(name))));
    let names = unused.collect::<Vec<_>>().join(", ");
    Err(Failure::Redact(format!("nothing in the trace is called {names}")))
}

/// Adds the names of fields, also of those within others.
fn add_names<'a>(fields: &'a [Field], names: &mut BTreeSet<&'a str>) {
    for field in fields {
        names.insert(&field.name);
        let mut ty = &field.ty;
        while let Some(element) = ty.element() {
            ty = element;
        }
        if let Type::Object(fields) = ty {
            add_names(fields, names);
        }
    }
}

/// Takes over a type.
pub(super) fn define(redaction: &mut Redaction, metadata: &Metadata) {
    let is_chosen = redaction.define(metadata.id, &metadata.name, &metadata.fields);
    // What is in these is not known, or not all of it.
    let is_unknown = metadata.fields.is_empty()
        || metadata.is_damaged
        || metadata.fields.iter().any(|field| is_unread(&field.ty));
    // What the trace does not describe is not taken apart.
    if is_unknown || (is_chosen && metadata.is_from_table) {
        redaction.refuse(metadata.id);
    }
}

/// A label, with another value if its key was named.
pub(super) fn label(redaction: &mut Redaction, label: Label) -> Label {
    match label {
        Label::Str(key, value) => {
            let value = redaction.text(&key, &value).into_owned();
            Label::Str(key, value)
        }
        Label::Int(key, value) => {
            let value = redaction.number(&key, value);
            Label::Int(key, value)
        }
        label => label,
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
