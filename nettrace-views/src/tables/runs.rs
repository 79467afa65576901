//! Columns of few different values: which there are, and how many rows in a row have each.

use std::{hash::Hash, rc::Rc, sync::Arc};

use arrow_array::{Array, ArrayRef, UInt32Array, builder::UInt32Builder};
use arrow_schema::ArrowError;
use foldhash::HashMap;

use crate::tables::ids::Ids;

/// The values of a column in a batch of rows.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// One for each row.
    Array(ArrayRef),
    /// The different ones, and which of them each row has.
    Runs(Arc<Keys>, ArrayRef),
    /// Ids of spans or traces.
    Ids(Ids),
}

impl<T: Array + 'static> From<T> for Values {
    fn from(array: T) -> Self {
        Self::Array(Arc::new(array))
    }
}

impl Values {
    /// Different values of which rows have what `keys` says.
    pub(crate) fn runs(keys: &Arc<Keys>, values: impl Array + 'static) -> Self {
        Self::Runs(Arc::clone(keys), Arc::new(values))
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Array(array) => array.len(),
            Self::Runs(keys, _) => keys.rows,
            Self::Ids(ids) => ids.rows(),
        }
    }

    /// A value for each row.
    pub(crate) fn array(self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Array(array) => Ok(array),
            Self::Runs(keys, values) => arrow_select::take::take(&values, &keys.rows(), None),
            Self::Ids(ids) => Ok(ids.texts()),
        }
    }
}

/// Which of several values each row has.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The place of a value, and how many rows in a row have it.
    runs: Vec<(u32, u32)>,
    rows: usize,
}

impl Keys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.iter().copied()
    }

    /// The place of each row's value.
    fn rows(&self) -> UInt32Array {
        let mut all = UInt32Builder::with_capacity(self.rows);
        for (key, count) in self.iter() {
            // A batch has far fewer than 2^32 rows.
            all.append_value_n(key, count as usize);
        }
        all.finish()
    }
}

/// What is often the same in rows that follow each other.
pub(crate) trait Repeats {
    /// Equal for values that are the same.
    type Key: Hash + Eq + Copy;

    fn key(&self) -> Self::Key;

    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// Shared facts are the same if they are in one place.
impl<T> Repeats for Rc<T> {
    type Key = *const T;

    #[inline]
    fn key(&self) -> *const T {
        Rc::as_ptr(self)
    }
}

impl Repeats for u32 {
    type Key = Self;

    #[inline]
    fn key(&self) -> Self {
        *self
    }
}

/// Values in a row that are often the same: each with the number of its repetitions.
#[derive(Debug)]
pub(crate) struct Runs<V> {
    runs: Vec<(V, u32)>,
    rows: usize,
}

impl<V> Default for Runs<V> {
    fn default() -> Self {
        Self { runs: Vec::new(), rows: 0 }
    }
}

impl<V: Repeats + Clone> Runs<V> {
    #[inline]
    pub(crate) fn push(&mut self, value: &V) {
        self.rows += 1;
        match self.runs.last_mut() {
            Some((last, count)) if last.is_same(value) => *count += 1,
            _ => self.runs.push((value.clone(), 1)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&V, usize)> {
        self.runs.iter().map(|(value, count)| (value, *count as usize))
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.rows = 0;
    }

    /// The different values, and which of them each row has.
    pub(crate) fn keys(&self) -> (Arc<Keys>, Vec<&V>) {
        let mut known: HashMap<V::Key, u32> = HashMap::default();
        let mut values = Vec::new();
        // Two values that take turns are frequent.
        let mut last: [Option<(V::Key, u32)>; 2] = [None; 2];
        let mut runs = Vec::with_capacity(self.runs.len());
        for (value, count) in &self.runs {
            let key = value.key();
            let found = last.iter().flatten().find(|(known, _)| *known == key);
            let place = match found {
                Some((_, place)) => *place,
                None => {
                    let place = *known.entry(key).or_insert_with(|| {
                        values.push(value);
                        // A batch has far fewer than 2^32 rows.
                        (values.len() - 1) as u32
                    });
                    last = [Some((key, place)), last[0]];
                    place
                }
            };
            runs.push((place, *count));
        }
        (Arc::new(Keys { runs, rows: self.rows }), values)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{UInt8Array, cast::AsArray, types::UInt8Type};

    use super::*;

    #[test]
    fn each_row_has_its_value() {
        let rows = [7, 7, 9, 7, 8, 8, 8, 9, 9, 7];
        let mut runs = Runs::default();
        rows.iter().for_each(|row| runs.push(row));
        assert_eq!(runs.rows(), rows.len());
        let (keys, values) = runs.keys();
        assert_eq!(values, [&7, &9, &8]);
        assert_eq!(keys.iter().count(), 6);
        let values = UInt8Array::from_iter_values(values.into_iter().map(|value| *value as u8));
        let column = Values::runs(&keys, values);
        assert_eq!(column.rows(), rows.len());
        let array = column.array().unwrap();
        let found = array.as_primitive::<UInt8Type>().values();
        assert_eq!(found.iter().map(|value| u32::from(*value)).collect::<Vec<_>>(), rows);
        runs.clear();
        assert_eq!((runs.rows(), runs.keys().1.len()), (0, 0));
    }
}
