//! Maps: arrays of objects with the fields `Key` and `Value`, as .NET has its dictionaries.

#[cfg(feature = "alloc")]
use alloc::collections::BTreeMap;
#[cfg(feature = "std")]
use std::{collections::HashMap, vec::Vec};

use crate::{
    encode::PayloadEncoder,
    field::{TraceField, part},
    schema::{ArrayLayout, FieldSchema, FieldType},
};

/// A slice of pairs that is recorded as a map: its elements have the fields `Key` and `Value`,
/// where those of a plain slice have `0` and `1`. Keys may come in any order, and more than once.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldType, Pairs, TraceField};
///
/// let headers = [("accept", "*/*"), ("host", "example.com")];
/// let field = Pairs(&headers);
///
/// fn type_of<T: TraceField>(_: &T) -> FieldType {
///     T::TYPE
/// }
/// let FieldType::Array(FieldType::Object(fields), ArrayLayout::Counted) = type_of(&field) else {
///     panic!("an array of objects");
/// };
/// assert_eq!((fields[0].name, fields[1].name), ("Key", "Value"));
/// ```
#[derive(Debug)]
pub struct Pairs<'a, K, V>(pub &'a [(K, V)]);

impl<K, V> Clone for Pairs<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Pairs<'_, K, V> {}

/// An entry of a map.
struct Entry<K, V>(core::marker::PhantomData<(K, V)>);

impl<K: TraceField, V: TraceField> Entry<K, V> {
    const FIELDS: &'static [FieldSchema] = &[part::<K, _>("Key"), part::<V, _>("Value")];
    const TYPE: FieldType = FieldType::Object(Self::FIELDS);
    const MAP: FieldType = FieldType::Array(&Self::TYPE, ArrayLayout::Counted);

    #[inline]
    fn encode<'a, E: PayloadEncoder>(
        len: usize,
        entries: impl Iterator<Item = (&'a K, &'a V)>,
        encoder: &mut E,
    ) where
        K: 'a,
        V: 'a,
    {
        let mark = encoder.begin_array_of(len, ArrayLayout::Counted, const { &Self::TYPE });
        for (key, value) in entries {
            key.encode_field(encoder);
            value.encode_field(encoder);
        }
        encoder.end_array(mark);
    }
}

impl<K: TraceField, V: TraceField> TraceField for Pairs<'_, K, V> {
    const TYPE: FieldType = Entry::<K, V>::MAP;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        let entries = self.0.iter().map(|(key, value)| (key, value));
        Entry::encode(self.0.len(), entries, encoder);
    }
}

#[cfg(feature = "alloc")]
impl<K: TraceField, V: TraceField> TraceField for BTreeMap<K, V> {
    const TYPE: FieldType = Entry::<K, V>::MAP;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        Entry::encode(self.len(), self.iter(), encoder);
    }
}

/// Maps of up to so many entries are sorted without an allocation.
#[cfg(feature = "std")]
const FEW: usize = 32;

/// By their keys, so that equal maps are recorded as equal bytes.
#[cfg(feature = "std")]
impl<K: TraceField + Ord, V: TraceField, S> TraceField for HashMap<K, V, S> {
    const TYPE: FieldType = Entry::<K, V>::MAP;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        let len = self.len();
        if len > FEW {
            let mut entries: Vec<_> = self.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            return Entry::encode(len, entries.into_iter(), encoder);
        }
        let mut entries = [None; FEW];
        entries.iter_mut().zip(self).for_each(|(to, entry)| *to = Some(entry));
        let entries = &mut entries[..len];
        entries.sort_unstable_by_key(|entry| entry.map(|(key, _)| key));
        Entry::encode(len, entries.iter().copied().flatten(), encoder);
    }
}
