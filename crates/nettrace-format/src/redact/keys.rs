//! Values that have keys of their own: those of maps, and of tags within a text.

use alloc::{borrow::ToOwned as _, string::String, vec::Vec};
use core::iter;

use nettrace_event::role;

use super::{Name, Redaction, Values, payload::is_text};
use crate::schema::Field;

/// Which keys were named, in the order of the names.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    /// `None`: all of them.
    key: Option<String>,
    /// The number of the name.
    name: usize,
    /// `None`: an exception from an earlier name.
    values: Option<Values>,
}

impl Keys {
    /// What becomes of the value of a key: the last name decides. Notes all names that fit.
    pub(super) fn of(&self, key: &str, used: &mut Vec<usize>) -> Option<Values> {
        self.spelled(&[key], used)
    }

    /// As [`of`](Self::of), for the key of a tag. Within a key, our writer of metrics writes what
    /// separates tags and their parts in another way; an application, or another writer, may have
    /// a key that looks so. Either spelling names it.
    fn of_tag(&self, key: &str, used: &mut Vec<usize>) -> Option<Values> {
        let as_given = key.replace("%2C", ",").replace("%3D", "=").replace("%3A", ":");
        self.spelled(&[key, &as_given], used)
    }

    fn spelled(&self, spellings: &[&str], used: &mut Vec<usize>) -> Option<Values> {
        let mut values = None;
        for known in &self.0 {
            if known.key.as_ref().is_none_or(|known| spellings.contains(&&**known)) {
                used.push(known.name);
                values = known.values;
            }
        }
        values
    }

    /// A text of tags, `KEY=VALUE,…`, with other values.
    ///
    /// Nothing tells a comma of a value from one between tags. But tags are taken to be sorted. So
    /// what follows a value that goes belongs to it, unless it has a later key, or one whose value
    /// goes itself.
    pub(super) fn tags(&self, text: &str, separator: char, used: &mut Vec<usize>) -> String {
        let mut pieces = text.split(',').peekable();
        let mut tags = Vec::new();
        while let Some(piece) = pieces.next() {
            let tag = piece.split_once(separator);
            let Some((key, value, values)) =
                tag.and_then(|(key, value)| Some((key, value, self.of_tag(key, used)?)))
            else {
                tags.push(piece.to_owned());
                continue;
            };
            let mut value = value.to_owned();
            let is_of_it = |next: &&str| {
                let tag = next.split_once(separator);
                tag.is_none_or(|(next, _)| {
                    next <= key && self.of_tag(next, &mut Vec::new()).is_none()
                })
            };
            while let Some(more) = pieces.next_if(is_of_it) {
                value.extend([",", more]);
            }
            tags.push([key, &values.text(value)].join(separator.encode_utf8(&mut [0; 4])));
        }
        tags.join(",")
    }
}

impl Redaction {
    /// The keys that are named, on their own or behind one of these paths. All of them are if a
    /// name is the path `whole`.
    pub(super) fn keys(&self, event: &str, paths: &[String], whole: &[String]) -> Keys {
        let mut keys = Vec::new();
        for (number, name) in self.names.iter().enumerate() {
            let of = |key: Option<&str>| Key {
                key: key.map(str::to_owned),
                name: number,
                values: self.values(name.how),
            };
            if whole.iter().any(|path| name.fits(Some(event), path)) {
                keys.push(of(None));
            }
            for start in iter::once("").chain(paths.iter().map(|path| &**path)) {
                let of_it = name.paths(event).filter_map(|path| path.strip_prefix(start));
                keys.extend(of_it.map(|key| of(Some(key))));
            }
        }
        Keys(keys)
    }
}

impl Name {
    /// The paths of fields of this event that have the name.
    pub(super) fn paths<'a>(&'a self, event: &str) -> impl Iterator<Item = &'a str> {
        let of_event = role::SUFFIXES.iter().filter_map(|part| {
            self.given.strip_prefix(event.strip_suffix(part)?)?.strip_prefix(':')
        });
        iter::once(&*self.given).chain(of_event)
    }
}

/// Whether objects with these fields are the entries of a map whose keys are texts.
pub(super) fn is_entry(fields: &[Field]) -> bool {
    let [key, value] = fields else { return false };
    (&*key.name, &*value.name) == ("Key", "Value") && is_text(&key.ty)
}

/// If a field of an event has the tags of a metric, what is between a key and its value.
pub(super) fn separator(event: &str, field: &Field) -> Option<char> {
    let separator = match &*field.name {
        "tags" | "instrumentTags" | "meterTags" => '=',
        "Metadata" if event == "EventCounters" => ':',
        _ => return None,
    };
    is_text(&field.ty).then_some(separator)
}
