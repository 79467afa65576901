//! All sessions of the process: which slot each has, and what happens to them at `fork` and `exit`.
//!
//! A slot is a bit in the word of every event type. The table of slots is behind a lock. It is
//! taken when a session starts or ends, when a thread emits to a session for the first time, and
//! when a type registers.
//!
//! # fork
//!
//! The child of a `fork` has one thread and no sessions. Its copy of the table may be locked by a
//! thread that the child does not have. So the child starts with an empty table and leaves the old
//! one as it is (S1). It clears the session bits of every event type and the slots of its one
//! thread. The parent and its files are not affected. The child may start sessions of its own.
//!
//! # Process exit
//!
//! `exit` (and a return from `main`) flushes every session that was not finished, by a handler that
//! waits two seconds at most for all of them. A session whose sink [holds something
//! back](crate::sink::Sink::holds_back) then ends as if it were finished. The handler also waits for
//! sessions that another thread is finishing, unless that thread has given up on the sink. `_exit`,
//! `abort` and a signal flush nothing. Then the events of the last flush interval, and of the time
//! of one write, are missing. A panic that aborts does what `exit` does, if
//! [panics are recorded](crate::record_panics).
//!
//! Invariant S1: [`TABLE`] is null or points to a leaked `Mutex<Table>`, which is never freed.
#![allow(unsafe_code, reason = "S1")]

use std::{ptr, sync::Arc};

use nettrace_event::{
    EventType, Level, NOT_REGISTERED, SESSION_BITS,
    registry::{self, Backend, BackendEntry, RegisterError},
};
use nettrace_span::backend::LISTENERS;

#[cfg(feature = "testing")]
pub(crate) mod captures;
pub(crate) mod handler_events;
#[cfg(unix)]
mod handlers;
pub(crate) mod write_out;

use crate::{
    process::generation,
    shared::{
        Shared,
        error::Error,
        filter::ProviderFilter,
        known_types::{KnownType, SlotTypes},
        locks::holding_locks,
        refused_types::note_refused,
        slot_counters::{SampledOutCounts, UNPLACED},
        watchers,
    },
    sync::{AtomicPtr, AtomicU32, Mutex, Ordering},
};

static TABLE: AtomicPtr<Mutex<SessionTable>> = AtomicPtr::new(ptr::null_mut());
/// Bit of [`LISTENERS`], which otherwise counts the sessions that listen: the program uses
/// tracepoints, so the kernel may listen at any time.
#[cfg(any(unix, feature = "user_events"))]
const TRACEPOINTS: u32 = 1 << 31;
/// The number of changes of what sessions record.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// The number of the change by which the session in a slot began.
static BEGUN: [AtomicU32; SESSION_BITS as usize] =
    [const { AtomicU32::new(0) }; SESSION_BITS as usize];

#[derive(Debug, Default)]
struct SessionTable {
    slots: [Option<Arc<Shared>>; SESSION_BITS as usize],
    /// Sessions that have stopped listening and may still have events to write, by slot.
    ending: [Option<Arc<Shared>>; SESSION_BITS as usize],
    /// Slots that are taken. Their session need not listen: it may not have begun yet, or may have
    /// stopped.
    reserved: u32,
    known_types: SlotTypes,
    /// Problems at the start of sessions, the oldest first.
    problems: Vec<String>,
    #[cfg(feature = "testing")]
    captures: captures::Captures,
}

impl SessionTable {
    /// Takes a free slot.
    fn reserve(&mut self) -> Result<u32, Error> {
        let number = (0..SESSION_BITS)
            .find(|slot| self.reserved & (1 << slot) == 0)
            .ok_or(Error::TooManySessions { limit: SESSION_BITS })?;
        self.reserved |= 1 << number;
        Ok(number)
    }

    /// The bit of all captures together, which listen to everything. 0: there are none.
    fn captures(&self) -> u32 {
        #[cfg(feature = "testing")]
        return self.captures.bit();
        #[cfg(not(feature = "testing"))]
        return 0;
    }

    /// The bits that a session sets for events of a type: to record them, and to lose them. If it
    /// records them, their rows can come from now on.
    fn bits(&mut self, session: &Shared, ty: &'static EventType) -> (u32, u32) {
        let bit = 1 << session.slot;
        if !session.wants(ty) {
            return (0, 0);
        }
        if ty.index() == 0 {
            return (0, bit); // refused
        }
        if let Err(error) = session.describes(ty) {
            note_refused(error.into());
            return (0, bit);
        }
        if let Some(known) = self.known_types.add(session.slot, ty) {
            session.add_known_type(known);
        }
        (bit, 0)
    }
}

fn table() -> &'static Mutex<SessionTable> {
    // Acquire pairs with the release below.
    let mut pointer = TABLE.load(Ordering::Acquire);
    if pointer.is_null() {
        let new = Box::into_raw(Box::new(Mutex::new(SessionTable::default())));
        match TABLE.compare_exchange(pointer, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => pointer = new,
            Err(other) => {
                // SAFETY: allocated above, and never published.
                drop(unsafe { Box::from_raw(new) });
                pointer = other;
            }
        }
    }
    // SAFETY: S1.
    unsafe { &*pointer }
}

/// A slot that is reserved for one session while this lives.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u32,
    generation: u32,
}

impl Slot {
    /// Takes a free slot. `attach` says what records events.
    pub(crate) fn take(attach: fn()) -> Result<Self, Error> {
        holding_locks(|| prepare_process(attach));
        holding_locks(Self::take_free).unwrap_or(Err(Error::InSignalHandler))
    }

    fn take_free() -> Result<Self, Error> {
        let number = table().lock().reserve()?;
        UNPLACED[number as usize].store(0, Ordering::Relaxed);
        SampledOutCounts::of(number).reset();
        Ok(Self { number, generation: generation() })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether this process took the slot, and not the one that it was forked from.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    /// Makes the session listen to the types that it records.
    pub(crate) fn listen(&self, session: &Arc<Shared>) {
        holding_locks(|| {
            let mut table = table().lock();
            LISTENERS.fetch_add(1, Ordering::Relaxed);
            table.slots[self.number as usize] = Some(Arc::clone(session));
            for ty in attached_types() {
                let (records, loses) = table.bits(session, ty);
                registry::lose(ty, records, loses);
            }
            BEGUN[self.number as usize].store(note_change(), Ordering::Release);
        });
        watchers::changed();
    }

    /// Stops listening. Events that are under way may still arrive.
    pub(crate) fn stop_listening(&self) {
        stop_listening(self.number);
    }

    /// Makes `exit` stop waiting for the session, which has stopped listening. Nobody can tell when
    /// its sink returns.
    pub(crate) fn give_up(&self) {
        drop(holding_locks(|| table().lock().ending[self.number as usize].take()));
    }
}

fn stop_listening(slot: u32) {
    let has_listened = holding_locks(|| {
        let mut table = table().lock();
        let session = table.slots[slot as usize].take();
        let has_listened = session.is_some();
        if let Some(session) = session {
            table.ending[slot as usize] = Some(session);
            LISTENERS.fetch_sub(1, Ordering::Relaxed);
        }
        for ty in attached_types() {
            registry::listen(ty, 0, 1 << slot);
        }
        if has_listened {
            note_change();
        }
        has_listened
    });
    if has_listened == Some(true) {
        watchers::changed();
    }
}

/// Counts a change of what sessions record, under the table's lock. Returns its number.
fn note_change() -> u32 {
    CHANGES.fetch_add(1, Ordering::Relaxed) + 1
}

/// The number of changes of what sessions record.
#[inline]
pub(crate) fn changes() -> u32 {
    CHANGES.load(Ordering::Relaxed)
}

/// The slots whose sessions began after so many changes, as bits.
pub(crate) fn begun_after(changes: u32) -> u32 {
    let begun = BEGUN.iter().map(|begun| begun.load(Ordering::Acquire));
    let slots = (0..).zip(begun).filter(|(_, begun)| begun.wrapping_sub(changes + 1) < 1 << 31);
    slots.fold(0, |bits, (slot, _): (u32, u32)| bits | 1 << slot)
}

/// Whether some session records events of this provider, level and keywords. In a signal handler
/// that interrupted the taking of locks the answer is `true`.
pub(crate) fn is_wanted(provider: &str, level: Level, keywords: u64) -> bool {
    let is_wanted = || {
        let table = table().lock();
        let selects = |session: &Arc<Shared>| session.selects(provider, level, keywords);
        table.captures() != 0 || table.slots.iter().flatten().any(selects)
    };
    holding_locks(is_wanted).unwrap_or(true)
}

/// The slots of the sessions that record events of this provider, level and keywords, as bits.
/// `None`: this is a signal handler that interrupted the taking of locks.
pub(crate) fn wanting(provider: &str, level: Level, keywords: u64) -> Option<u32> {
    holding_locks(|| {
        let table = table().lock();
        let sessions = table.slots.iter().flatten();
        let wanting = sessions.filter(|session| session.selects(provider, level, keywords));
        wanting.fold(0, |bits, session| bits | 1 << session.slot)
    })
}

/// Counts an event in every slot, also where nobody listens, so that it is not lost silently.
pub(crate) fn count_everywhere(events: u64) {
    for unplaced in &UNPLACED[..SESSION_BITS as usize] {
        unplaced.fetch_add(events, Ordering::Relaxed);
    }
}

/// The highest level that some session records. In a signal handler that interrupted the taking of
/// locks it is the highest of all.
pub(crate) fn max_level() -> Option<Level> {
    let max_level = || {
        let table = table().lock();
        let of_captures = (table.captures() != 0).then_some(Level::new(u8::MAX));
        let levels = table.slots.iter().flatten().map(|session| session.max_level());
        levels.chain([of_captures]).flatten().max()
    };
    holding_locks(max_level).unwrap_or(Some(Level::new(u8::MAX)))
}

/// Every type whose word sessions have set, refused ones as well. Under the table's lock.
///
/// A type that is not among them is being registered, and its registration has yet to call
/// [`attach`](Backend::attach) or [`refused`](Backend::refused), which waits for the lock and then
/// sees the table as it is now. Its word is left as it is, so that other threads that emit it wait
/// for the registration: a zero would tell them that nobody listens.
fn attached_types() -> impl Iterator<Item = &'static EventType> {
    let all = registry::types().chain(registry::refused());
    all.filter(|ty| ty.enabled() != NOT_REGISTERED || ty.is_settled())
}

/// Changes which events a live session records. `None`: this is a signal handler that interrupted
/// the taking of locks. `Some(false)`: the session does not listen any more.
///
/// # When it takes effect
///
/// An emit decides by one relaxed load of the type's word, as ever. The words have changed when
/// this returns, so an emit that begins later (by whatever means its thread learns of the return)
/// reads the new value: a load cannot see a value older than one that happened before it. An emit
/// that is under way may have read either value, and records its event wholly or not at all: the
/// word decides once, before anything is written. Where several sessions listen, an emit looks at
/// the word again before each of them. If it finds the bit gone, no event is lost, because none was
/// counted.
///
/// # Who else changes words
///
/// Everybody does so under the table's lock: sessions that start and end, types that register,
/// this. A type that registers meanwhile is either attached, and changed here, or will be attached
/// with the new filters: see [`attached_types`].
pub(crate) fn set_filters(session: &Arc<Shared>, filters: Vec<ProviderFilter>) -> Option<bool> {
    let is_set = holding_locks(|| {
        let mut table = table().lock();
        let listens = table.slots[session.slot as usize].as_ref();
        if !listens.is_some_and(|listening| Arc::ptr_eq(listening, session)) {
            return false;
        }
        session.set_filters(filters);
        for ty in attached_types() {
            match table.bits(session, ty) {
                (0, 0) => registry::listen(ty, 0, 1 << session.slot),
                (records, loses) => registry::lose(ty, records, loses),
            }
        }
        note_change();
        true
    });
    if is_set == Some(true) {
        watchers::changed();
    }
    is_set
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_ours() {
            self.stop_listening();
            self.give_up();
            holding_locks(|| table().lock().reserved &= !(1 << self.number));
        }
    }
}

/// Says that the program uses tracepoints.
#[cfg(feature = "user_events")]
pub(crate) fn tracepoints_are_used() {
    LISTENERS.fetch_or(TRACEPOINTS, Ordering::Relaxed);
}

/// The session that listens in a slot.
pub(crate) fn session(slot: u32) -> Option<Arc<Shared>> {
    table().lock().slots.get(slot as usize)?.clone()
}

/// The number of problems remembered.
const MOST_PROBLEMS: usize = 16;

/// Remembers, once, that something did not start.
pub(crate) fn note_problem(attach: fn(), problem: String) {
    holding_locks(|| {
        prepare_process(attach);
        let problems = &mut table().lock().problems;
        if !problems.contains(&problem) {
            problems.truncate(MOST_PROBLEMS - 1);
            problems.push(problem);
        }
    });
}

/// Problems at the start of sessions so far. Empty in a signal handler that interrupted the taking
/// of locks.
pub(crate) fn problems() -> Vec<String> {
    holding_locks(|| table().lock().problems.clone()).unwrap_or_default()
}

/// The sessions that listen, and the changes after which each began.
pub(crate) fn live() -> Vec<(u32, Arc<Shared>)> {
    let table = table().lock();
    let sessions = table.slots.iter().zip(&BEGUN).filter_map(|(session, begun)| {
        Some((begun.load(Ordering::Acquire), Arc::clone(session.as_ref()?)))
    });
    sessions.collect()
}

/// The types that earlier sessions in a slot listened to, for the session that begins there.
///
/// A thread may have read such a type's word while an earlier session listened. A signal handler
/// may then interrupt it, emit to the present session and so give the thread a buffer in the slot.
/// When the thread goes on it writes its event into that buffer. The session has not asked for the
/// event, but it can write it like any other if the trace defines its type.
pub(crate) fn known_types(slot: u32) -> Vec<KnownType> {
    holding_locks(|| table().lock().known_types.begin(slot)).unwrap_or_default()
}

/// All sessions together, as one backend of the registry.
#[derive(Debug)]
struct Sessions;

impl Backend for Sessions {
    fn attach(&self, ty: &'static EventType) {
        let mut table = table().lock();
        let sessions: Vec<_> = table.slots.iter().flatten().cloned().collect();
        // All bits at once: an event is recorded or lost in each session that wants it.
        let all = sessions.iter().map(|session| table.bits(session, ty));
        let (records, loses) = all.fold((0, 0), |a, b| (a.0 | b.0, a.1 | b.1));
        registry::lose(ty, records | table.captures(), loses);
    }

    fn refused(&self, ty: &'static EventType) {
        self.attach(ty);
    }
}

/// Registers a type at its first event, so that its word is valid. If the type is refused,
/// [`refused_types`](crate::refused_types) says why, and its word names the sessions that lose its events. Returns
/// `false` in a signal handler that interrupted the taking of locks. When the locks are released,
/// the type is registered and the event is counted: see [`handler_events`].
pub(crate) fn register(ty: &'static EventType) -> bool {
    register_for(ty, 1)
}

/// [`register`] for so many events.
fn register_for(ty: &'static EventType, events: u64) -> bool {
    match register_now(ty) {
        Ok(()) => {}
        Err(RegisterError::Busy { .. }) => {
            handler_events::note(ty, events);
            // The events are counted then, even if another thread has settled the type by now.
            return false;
        }
        Err(error) => note_refused(error.into()),
    }
    true
}

/// Registers a type. Fails with [`RegisterError::Busy`] in a signal handler that interrupted the
/// taking of locks.
pub(crate) fn register_now(ty: &'static EventType) -> Result<(), RegisterError> {
    let registered = holding_locks(|| {
        install_handlers();
        #[cfg(feature = "user_events")]
        use_tracepoints();
        registry::register(ty)
    });
    registered.unwrap_or(Err(RegisterError::Busy { refused: ty.schema() }))
}

/// Prepares the process for its first session.
fn prepare_process(attach: fn()) {
    static BACKEND: BackendEntry = BackendEntry::new(&Sessions);
    install_handlers();
    // Before any bit of a session is in a word: no event of a type that was set aside may be lost
    // from then on.
    attach();
    registry::install(&BACKEND);
    note_refused_types();
    #[cfg(feature = "user_events")]
    use_tracepoints();
}

/// Remembers the types that were refused when nobody was there to tell.
fn note_refused_types() {
    for error in registry::refused().filter_map(|ty| registry::register(ty).err()) {
        if !matches!(error, RegisterError::Busy { .. }) {
            note_refused(error.into());
        }
    }
}

#[cfg(feature = "user_events")]
fn use_tracepoints() {
    tracepoints_are_used();
    eventheader_writer::backend::install();
}

/// Installs the handlers of `fork` and `exit`. To be called before the first lock, which a forked
/// child could find taken.
fn install_handlers() {
    #[cfg(unix)]
    handlers::install();
}
