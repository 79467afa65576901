//! The registered types and run-time tracepoints of the process, the descriptor that they are
//! registered with, and their status.
//!
//! # One registration per type, one tracepoint per (provider, level, keywords, group)
//!
//! The kernel sets a bit of a *word* while somebody listens, and a registration has one word. An
//! emit loads its type's own word, because sessions of other backends have their bits in it. So
//! each type is registered with its own word, under the name that all types of the same provider,
//! level, keywords and group share. To the kernel these are one tracepoint with one write index.
//!
//! Rejected: one registration for all types of a tracepoint. An emit would have to load that word
//! in addition to the type's: a second load and branch in every emit, listened to or not. It would
//! save some microseconds and about a hundred bytes of kernel memory once per type.
//!
//! # When types are registered
//!
//! A type is registered with the kernel when it is first registered in the process: by its first
//! emit, or earlier by [`register`](crate::register()). If the kernel cannot take it, the type
//! waits. The next registration of another type (at most once per second) or [`retry`] tries again.
//! Waiting costs an emit nothing, because the word stays 0. If the kernel refuses one tracepoint,
//! the others are still registered.
//!
//! The kernel may set a word before the registering thread has published where events go. Another
//! thread that emits in between waits for it. A signal handler on the registering thread does not
//! wait; its event counts as [`disabled`](crate::Counters::disabled).

mod names;
mod points;
mod process;
mod registrar;
mod status;

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap},
    ffi::CString,
    fs::File,
    io,
    ops::{Deref, DerefMut},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nettrace_event::{
    EventType, KERNEL_BIT,
    registry::{self, Backend, BackendEntry},
};

pub(crate) use self::names::Parts;
pub(crate) use self::points::{Channel, RuntimePoint, type_point};
pub use self::status::{Status, TracepointStatus, status};
use self::{names::Names, points::TypePoint};
use crate::{
    header::{self, Preamble},
    sync::{AtomicU32, Ordering},
    tracefs::{self, Availability},
};

/// The bit of a word that the kernel owns.
pub(crate) const KERNEL: u32 = 1 << KERNEL_BIT;

/// The least time between a failed registration and the next try, unless somebody asks for one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries to register the waiting types and tracepoints. Call it after mounting tracefs or granting
/// rights. Returns the result.
///
/// ```
/// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
/// let status = eventheader_writer::retry();
/// println!("{}", status.availability.explanation());
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(clippy::must_use_candidate, reason = "it is called to register what waits")]
pub fn retry() -> Status {
    install();
    describe_all();
    lock().register_waiting();
    status()
}

/// Sends events to a file instead of the kernel. Each event is one `write` of the bytes that the
/// kernel would get. All tracepoints are enabled.
///
/// For tests, benchmarks and your own recordings. Call it once, before the first registration; a
/// later call moves the registered tracepoints to the new file.
///
/// ```
/// use eventheader_writer::{Emit, redirect};
/// # use eventheader_writer::TraceEvent;
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs", level = Warning, keywords = 0x3)]
/// # struct Slow { micros: u64 }
///
/// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
/// redirect(std::fs::File::create(&path)?)?;
/// Slow { micros: 180 }.emit();
/// assert!(std::fs::metadata(&path)?.len() > 0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] on other systems than Linux.
pub fn redirect(file: File) -> io::Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    install();
    let mut state = lock();
    state.unregister_all();
    // The old descriptor stays open, because an event may be being written to it.
    if let Some(EventTarget { file, .. }) = state.target.replace(EventTarget::plain(file)) {
        std::mem::forget(file);
    }
    state.is_closed = false;
    state.availability = Availability::Redirected;
    state.register_waiting();
    Ok(())
}

/// Installs this crate as a backend. Every function that registers calls it.
pub fn install() {
    static BACKEND: BackendEntry = BackendEntry::new(&Tracepoints);
    static HAS_HANDLERS: AtomicU32 = AtomicU32::new(0);
    // Several threads may do this at once, and the handlers may be called more than once, which is
    // harmless. Waiting for another thread would not be: a child of `fork` does not have that
    // thread.
    if HAS_HANDLERS.load(Ordering::Relaxed) == 0 {
        process::accompany();
        HAS_HANDLERS.store(1, Ordering::Relaxed);
    }
    registry::install(&BACKEND);
}

/// Waits for a registration that is under way. Returns `false` if a signal handler has interrupted
/// this thread's own registration.
#[cold]
pub(crate) fn settle() -> bool {
    let is_own = LOCKED_HERE.get();
    if !is_own {
        drop(lock());
    }
    !is_own
}

/// Registers a tracepoint at run time.
pub(crate) fn register_runtime(parts: Parts) -> (&'static RuntimePoint, String) {
    install();
    let mut state = lock();
    let point = state.free.pop().unwrap_or_else(|| {
        let point = RuntimePoint { word: AtomicU32::new(0), channel: Channel::new() };
        Box::leak(Box::new(point))
    });
    let name = state.add(parts, &point.word, &point.channel);
    (point, name)
}

/// Unregisters a tracepoint of [`register_runtime`].
pub(crate) fn unregister_runtime(point: &'static RuntimePoint) {
    let mut state = lock();
    let at = state.entries.iter().position(|entry| std::ptr::eq(entry.word, &point.word));
    let Some(at) = at else { return };
    let entry = state.entries.swap_remove(at);
    if state.entries.iter().all(|other| other.name != entry.name) {
        state.names.give_back(&entry.name);
    }
    if entry.is_registered && !state.unregister(&entry) {
        // The kernel may still set the word, so it must not be reused.
        return;
    }
    point.channel.clear();
    point.word.store(0, Ordering::Relaxed);
    state.free.push(point);
}

static STATE: Mutex<RegistrationState> = Mutex::new(RegistrationState::new());

thread_local! {
    /// Whether this thread holds the lock.
    static LOCKED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// The state, locked by this thread.
struct LockedState(Option<MutexGuard<'static, RegistrationState>>);

fn lock() -> LockedState {
    LOCKED_HERE.set(true);
    LockedState(Some(STATE.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Deref for LockedState {
    type Target = RegistrationState;

    fn deref(&self) -> &RegistrationState {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for LockedState {
    fn deref_mut(&mut self) -> &mut RegistrationState {
        self.0.as_mut().expect("there until it is dropped")
    }
}

impl Drop for LockedState {
    fn drop(&mut self) {
        // A signal handler between the two must not find the lock held and the flag clear.
        self.0 = None;
        LOCKED_HERE.set(false);
        if MISSED.load(Ordering::Relaxed) != 0 && MISSED.swap(0, Ordering::Relaxed) != 0 {
            describe_all();
        }
    }
}

/// Whether types were registered by a thread that already held the lock: in a signal handler, or in
/// another `fork` handler. They are described when it releases the lock.
static MISSED: AtomicU32 = AtomicU32::new(0);

/// Describes and registers all types that are not yet described.
fn describe_all() {
    let mut state = lock();
    let all = registry::types().chain(registry::refused());
    for ty in all.filter(|ty| ty.is_settled()) {
        state.describe(ty);
    }
}

#[derive(Debug)]
struct RegistrationState {
    target: Option<EventTarget>,
    availability: Availability,
    last_failure: Option<Instant>,
    entries: Vec<WordEntry>,
    names: Names,
    /// The addresses of the types that have entries.
    described: BTreeSet<usize>,
    /// The index of each refused type, and the reason.
    refused: Vec<(u32, String)>,
    free: Vec<&'static RuntimePoint>,
    /// Whether the process or the library is ending.
    is_closed: bool,
}

/// A registered or waiting word.
#[derive(Debug)]
struct WordEntry {
    parts: Parts,
    name: String,
    /// Why it has another name than its own.
    renamed: Option<String>,
    word: &'static AtomicU32,
    channel: &'static Channel,
    is_registered: bool,
    /// Why it is not registered, if an attempt failed.
    error: Option<i32>,
}

/// Where events go.
#[derive(Debug)]
struct EventTarget {
    file: File,
    /// The write index of each name; `None` if the target is the kernel, which assigns them.
    names: Option<HashMap<String, u32>>,
    path: PathBuf,
}

impl EventTarget {
    fn plain(file: File) -> Self {
        Self { file, names: Some(HashMap::new()), path: PathBuf::new() }
    }
}

impl RegistrationState {
    const fn new() -> Self {
        Self {
            target: None,
            availability: Availability::Unknown,
            last_failure: None,
            entries: Vec::new(),
            names: Names::new(),
            described: BTreeSet::new(),
            refused: Vec::new(),
            free: Vec::new(),
            is_closed: false,
        }
    }

    /// Builds the constant part of a type's events, and registers its word. Does nothing for a type
    /// that is known. The word of a type that is refused, by the registry or here, is registered as
    /// well: who listens to its tracepoint loses its events, and they are counted.
    fn describe(&mut self, ty: &'static EventType) {
        if !self.described.insert(std::ptr::from_ref(ty).addr()) {
            return;
        }
        let schema = ty.schema();
        // The registry has given a refused type no index.
        let slot = if ty.index() == 0 { None } else { points::slot(ty.index()) };
        if let Some(slot) = slot.filter(|slot| slot.get().is_none()) {
            match Preamble::of_schema(schema) {
                Ok(preamble) => {
                    let _ = slot.set(TypePoint { preamble, channel: Channel::new() });
                }
                Err(error) => {
                    if self.refused.iter().all(|(refused, _)| *refused != ty.index()) {
                        self.refused.push((ty.index(), error.to_string()));
                    }
                }
            }
        }
        let point = slot.and_then(|slot| slot.get());
        let channel = point.map_or(&points::NOWHERE, |point| &point.channel);
        let parts = Parts {
            provider: schema.provider.name.to_owned(),
            group: schema.provider.group.map(str::to_owned),
            level: header::level(schema.level),
            keywords: schema.keywords,
        };
        self.add(parts, ty.enabled_word(), channel);
    }

    /// Registers a word, or makes it wait. Returns the name of its tracepoint.
    fn add(&mut self, parts: Parts, word: &'static AtomicU32, channel: &'static Channel) -> String {
        let (name, renamed) = self.names.take(&parts);
        let mut entry =
            WordEntry { parts, name, renamed, word, channel, is_registered: false, error: None };
        let at = self.entries.len();
        // Most often nothing waits, and the others need not be looked at.
        let works =
            matches!(self.availability, Availability::Ready { .. } | Availability::Redirected);
        let waits = !works || self.last_failure.is_some() || self.is_closed;
        if let Some(target) = self.target.as_mut().filter(|_| !waits) {
            register(target, &mut entry, &mut self.names);
        }
        let is_registered = entry.is_registered;
        self.entries.push(entry);
        if is_registered {
            return self.entries[at].name.clone();
        }
        let soon = self.last_failure.is_some_and(|then| then.elapsed() < PATIENCE);
        if soon {
            // Skip words that failed a moment ago, but try this one.
            if let Some(target) = self.target.as_mut().filter(|_| !self.is_closed) {
                register(target, &mut self.entries[at], &mut self.names);
            }
            self.judge();
        } else {
            self.register_waiting();
        }
        self.entries[at].name.clone()
    }

    fn register_waiting(&mut self) {
        if self.is_closed || self.entries.iter().all(|entry| entry.is_registered) {
            return;
        }
        if self.target.is_none() {
            match tracefs::open() {
                Ok((file, path)) => self.target = Some(EventTarget { file, names: None, path }),
                Err(problem) => {
                    self.availability = problem;
                    self.last_failure = Some(Instant::now());
                    return;
                }
            }
        }
        let Some(target) = &mut self.target else { return };
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_registered) {
            register(target, entry, &mut self.names);
        }
        let failed = self.entries.iter().any(|entry| !entry.is_registered);
        self.last_failure = failed.then(Instant::now);
        self.judge();
    }

    /// Updates the availability of the target. If one tracepoint is registered, failures of others
    /// do not affect it.
    fn judge(&mut self) {
        let Some(target) = &self.target else { return };
        let path = target.path.clone();
        let failure = self.entries.iter().find_map(|entry| entry.error);
        let works = self.entries.iter().any(|entry| entry.is_registered);
        self.availability = match failure {
            _ if target.names.is_some() => Availability::Redirected,
            Some(errno) if !works => Availability::Failed { path, errno },
            _ => Availability::Ready { path },
        };
    }

    /// Unregisters a word. Returns whether the kernel has let go of it.
    fn unregister(&self, entry: &WordEntry) -> bool {
        match &self.target {
            Some(EventTarget { file, names: None, .. }) => {
                registrar::unregister(raw(file), entry.word, KERNEL_BIT).is_ok()
            }
            _ => {
                entry.word.fetch_and(!KERNEL, Ordering::Relaxed);
                true
            }
        }
    }

    /// Registers all registered words again, because the kernel has probably forgotten them. The
    /// kernel still knows them if another user of tracepoints in the process put both threads into
    /// one family.
    fn register_again(&mut self) {
        let Some(target) = self.target.as_mut().filter(|target| target.names.is_none()) else {
            return;
        };
        for entry in self.entries.iter_mut().filter(|entry| entry.is_registered) {
            let _ = registrar::unregister(raw(&target.file), entry.word, KERNEL_BIT);
            // The bit is the parent's, copied at the time of the fork.
            entry.word.fetch_and(!KERNEL, Ordering::Relaxed);
            register(target, entry, &mut self.names);
        }
        if self.entries.iter().any(|entry| !entry.is_registered) {
            self.last_failure = Some(Instant::now());
        }
        self.judge();
    }

    fn unregister_all(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        for entry in entries.iter_mut().filter(|entry| entry.is_registered) {
            self.unregister(entry);
            entry.is_registered = false;
        }
        self.entries = entries;
    }
}

/// Registers a waiting word and stores the result in its entry.
fn register(target: &mut EventTarget, entry: &mut WordEntry, names: &mut Names) {
    let fd = raw(&target.file);
    let word = entry.word;
    let index = with_free_name(entry, names, |name| match &mut target.names {
        None => CString::new(header::registration(name))
            .map_err(io::Error::from)
            .and_then(|command| registrar::register(fd, &command, word, KERNEL_BIT)),
        Some(names) => {
            let next = names.len() as u32;
            Ok(*names.entry(name.to_owned()).or_insert(next))
        }
    });
    entry.is_registered = index.is_ok();
    match index {
        Ok(index) => {
            entry.error = None;
            entry.channel.store(fd, index);
            if target.names.is_some() {
                entry.word.fetch_or(KERNEL, Ordering::Relaxed);
            }
        }
        Err(error) => entry.error = Some(error.raw_os_error().unwrap_or(0)),
    }
}

/// Tries a registration, and once more under another name if another process has the first one with
/// other fields.
fn with_free_name(
    entry: &mut WordEntry,
    names: &mut Names,
    mut try_name: impl FnMut(&str) -> io::Result<u32>,
) -> io::Result<u32> {
    let tried = try_name(&entry.name);
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    if entry.renamed.is_some() || !tried.as_ref().is_err_and(is_taken) {
        return tried;
    }
    let other = names.take_other(&entry.parts);
    let index = try_name(&other)?;
    let own = std::mem::replace(&mut entry.name, other);
    entry.renamed = Some(format!("another process has `{own}` with other fields"));
    Ok(index)
}

#[cfg(target_os = "linux")]
fn raw(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

#[cfg(not(target_os = "linux"))]
fn raw(_: &File) -> i32 {
    -1
}

/// All tracepoints together, as one backend of the registry of types.
#[derive(Debug)]
struct Tracepoints;

impl Backend for Tracepoints {
    fn attach(&self, _: &'static EventType) {}

    fn settled(&self, ty: &'static EventType) {
        if LOCKED_HERE.get() {
            MISSED.store(1, Ordering::Relaxed);
        } else {
            lock().describe(ty);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
#[path = "state_tests.rs"]
mod tests;
