//! Captures of tests: see [`testing`](crate::testing).
//!
//! All captures together have one slot, like a session that wants everything. So an event takes the
//! general way while there is a capture, and what is in force on its thread says which one takes
//! it. The slot is free again when the last capture ends.

use std::{
    collections::BTreeMap,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use nettrace_event::{EventType, payload::Refusal, registry};
use nettrace_span::{
    backend::LISTENERS,
    frames::{Ids, MAX_CAPTURE},
};

use super::{attached_types, note_change, prepare_process, table};
use crate::{
    shared::{error::Error, locks, watchers},
    sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering},
};

/// The bit of all captures: what [`Captures::bit`] is, without the lock.
static BIT: AtomicU32 = AtomicU32::new(0);
/// The number of the last capture. The child of a `fork` goes on counting, because what is in force
/// there may still name one of the parent's.
static LAST: AtomicU32 = AtomicU32::new(0);
/// Whether there has been a capture.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// An event as it was emitted.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) ty: &'static EventType,
    pub(crate) payload: Result<Vec<u8>, Refusal>,
    /// The span that was in force.
    pub(crate) ids: Option<Ids>,
    /// The labels that were in force besides, as a label list.
    pub(crate) labels: Vec<u8>,
}

/// The events of one capture.
#[derive(Debug, Default)]
pub(crate) struct Store {
    events: Mutex<Vec<Arc<Emitted>>>,
    more: Condvar,
}

impl Store {
    /// The events so far.
    pub(crate) fn events(&self) -> Vec<Arc<Emitted>> {
        // An allocator that emits finds the lock taken.
        locks::with_locks(|| self.events.lock().clone())
    }

    /// The number of events so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().len()
    }

    pub(crate) fn clear(&self) {
        let events = mem::take(&mut *self.events.lock());
        drop(events);
    }

    /// Waits until there are more events than so many, or until the time or `gives_up` says that
    /// there will be none. Returns whether there are.
    pub(crate) fn wait_for_more(
        &self,
        than: usize,
        deadline: Instant,
        gives_up: impl Fn() -> bool,
    ) -> bool {
        let mut events = self.events.lock();
        while events.len() <= than {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || gives_up() {
                return false;
            }
            events = self.more.wait_for(events, left);
        }
        true
    }

    /// Has those that wait ask once more whether they give up.
    pub(crate) fn wake(&self) {
        // With the lock, so that none of them is between asking and waiting.
        let _events = self.events.lock();
        self.more.notify_all();
    }

    fn push(&self, event: Arc<Emitted>) {
        self.events.lock().push(event);
        self.more.notify_all();
    }
}

/// The captures of the process.
#[derive(Debug, Default)]
pub(super) struct Captures {
    slot: Option<u32>,
    /// Held while one begins. The next one must not begin before the watchers know of the first.
    beginning: Arc<Mutex<()>>,
    stores: BTreeMap<u32, EnclosingCapture>,
}

/// A capture, and the one around it on its thread, which gets the same events. 0: none.
#[derive(Debug)]
struct EnclosingCapture {
    store: Arc<Store>,
    outer: u32,
}

impl Captures {
    pub(super) fn bit(&self) -> u32 {
        self.slot.map_or(0, |slot| 1 << slot)
    }
}

/// Begins a capture within another, which may have ended. Returns its number.
pub(crate) fn begin(attach: fn(), store: &Arc<Store>, outer: u32) -> Result<u32, Error> {
    let beginning = locks::holding_locks(|| {
        prepare_process(attach);
        Arc::clone(&table().lock().captures.beginning)
    });
    let beginning = beginning.ok_or(Error::InSignalHandler)?;
    let _beginning = beginning.lock();
    let begun = locks::holding_locks(|| {
        let mut table = table().lock();
        let is_first = table.captures.slot.is_none();
        if is_first {
            table.captures.slot = Some(table.reserve()?);
            let bit = table.captures();
            BIT.store(bit, Ordering::Relaxed);
            HAS_BEGUN.store(true, Ordering::Relaxed);
            LISTENERS.fetch_add(1, Ordering::Relaxed);
            attached_types().for_each(|ty| registry::listen(ty, bit, 0));
            note_change();
        }
        let stores = &mut table.captures.stores;
        let outer = if stores.contains_key(&outer) { outer } else { 0 };
        let mut number = LAST.load(Ordering::Relaxed);
        while {
            number = number % MAX_CAPTURE + 1;
            stores.contains_key(&number)
        } {}
        LAST.store(number, Ordering::Relaxed);
        stores.insert(number, EnclosingCapture { store: Arc::clone(store), outer });
        Ok((number, is_first))
    });
    let (number, is_first) = begun.unwrap_or(Err(Error::InSignalHandler))?;
    if is_first {
        watchers::changed();
    }
    Ok(number)
}

/// Ends a capture. In the child of a `fork` there is none.
pub(crate) fn end(number: u32) {
    let ended = locks::holding_locks(|| {
        let mut table = table().lock();
        let stores = &mut table.captures.stores;
        let ended = stores.remove(&number);
        if let Some(EnclosingCapture { outer, .. }) = ended {
            // Those within it are now within the one around it.
            let inner = stores.values_mut().filter(|within| within.outer == number);
            inner.for_each(|within| within.outer = outer);
        }
        let is_last = ended.is_some() && table.captures.stores.is_empty();
        if is_last {
            let bit = table.captures();
            attached_types().for_each(|ty| registry::listen(ty, 0, bit));
            LISTENERS.fetch_sub(1, Ordering::Relaxed);
            BIT.store(0, Ordering::Relaxed);
            table.reserved &= !bit;
            table.captures.slot = None;
            note_change();
        }
        // The events may be many, and the lock is everybody's.
        drop(table);
        drop(ended);
        is_last
    });
    if ended == Some(true) {
        watchers::changed();
    }
}

/// Forgets all captures in the child of a `fork`, which has another table.
#[cfg(unix)]
pub(super) fn forget() {
    BIT.store(0, Ordering::Relaxed);
}

/// Whether there has been a capture in the process. Relaxed: as [`bit`].
pub(crate) fn has_begun() -> bool {
    HAS_BEGUN.load(Ordering::Relaxed)
}

/// The bit of all captures in the words of event types. 0: there are none.
///
/// Relaxed: a thread that is within a capture knows of its begin by whatever carried the capture
/// to it.
pub(crate) fn bit() -> u32 {
    BIT.load(Ordering::Relaxed)
}

/// Gives an event to a capture, if that has not ended, and to those around it. To be called as if
/// locks were [held](locks::holding_locks).
pub(crate) fn push(mut number: u32, event: Emitted) {
    let event = Arc::new(event);
    let mut stores = Vec::new();
    {
        let table = table().lock();
        while let Some(EnclosingCapture { store, outer }) = table.captures.stores.get(&number) {
            stores.push(Arc::clone(store));
            number = *outer;
        }
    }
    for store in stores {
        store.push(Arc::clone(&event));
    }
}
