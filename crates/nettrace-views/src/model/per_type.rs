//! A reader's data about each event type.

use foldhash::HashMap;
use nettrace_reader::{Event, Metadata};

/// Types with ids below this are found by their position.
const SMALL: u32 = 1 << 12;

/// What a reader keeps of each event type, made for the first event of a type. After a sequence
/// point, the ids in rows can mean other types, so it is made again.
///
/// ```
/// use nettrace_reader::Reader;
/// use nettrace_views::model::{PerType, event_name};
///
/// # let trace = nettrace_reader::example();
/// let mut events = Reader::new(&trace[..])?.sorted();
/// let mut names = PerType::default();
/// while let Some(event) = events.next_event()? {
///     let name: &mut String = names.of(&event, |metadata| event_name(metadata).into_owned());
///     println!("{name}");
/// }
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct PerType<T> {
    epoch: u64,
    small: Vec<Option<T>>,
    large: HashMap<u32, T>,
}

impl<T> Default for PerType<T> {
    fn default() -> Self {
        Self { epoch: 0, small: Vec::new(), large: HashMap::default() }
    }
}

impl<T> PerType<T> {
    /// What is kept of an event's type.
    #[inline]
    pub fn of(&mut self, event: &Event<'_>, make: impl FnOnce(&Metadata) -> T) -> &mut T {
        if event.epoch() != self.epoch {
            self.epoch = event.epoch();
            self.small.clear();
            self.large.clear();
        }
        let id = event.header.metadata_id;
        if id >= SMALL {
            return self.large.entry(id).or_insert_with(|| make(event.metadata()));
        }
        let at = id as usize;
        if self.small.len() <= at {
            self.small.resize_with(at + 1, || None);
        }
        self.small[at].get_or_insert_with(|| make(event.metadata()))
    }
}
