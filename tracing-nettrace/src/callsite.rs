//! Callsites, and their event types.
//!
//! A callsite of `tracing` has metadata, which is a `static`. Its address is the key. Generic
//! functions share one callsite, which records fields of different types: so an event type belongs
//! to a callsite and a [signature](crate::values::Signature). It is made when an event first has
//! that signature, is found without a lock from then on, and is never removed, because sessions
//! keep it.

use std::ptr;

use nettrace_writer::{Level, bridge, event::EventType};
use tracing_core::Metadata;

use crate::{
    schema::{self, Part},
    stats,
    sync::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, PoisonError},
    table::{Key, Table, hash},
    values::Signature,
    words,
};

/// The most event types of a process that this crate makes.
const MAX_TYPES: u32 = 8_192;
/// The most signatures of a callsite.
const MAX_SIGNATURES: usize = 64;

/// Events of spans and events that `tracing` has no lower level than this for.
///
/// `TRACE` and `DEBUG` are both [`Level::Verbose`], as .NET's tools have no lower level. Events and
/// spans of `TRACE` have this keyword, so a filter can leave them out:
///
/// ```
/// use nettrace_writer::{Level, ProviderFilter};
/// use tracing_nettrace::KEYWORD_TRACE;
///
/// let debug = ProviderFilter::new("my_service").level(Level::Verbose).keywords(!KEYWORD_TRACE);
/// ```
pub const KEYWORD_TRACE: u64 = 1 << 47;

/// How callsites get their providers and keywords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Naming {
    /// Whether the provider is the whole target and not the crate alone.
    pub(crate) whole_target: bool,
    /// The keywords of targets that begin with a path.
    pub(crate) keywords: Vec<(String, u64)>,
}

impl Naming {
    /// The same for all who want this one, for as long as the process runs.
    pub(crate) fn shared(self) -> &'static Self {
        static ALL: Mutex<Vec<&Naming>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = all.iter().find(|other| ***other == self) {
            return same;
        }
        let new: &'static Self = Box::leak(Box::new(self));
        all.push(new);
        new
    }

    /// The provider of a target.
    fn provider(&self, target: &str) -> &'static str {
        let target = if self.whole_target {
            target.replace("::", ".")
        } else {
            target.split("::").next().unwrap_or_default().to_owned()
        };
        schema::provider_name(target)
    }

    fn keywords(&self, metadata: &Metadata<'_>) -> u64 {
        let target = metadata.target();
        let is_of = |path: &str| {
            target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let of_target = self.keywords.iter().filter(|(path, _)| is_of(path));
        let of_level =
            if *metadata.level() == tracing_core::Level::TRACE { KEYWORD_TRACE } else { 0 };
        of_target.fold(of_level, |all, (_, keywords)| all | keywords)
    }
}

/// A callsite, as one [`Naming`] has it.
#[derive(Debug)]
pub(crate) struct Callsite {
    pub(crate) metadata: &'static Metadata<'static>,
    naming: &'static Naming,
    pub(crate) provider: &'static str,
    pub(crate) level: Level,
    pub(crate) keywords: u64,
    /// What [`at`](Self::at) finds it by.
    word: AtomicU64,
    /// Whether some session wants it (bit 0), and the number of the change that is known (above).
    wanted: AtomicU64,
    /// Whether records of the crate `log` come from here, which `tracing-log` has made events.
    pub(crate) is_of_log: bool,
    /// Whether it is an event with the one field `error`, as `#[instrument(err)]` has it.
    pub(crate) tells_error: bool,
    /// The types of an event, or of a span's Start.
    events: Types,
    /// The types of fields that are recorded later.
    records: Types,
    others: [OnceLock<Option<&'static EventType>>; Part::OTHERS],
}

/// The address of metadata is an even number.
const _: () = assert!(align_of::<Metadata<'_>>() > 1);

/// The callsites of all namings.
static CALLSITES: Table<&'static Callsite, 2> = Table::new();

/// The key of the callsite whose metadata has this address.
#[inline(always)]
fn key(address: usize, naming: &'static Naming) -> Key {
    let naming = ptr::from_ref(naming).addr();
    // Neighbours among callsites are neighbours in memory.
    Key { near: address >> 4 ^ address >> 14, hash: hash(address as u64 ^ (naming as u64) << 16) }
}

impl Callsite {
    /// The callsite with this metadata. `None` if the process has too many.
    #[inline]
    pub(crate) fn of(
        metadata: &'static Metadata<'static>,
        naming: &'static Naming,
    ) -> Option<&'static Self> {
        Self::find(metadata, naming).or_else(|| Self::make(metadata, naming))
    }

    /// The callsite with this metadata, if it is known.
    #[inline]
    pub(crate) fn find(metadata: &Metadata<'_>, naming: &'static Naming) -> Option<&'static Self> {
        let is_it =
            |other: &&Self| ptr::addr_eq(other.metadata, metadata) && ptr::eq(other.naming, naming);
        CALLSITES.find(key(ptr::from_ref(metadata).addr(), naming), is_it).copied()
    }

    /// The callsite with this [word](Self::to_word).
    #[inline]
    pub(crate) fn at(word: u64, naming: &'static Naming) -> Option<&'static Self> {
        if word & 1 == 0 {
            return Self::at_address(word, naming);
        }
        CALLSITES.first((word >> 1) as usize).copied()
    }

    #[inline(never)]
    fn at_address(address: u64, naming: &'static Naming) -> Option<&'static Self> {
        let is_it = |other: &&Self| {
            ptr::from_ref(other.metadata).addr() as u64 == address && ptr::eq(other.naming, naming)
        };
        CALLSITES.find(key(address as usize, naming), is_it).copied()
    }

    /// A number to [find](Self::at) it by: if it is in the first of its places, that place (with
    /// bit 0), and otherwise the address of its metadata, which is an even number.
    #[inline]
    pub(crate) fn to_word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    #[cold]
    fn make(
        metadata: &'static Metadata<'static>,
        naming: &'static Naming,
    ) -> Option<&'static Self> {
        let is_it =
            |other: &&Self| ptr::eq(other.metadata, metadata) && ptr::eq(other.naming, naming);
        let make = || -> &'static Self {
            let provider = naming.provider(metadata.target());
            let level = schema::level(metadata.level());
            let keywords = naming.keywords(metadata);
            Box::leak(Box::new(Self {
                metadata,
                naming,
                provider,
                level,
                keywords,
                word: AtomicU64::new(ptr::from_ref(metadata).addr() as u64),
                wanted: AtomicU64::new(u64::MAX),
                is_of_log: is_of_log(metadata),
                tells_error: metadata.is_event()
                    && metadata.fields().iter().map(|field| field.name()).eq(["error"]),
                events: Types::default(),
                records: Types::default(),
                others: [const { OnceLock::new() }; Part::OTHERS],
            }))
        };
        let key = key(ptr::from_ref(metadata).addr(), naming);
        let callsite = *CALLSITES.find_or_make(key, is_it, make)?;
        if CALLSITES.first(key.near).is_some_and(|first| ptr::eq(*first, callsite)) {
            callsite.word.store((key.near as u64) << 1 | 1, Ordering::Relaxed);
        }
        Some(callsite)
    }

    /// Whether some session wants it. Asks the sessions again if they have changed.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted_after(bridge::changes())
    }

    /// [`is_wanted`](Self::is_wanted) after so many changes, which the caller has just read.
    #[inline]
    pub(crate) fn is_wanted_after(&self, changes: u32) -> bool {
        // Relaxed: the word is the whole state. An event may miss a session that has just begun.
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted >> 1 == u64::from(changes) { wanted & 1 != 0 } else { self.ask() }
    }

    #[cold]
    fn ask(&self) -> bool {
        let changes = bridge::changes();
        let is_wanted = bridge::is_wanted(self.provider, self.level, self.keywords);
        self.wanted.store(u64::from(changes) << 1 | u64::from(is_wanted), Ordering::Relaxed);
        is_wanted
    }

    /// The type of an event, or of a span's Start, whose fields have these types.
    #[inline(always)]
    pub(crate) fn event_type(&self, signature: Signature) -> Option<&'static EventType> {
        self.events.get(self, None, signature)
    }

    /// Whether an event, or a span's Start, probably has a few numbers and nothing else: the first
    /// one was of that kind.
    #[inline(always)]
    pub(crate) fn has_words(&self) -> bool {
        self.events.first.get().is_some_and(|entry| entry.has_words)
    }

    /// The type of an event that has a span's later fields.
    pub(crate) fn record_type(&self, signature: Signature) -> Option<&'static EventType> {
        self.records.get(self, Some(Part::Record), signature)
    }

    /// The type of one of a span's other events.
    #[inline]
    pub(crate) fn other_type(&self, part: Part) -> Option<&'static EventType> {
        let ty = self.others[part as usize].get_or_init(|| new_type(self, part, 0));
        if ty.is_none() {
            stats::EVENTS_REFUSED.add(1);
        }
        *ty
    }
}

/// Whether records of the crate `log` come from here: `tracing-log` has one callsite for each
/// level.
pub(crate) fn is_of_log(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "log" && metadata.name() == "log event"
}

/// The types of a callsite's events by their signatures: a list that only grows.
#[derive(Debug, Default)]
struct Types {
    first: OnceLock<Entry>,
}

#[derive(Debug)]
struct Entry {
    signature: Signature,
    /// Whether such values are a few numbers: see [`words`](crate::words).
    has_words: bool,
    /// `None`: it was refused.
    ty: Option<&'static EventType>,
    next: OnceLock<Box<Entry>>,
}

impl Types {
    /// The type for a signature. Without a part, that of an event or of a span's Start.
    #[inline(always)]
    fn get(
        &self,
        callsite: &Callsite,
        part: Option<Part>,
        signature: Signature,
    ) -> Option<&'static EventType> {
        match self.first.get() {
            Some(entry) if entry.signature == signature && entry.ty.is_some() => entry.ty,
            _ => self.get_slowly(callsite, part, signature),
        }
    }

    #[inline(never)]
    fn get_slowly(
        &self,
        callsite: &Callsite,
        part: Option<Part>,
        signature: Signature,
    ) -> Option<&'static EventType> {
        let is_span = callsite.metadata.is_span();
        let part = part.unwrap_or(if is_span { Part::Start } else { Part::Event });
        let make = || Entry {
            signature,
            has_words: words::can_have(signature),
            ty: new_type(callsite, part, signature),
            next: OnceLock::new(),
        };
        let mut entry = self.first.get_or_init(make);
        let mut count = 1;
        while entry.signature != signature {
            if count == MAX_SIGNATURES && entry.next.get().is_none() {
                stats::TYPES_REFUSED.add(1);
                stats::EVENTS_REFUSED.add(1);
                return None;
            }
            entry = entry.next.get_or_init(|| Box::new(make()));
            count += 1;
        }
        if entry.ty.is_none() {
            stats::EVENTS_REFUSED.add(1);
        }
        entry.ty
    }
}

/// Makes a type and registers it.
#[cold]
fn new_type(callsite: &Callsite, part: Part, signature: Signature) -> Option<&'static EventType> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number counts.
    let take = |count| (count < MAX_TYPES).then_some(count + 1);
    let has_room = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
    let ty = has_room.then(|| schema::registered(callsite, part, signature));
    match ty {
        Some(_) => stats::TYPES.add(1),
        None => stats::TYPES_REFUSED.add(1),
    }
    ty
}
