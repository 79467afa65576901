//! Values that are often the same in rows that follow each other.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use arrow_array::{
    ArrayRef, ArrowPrimitiveType,
    builder::{PrimitiveBuilder, StringBuilder},
};

/// What is often the same in rows that follow each other.
pub(crate) trait Repeats {
    fn is_same(&self, other: &Self) -> bool;
}

/// Shared facts are the same if they are in one place.
impl<T> Repeats for Rc<T> {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }
}

impl Repeats for u32 {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

/// The values of rows: each with the number of its repetitions.
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

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.rows = 0;
    }

    /// A number of each row's value.
    pub(crate) fn numbers<T: ArrowPrimitiveType>(
        &self,
        number: impl Fn(&V) -> Option<T::Native>,
    ) -> ArrayRef {
        let mut all = PrimitiveBuilder::<T>::with_capacity(self.rows);
        for (value, count) in self.iter() {
            match number(value) {
                Some(number) => all.append_value_n(number, count),
                None => all.append_nulls(count),
            }
        }
        Arc::new(all.finish())
    }

    /// A text of each row's value.
    pub(crate) fn texts(&self, text: impl Fn(&V) -> Option<Cow<'_, str>>) -> ArrayRef {
        let mut all = StringBuilder::with_capacity(self.rows, 0);
        for (value, count) in self.iter() {
            let text = text(value);
            (0..count).for_each(|_| all.append_option(text.as_deref()));
        }
        Arc::new(all.finish())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        cast::AsArray,
        types::{UInt8Type, UInt32Type},
    };

    use super::*;

    #[test]
    fn each_row_has_its_value() {
        let rows = [7, 7, 9, 7, 8, 8, 8, 9, 9, 7];
        let mut runs = Runs::default();
        rows.iter().for_each(|row| runs.push(row));
        assert_eq!((runs.rows(), runs.iter().count()), (rows.len(), 6));
        let numbers = runs.numbers::<UInt32Type>(|row| Some(*row));
        assert_eq!(numbers.as_primitive::<UInt32Type>().values(), &rows[..]);
        let some = runs.numbers::<UInt8Type>(|row| (*row != 8).then_some(*row as u8));
        let some: Vec<_> = some.as_primitive::<UInt8Type>().iter().collect();
        assert_eq!(some, rows.map(|row| (row != 8).then_some(row as u8)));
        let texts = runs.texts(|row| (*row != 9).then(|| Cow::Owned(row.to_string())));
        let texts: Vec<_> =
            texts.as_string::<i32>().iter().map(|it| it.map(str::to_owned)).collect();
        assert_eq!(texts, rows.map(|row| (row != 9).then(|| row.to_string())));
        runs.clear();
        assert_eq!((runs.rows(), runs.iter().count()), (0, 0));
    }
}
