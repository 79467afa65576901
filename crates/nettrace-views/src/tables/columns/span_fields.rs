//! The fields of the events with which spans begin and end, as one column: a map of texts.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{ArrayRef, MapArray, StructArray, builder::StringBuilder};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use nettrace_reader::Event;

use crate::{
    model::walk,
    tables::{
        columns::events::{entry_fields, map_type},
        facts::TypeFacts,
        size_of,
    },
    text::plain_text,
};

/// How many fields of an event are in the map: the first ones.
const MOST_FIELDS: usize = size_of(64, 3);

/// The values of the fields of an event as texts, each with the place of its field.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTexts(Vec<(usize, Box<str>)>);

impl FieldTexts {
    /// Those of an event. What has a column of its own if the span ends is left out then.
    pub(crate) fn of(event: &Event<'_>, ty: &TypeFacts, is_end: bool) -> Self {
        let mut texts = Vec::new();
        let types = &event.metadata().fields;
        // The table of the event's type says whether fields cannot be decoded.
        let _ = walk(event, |place, value| {
            let Some(field) = types.get(place).filter(|_| place < MOST_FIELDS) else { return };
            if is_end && ty.end.has(place) {
                return;
            }
            let meant = ty.fields.rust_types.field(&field.name).interpret(&value);
            texts.extend(plain_text(meant).map(|text| (place, text.into())));
        });
        Self(texts)
    }

    /// About how many bytes they take in a row.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|(_, text)| 64 + text.len()).sum()
    }
}

/// The type and the fields of an event.
pub(crate) type EventFields<'a> = (&'a TypeFacts, &'a FieldTexts);

/// The maps of rows.
#[derive(Debug)]
pub(crate) struct FieldMaps {
    keys: StringBuilder,
    values: StringBuilder,
    offsets: Vec<i32>,
}

impl Default for FieldMaps {
    fn default() -> Self {
        Self { keys: StringBuilder::new(), values: StringBuilder::new(), offsets: vec![0] }
    }
}

impl FieldMaps {
    /// Adds the map of a span. If start and end have a field of one name, `stop.` is before that of
    /// the end.
    pub(crate) fn push(&mut self, start: Option<EventFields<'_>>, end: Option<EventFields<'_>>) {
        let mut count = 0;
        let mut add = |key: &str, value: &str| {
            self.keys.append_value(key);
            self.values.append_value(value);
            count += 1;
        };
        let names = |of: Option<EventFields<'_>>, name: &str| {
            of.is_some_and(|(ty, _)| ty.fields.names.iter().take(MOST_FIELDS).any(|it| it == name))
        };
        if let Some((ty, texts)) = start {
            texts.0.iter().for_each(|(place, text)| add(&ty.fields.names[*place], text));
        }
        let mut renamed: Vec<String> = Vec::new();
        if let Some((ty, texts)) = end {
            for (place, text) in &texts.0 {
                let own = &*ty.fields.names[*place];
                let mut key = Cow::Borrowed(own);
                while names(start, &key)
                    || key != own && names(end, &key)
                    || renamed.iter().any(|taken| *taken == key)
                {
                    key = Cow::Owned(format!("stop.{key}"));
                }
                add(&key, text);
                if let Cow::Owned(key) = key {
                    renamed.push(key);
                }
            }
        }
        // A batch has far fewer than 2^31 fields.
        self.offsets.push(self.offsets.last().copied().unwrap_or(0).saturating_add(count));
    }

    /// Takes the maps.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.keys.finish()), Arc::new(self.values.finish())];
        let entries = StructArray::new(entry_fields(), columns, None);
        let DataType::Map(field, _) = map_type() else { unreachable!("it is a map") };
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        Arc::new(MapArray::new(field, offsets, entries, None, false))
    }
}
