//! All instruments of the process, behind one lock.
//!
//! No increment takes it: it is for what begins and ends, and for whoever reads. While it is held
//! no code of the application runs. A `fork` waits for it, so that the child finds everything
//! whole: see [`process`].

pub(crate) mod arguments;
pub(crate) mod events;
pub(crate) mod kinds;
pub(crate) mod observable;
pub(crate) mod process;
mod read;
pub(crate) mod report;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, MutexGuard},
};

use crate::{
    metrics::{
        cells::{self, CELLS, NO_CELL},
        event_counters::MeterEventTypes,
        state::{
            kinds::{InstrumentKind, StoredValue},
            observable::Observer,
            report::Report,
        },
    },
    sync::{AtomicU64, Condvar, Mutex, Ordering},
};

/// The number of series of an instrument. Further ones share one.
pub(crate) const MAX_SERIES: usize = 2_000;
/// The tags of the series that all further ones share.
const OVERFLOW: &str = "overflow=true";

/// The description of a meter.
#[derive(Debug)]
pub(crate) struct MeterInfo {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) tags: String,
}

pub(crate) type Callback = dyn Fn(&mut Observer<'_>) + Send + Sync;

/// An instrument, for as long as its program has it.
pub(crate) struct Instrument {
    /// Counted from 1. No other instrument of the process has it.
    pub(crate) id: i32,
    pub(crate) kind: InstrumentKind,
    pub(crate) meter: Arc<MeterInfo>,
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) description: String,
    pub(crate) tags: String,
    pub(crate) callback: Option<Box<Callback>>,
}

impl std::fmt::Debug for Instrument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instrument").field("id", &self.id).field("name", &self.name).finish()
    }
}

/// The description of an instrument to be made.
#[derive(Default)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) description: String,
    pub(crate) tags: String,
    pub(crate) callback: Option<Box<Callback>>,
}

/// A value for each combination of tags.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) tags: Arc<str>,
    pub(crate) value: StoredValue,
}

/// The cells in use.
#[derive(Debug, Default)]
struct CellAllocation {
    free: Vec<u32>,
    used: u32,
}

impl CellAllocation {
    fn take(&mut self) -> u32 {
        if let Some(cell) = self.free.pop() {
            return cell;
        }
        if self.used == CELLS {
            return NO_CELL;
        }
        self.used += 1;
        self.used - 1
    }
}

/// An instrument and its series.
#[derive(Debug)]
pub(crate) struct InstrumentEntry {
    pub(crate) instrument: Arc<Instrument>,
    pub(crate) series: HashMap<Arc<str>, Arc<Series>>,
}

/// The data behind the lock.
#[derive(Debug, Default)]
pub(crate) struct MetricsState {
    /// By id.
    pub(crate) instruments: BTreeMap<i32, InstrumentEntry>,
    last_id: i32,
    cells: CellAllocation,
    /// The number of times an instrument has come or gone.
    pub(crate) changes: u64,
    /// The reports that nobody is working at.
    pub(crate) reports: Vec<Report>,
    pub(crate) last_report: u64,
    /// The report that the reporter works at.
    pub(crate) busy: Option<u64>,
    /// Reports that were stopped while the reporter worked at them.
    pub(crate) stopped: Vec<u64>,
    /// Whether there is a thread that reports.
    pub(crate) has_reporter: bool,
    /// The types of EventCounters, by the meter's name. `None`: they are refused.
    pub(crate) event_counters: HashMap<String, Option<MeterEventTypes>>,
    /// The instruments of the crate `metrics`: by meter, kind and name.
    #[cfg(feature = "metrics_facade")]
    pub(crate) recorded: HashMap<(String, InstrumentKind, String), BoundValue>,
    /// Units and descriptions of those that have not begun.
    #[cfg(feature = "metrics_facade")]
    pub(crate) described: HashMap<(String, InstrumentKind, String), (String, String)>,
}

static STATE: Mutex<Option<Box<MetricsState>>> = Mutex::new(None);
/// Notified when there is something to do for the reporter, and when it has done something.
pub(crate) static CHANGED: Condvar = Condvar::new();

/// The lock, while it is held.
pub(crate) type LockedState = MutexGuard<'static, Option<Box<MetricsState>>>;

/// Takes the lock. A thread that panicked while it had the lock has left nothing half done.
pub(crate) fn lock() -> LockedState {
    crate::metrics::state::process::accompany();
    STATE.lock()
}

/// The state behind the lock.
pub(crate) fn state(locked: &mut LockedState) -> &mut MetricsState {
    locked.get_or_insert_default()
}

impl MetricsState {
    /// Adds an instrument, without series.
    pub(crate) fn add(
        &mut self,
        meter: Arc<MeterInfo>,
        kind: InstrumentKind,
        description: Description,
    ) -> Arc<Instrument> {
        self.last_id += 1;
        let Description { name, unit, description, tags, callback } = description;
        let id = self.last_id;
        let instrument = Instrument { id, kind, meter, name, unit, description, tags, callback };
        let instrument = Arc::new(instrument);
        let entry = InstrumentEntry { instrument: Arc::clone(&instrument), series: HashMap::new() };
        self.instruments.insert(id, entry);
        self.note_change();
        instrument
    }

    /// The series of an instrument that has these tags.
    pub(crate) fn series(&mut self, instrument: &Instrument, tags: &str) -> Arc<Series> {
        let Some(entry) = self.instruments.get_mut(&instrument.id) else {
            unreachable!("its owner keeps it")
        };
        if let Some(series) = entry.series.get(tags) {
            return Arc::clone(series);
        }
        let is_full = entry.series.len() >= MAX_SERIES && !tags.is_empty();
        let tags = if is_full { OVERFLOW } else { tags };
        if let Some(series) = entry.series.get(tags) {
            return Arc::clone(series);
        }
        let tags: Arc<str> = tags.into();
        let value = StoredValue::new(instrument.kind, || self.cells.take());
        let series = Arc::new(Series { tags: Arc::clone(&tags), value });
        entry.series.insert(tags, Arc::clone(&series));
        series
    }

    /// Removes an instrument whose last handle has gone. Nobody adds to its cells any more: the
    /// handles of its series keep it.
    fn remove(&mut self, id: i32) -> Option<InstrumentEntry> {
        let entry = self.instruments.remove(&id)?;
        let cells = entry.series.values().map(|series| series.value.cell());
        self.cells.free.extend(cells.filter(|cell| *cell != NO_CELL));
        self.note_change();
        Some(entry)
    }

    fn note_change(&mut self) {
        self.changes += 1;
        if self.has_reporter {
            CHANGED.notify_all();
        }
    }
}

/// Keeps an instrument alive. All handles of an instrument share one.
#[derive(Debug)]
pub(crate) struct InstrumentOwner {
    pub(crate) instrument: Arc<Instrument>,
}

impl Drop for InstrumentOwner {
    fn drop(&mut self) {
        // A cell's next number begins with its sum, so everything that was added must be in it. The
        // count of handles has seen to that: its last decrement acquires what others released.
        let removed = state(&mut lock()).remove(self.instrument.id);
        // After the lock, because a callback is the application's.
        drop(removed);
    }
}

/// A value of an instrument: what a handle is bound to.
#[derive(Clone, Debug)]
pub(crate) struct BoundValue {
    pub(crate) series: Arc<Series>,
    pub(crate) owner: Arc<InstrumentOwner>,
}

impl BoundValue {
    /// A new instrument, and its series without tags.
    pub(crate) fn new(
        meter: Arc<MeterInfo>,
        kind: InstrumentKind,
        description: Description,
    ) -> Self {
        let mut locked = lock();
        Self::new_locked(state(&mut locked), meter, kind, description)
    }

    pub(crate) fn new_locked(
        state: &mut MetricsState,
        meter: Arc<MeterInfo>,
        kind: InstrumentKind,
        description: Description,
    ) -> Self {
        let instrument = state.add(meter, kind, description);
        let series = state.series(&instrument, "");
        Self { series, owner: Arc::new(InstrumentOwner { instrument }) }
    }

    /// The same instrument with other tags.
    pub(crate) fn tagged(&self, tags: &[(&str, &str)]) -> Self {
        let tags = tags_text(tags);
        let series = state(&mut lock()).series(&self.owner.instrument, &tags);
        Self { series, owner: Arc::clone(&self.owner) }
    }

    /// This thread's cell of a sum. If it has none, adds the value in another way.
    pub(crate) fn cell_or_add(&self, value: u64) -> Option<&'static AtomicU64> {
        let StoredValue::Sum { cell, shared, .. } = &self.series.value else { return None };
        if *cell == NO_CELL {
            shared.fetch_add(value, Ordering::Relaxed);
            return None;
        }
        cells::cell_or_add(*cell, value)
    }
}

/// Tags as .NET writes them, sorted by their keys. A comma is always one between tags, and what
/// stands before the first `=` or `:` is a whole key, so that who takes a tag out takes out all of
/// it.
pub(crate) fn tags_text(tags: &[(&str, &str)]) -> String {
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    let mut text = String::new();
    for (key, value) in tags {
        let comma = if text.is_empty() { "" } else { "," };
        let [key, value] = [key, value].map(|part| part.replace(',', "%2C"));
        let key = key.replace('=', "%3D").replace(':', "%3A");
        text.extend([comma, &key, "=", &value]);
    }
    text
}
