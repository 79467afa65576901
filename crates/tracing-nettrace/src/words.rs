//! The values of an event that has only a few numbers, in place.
//!
//! Numbers of eight bytes need no memory of the thread and no ranges: they stand in an array on the
//! stack, in the order of their fields, until the event copies them, word by word. Callsites whose
//! first values were a few such numbers are visited in this way. A value of another kind moves them
//! into the thread's [`Values`], which take everything.

use std::{error::Error, fmt};

use nettrace_event::AnyEvent;
use nettrace_writer::{
    Emit,
    event::{EventType, PayloadEncoder, TraceEvent},
};
use tracing_core::field::{Field, Visit};

use crate::{
    sync::{AtomicU64, Ordering},
    values::{Kind, MAX_FIELDS, Recorded, Signature, Taken, Values},
};

/// The most numbers that are kept in place.
const MAX_WORDS: usize = 4;
/// Fields from this one on are not kept in place, because their kinds are in another word.
const MAX_INDEX: usize = 16;

/// Whether values with this signature can be in place.
pub(crate) fn can_have(signature: Signature) -> bool {
    let kinds =
        (0..MAX_FIELDS).filter_map(|index| Some((index, Kind::of_field(signature, index)?)));
    let has_place =
        |(index, kind)| index < MAX_INDEX && matches!(kind, Kind::I64 | Kind::U64 | Kind::F64);
    kinds.clone().count() <= MAX_WORDS && kinds.clone().all(has_place)
}

/// The values of one event or span, of which nobody has seen others than numbers yet.
#[derive(Debug)]
pub(crate) struct Visited {
    words: Words,
    /// All values, if there are others than these words.
    values: Option<Taken>,
}

/// Numbers of eight bytes.
#[derive(Debug)]
pub(crate) struct Words {
    /// Atomics, so that the compiler reads each by itself, as it was written. The processor would
    /// wait for a read of two until both have left its store buffer.
    words: [AtomicU64; MAX_WORDS],
    len: usize,
    /// The lower half of the signature.
    kinds: u64,
}

impl Visited {
    /// No values yet.
    #[inline]
    pub(crate) fn new() -> Self {
        let words = [const { AtomicU64::new(0) }; MAX_WORDS];
        Self { words: Words { words, len: 0, kinds: 0 }, values: None }
    }

    /// Visits values. They stay where this is. Whatever moved them would read them in larger pieces
    /// than they were written in, and the processor would wait for that.
    ///
    /// Returns the values if they are others than a few numbers.
    #[inline]
    pub(crate) fn visit(&mut self, visit: impl FnOnce(&mut dyn Visit)) -> Result<&Words, Taken> {
        visit(self);
        match self.values.take() {
            None => Ok(&self.words),
            Some(values) => Err(values.completed()),
        }
    }

    #[inline]
    fn put(&mut self, index: usize, kind: Kind, value: u64) {
        let Words { words, len, kinds } = &mut self.words;
        if let (Some(word), true) =
            (words.get_mut(*len), index < MAX_INDEX && *kinds >> (4 * index) == 0)
        {
            *word.get_mut() = value;
            *len += 1;
            *kinds |= (kind as u64) << (4 * index);
        } else {
            self.put_elsewhere(index, kind, value);
        }
    }

    /// A number that has no place here.
    #[cold]
    #[inline(never)]
    fn put_elsewhere(&mut self, index: usize, kind: Kind, value: u64) {
        self.values().put_word(index, kind, value);
    }

    /// All values, to which others can be added.
    #[cold]
    #[inline(never)]
    fn values(&mut self) -> &mut Values {
        let Words { words, len, kinds } = &mut self.words;
        self.values.get_or_insert_with(|| {
            let mut values = Taken::empty();
            for word in words.iter().take(*len) {
                let index = kinds.trailing_zeros() as usize / 4;
                if let Some(kind) = Kind::of_field((*kinds).into(), index) {
                    values.put_word(index, kind, word.load(Ordering::Relaxed));
                }
                *kinds &= !(0xF << (4 * index));
            }
            // There is no place for a word any more.
            *len = MAX_WORDS;
            values
        })
    }
}

impl Recorded for Words {
    #[inline]
    fn signature(&self) -> Signature {
        self.kinds.into()
    }

    #[inline]
    fn emit(&self, ty: &'static EventType) {
        let Self { words, len, .. } = self;
        // With a size that the compiler knows, the event takes a third less instructions.
        match *len {
            1 => Few::<1> { ty, words }.emit(),
            2 => Few::<2> { ty, words }.emit(),
            3 => Few::<3> { ty, words }.emit(),
            _ => Plain { ty, words: self }.emit(),
        }
    }

    #[inline]
    fn with_event<R>(&self, ty: &'static EventType, f: impl FnOnce(&dyn AnyEvent) -> R) -> R {
        let Self { words, len, .. } = self;
        let (one, two, any);
        // One call, which is in line.
        let event: &dyn AnyEvent = match *len {
            1 => {
                one = Few::<1> { ty, words };
                &one
            }
            2 => {
                two = Few::<2> { ty, words };
                &two
            }
            _ => {
                any = Plain { ty, words: self };
                &any
            }
        };
        f(event)
    }
}

impl Visit for Visited {
    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.index(), Kind::I64, value as u64);
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.index(), Kind::U64, value);
    }

    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.index(), Kind::F64, value.to_bits());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.values().record_i128(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.values().record_u128(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.values().record_bool(field, value);
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        self.values().record_str(field, value);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.values().record_bytes(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.values().record_error(field, value);
    }

    #[cfg(all(tracing_unstable, feature = "valuable"))]
    fn record_value(&mut self, field: &Field, value: valuable::Value<'_>) {
        self.values().record_value(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.values().record_debug(field, value);
    }
}

/// An event whose payload is a few words.
#[derive(Clone, Copy)]
struct Plain<'a> {
    ty: &'static EventType,
    words: &'a Words,
}

impl TraceEvent for Plain<'_> {
    /// None are known before the first event.
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    /// Each word by itself: the processor has them at hand as they were stored.
    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        let Words { words, len, .. } = self.words;
        for (at, word) in words.iter().enumerate() {
            if at < *len {
                encoder.u64(word.load(Ordering::Relaxed));
            }
        }
    }
}

/// An event whose payload is so many words.
#[derive(Clone, Copy)]
struct Few<'a, const LEN: usize> {
    ty: &'static EventType,
    words: &'a [AtomicU64; MAX_WORDS],
}

impl<const LEN: usize> TraceEvent for Few<'_, LEN> {
    /// None are known before the first event.
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    #[inline]
    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    #[inline]
    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        for word in self.words.iter().take(LEN) {
            encoder.u64(word.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use nettrace_format::payload::{NetTraceEncoder, VecBuffer};
    use nettrace_writer::event::PayloadEncoder as _;

    use super::{EventType, Few, Kind, Plain, Recorded, Taken, TraceEvent, Visited, can_have};
    use crate::values::tests::one_by_one;

    static TYPE: EventType = EventType::new(&nettrace_event::example::SALE);

    /// The payload of numbers that are visited one after the other, if they stay in place, and the
    /// same of all values.
    fn visited(numbers: &[(usize, Kind, u64)]) -> (Option<Vec<u8>>, Vec<u8>) {
        let mut all = Taken::empty();
        numbers.iter().for_each(|&(index, kind, value)| all.put_word(index, kind, value));
        let all = all.completed();
        let payload = one_by_one(&all).unwrap();
        let mut visited = Visited::new();
        numbers.iter().for_each(|&(index, kind, value)| visited.put(index, kind, value));
        match visited.values.take() {
            None => {
                let words = &visited.words;
                assert_eq!(words.signature(), all.signature());
                assert!(can_have(words.signature()));
                let mut encoder = NetTraceEncoder::new(VecBuffer::new());
                Plain { ty: &TYPE, words }.encode(&mut encoder);
                let plain = encoder.finish().into_payload().unwrap();
                let of_few = |few: &dyn Fn(&mut NetTraceEncoder<VecBuffer>)| {
                    let mut encoder = NetTraceEncoder::new(VecBuffer::new());
                    few(&mut encoder);
                    encoder.finish().into_payload().unwrap()
                };
                let (ty, in_place) = (&TYPE, &words.words);
                let few = match words.len {
                    1 => of_few(&|to| Few::<1> { ty, words: in_place }.encode(to)),
                    2 => of_few(&|to| Few::<2> { ty, words: in_place }.encode(to)),
                    3 => of_few(&|to| Few::<3> { ty, words: in_place }.encode(to)),
                    _ => plain.clone(),
                };
                assert_eq!(few, plain);
                (Some(plain), payload)
            }
            Some(values) => {
                let values = values.completed();
                assert_eq!(values.signature(), all.signature());
                assert_eq!(one_by_one(&values).unwrap(), payload);
                (None, payload)
            }
        }
    }

    #[test]
    fn numbers_in_place_have_the_payload_of_all_values() {
        use Kind::{F64, I64, U64};
        let in_place: [&[_]; 5] = [
            &[],
            &[(0, U64, 7)],
            &[(1, F64, 7), (2, U64, 8), (3, I64, 9)],
            &[(0, U64, 1), (1, I64, u64::MAX), (2, F64, 3), (3, U64, 4)],
            &[(3, U64, 1), (15, F64, 2)],
        ];
        for numbers in in_place {
            let (words, all) = visited(numbers);
            assert_eq!(words, Some(all), "{numbers:?}");
        }
        let elsewhere: [&[_]; 5] = [
            &[(0, U64, 1), (1, U64, 2), (2, U64, 3), (3, U64, 4), (4, U64, 5), (5, U64, 6)],
            &[(2, U64, 1), (1, I64, 2), (3, F64, 4)],
            &[(1, U64, 1), (1, I64, 2)],
            &[(1, U64, 1), (16, U64, 2), (17, U64, 3)],
            &[(16, U64, 2)],
        ];
        for numbers in elsewhere {
            assert_eq!(visited(numbers).0, None, "{numbers:?}");
        }
    }

    #[test]
    fn a_text_takes_the_numbers_along() {
        let mut visited = Visited::new();
        visited.put(0, Kind::U64, 1);
        visited.put(1, Kind::F64, 2);
        visited.values().put_text(2, |text| text.push_str("three"));
        visited.put(3, Kind::I64, 4);
        let values = visited.values.take().unwrap().completed();
        let mut encoder = NetTraceEncoder::new(VecBuffer::new());
        encoder.u64(1);
        encoder.u64(2);
        encoder.str("three", nettrace_event::StrEncoding::Utf16);
        encoder.i64(4);
        assert_eq!(one_by_one(&values), encoder.finish().into_payload());
        assert!(!can_have(values.signature()));
    }
}
