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
    shares::{self, Share},
    sites::Site,
    stats,
    sync::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, PoisonError},
    table::{Key, Table, hash},
    values::Signature,
    words,
};

/// The signatures of a callsite that stand in a list, the first ones first. All others are in one
/// table.
const LISTED: usize = 16;

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
    fn provider(&self, target: &str) -> String {
        let target = if self.whole_target {
            target.replace("::", ".")
        } else {
            target.split("::").next().unwrap_or_default().to_owned()
        };
        schema::provider_name(target)
    }

    fn keywords(&self, target: &str, level: tracing_core::Level) -> u64 {
        let is_of = |path: &str| {
            target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let of_target = self.keywords.iter().filter(|(path, _)| is_of(path));
        let of_level = if level == tracing_core::Level::TRACE { KEYWORD_TRACE } else { 0 };
        of_target.fold(of_level, |all, (_, keywords)| all | keywords)
    }

    /// Whether some session wants events of this target and level, which have no callsite here.
    pub(crate) fn is_wanted(&self, target: &str, level: tracing_core::Level) -> bool {
        let keywords = self.keywords(target, level);
        bridge::is_wanted(&self.provider(target), schema::level(&level), keywords)
    }

    /// Counts an event of this target and level that is not recorded because there is no callsite
    /// for it.
    #[cold]
    pub(crate) fn lose(&self, target: &str, level: tracing_core::Level) {
        let keywords = self.keywords(target, level);
        if bridge::lose(&self.provider(target), schema::level(&level), keywords) {
            stats::EVENTS_REFUSED.add(1);
        }
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
    /// Whether it is a [place](Site) that records of the crate `log` come from.
    is_site: bool,
    /// The types of an event, or of a span's Start.
    events: Types,
    /// The types of fields that are recorded later.
    records: Types,
    others: [OnceLock<Option<&'static EventType>>; Part::OTHERS],
}

/// The address of metadata is an even number.
const _: () = assert!(align_of::<Metadata<'_>>() > 1);

/// The callsites of all namings.
static CALLSITES: Table<&'static Callsite, 4> = Table::new();

/// The key of the callsite whose metadata has this address.
#[inline]
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
            let provider = schema::kept_provider_name(naming.provider(metadata.target()));
            let level = schema::level(metadata.level());
            let keywords = naming.keywords(metadata.target(), *metadata.level());
            Box::leak(Box::new(Self {
                metadata,
                naming,
                provider,
                level,
                keywords,
                word: AtomicU64::new(ptr::from_ref(metadata).addr() as u64),
                wanted: AtomicU64::new(u64::MAX),
                is_of_log: is_of_log(metadata),
                is_site: Site::of(metadata).is_some(),
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
    #[inline]
    pub(crate) fn event_type(&self, signature: Signature) -> Option<&'static EventType> {
        self.events.get(self, None, signature)
    }

    /// Whether an event, or a span's Start, probably has a few numbers and nothing else: the first
    /// one was of that kind.
    #[inline]
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
        match self.others[part as usize].get() {
            Some(Some(ty)) => Some(ty),
            _ => self.first_other_type(part),
        }
    }

    /// [`other_type`](Self::other_type) if that is not made yet, or was refused.
    #[cold]
    #[inline(never)]
    fn first_other_type(&self, part: Part) -> Option<&'static EventType> {
        let share = Share::Callsites;
        let ty = self.others[part as usize].get_or_init(|| new_type(self, part, 0, share));
        if ty.is_none() {
            self.lose();
        }
        *ty
    }

    /// Says why its types are not made.
    fn explain_refusal(&self) {
        match Site::of(self.metadata) {
            Some(site) => shares::explain_records(&site),
            None => shares::explain_callsites(self.metadata),
        }
    }

    /// Counts an event that is not recorded because its type is not made.
    #[cold]
    #[inline(never)]
    pub(crate) fn lose(&self) {
        if bridge::lose(self.provider, self.level, self.keywords) {
            stats::EVENTS_REFUSED.add(1);
        }
    }
}

/// Whether records of the crate `log` come from here: `tracing-log` has one callsite for each
/// level.
pub(crate) fn is_of_log(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "log" && metadata.name() == "log event"
}

/// The types of a callsite's events by their signatures: a list that only grows, and [`MORE`].
#[derive(Debug, Default)]
struct Types {
    first: OnceLock<Entry>,
    /// How many of its types are not in the list.
    more: AtomicU32,
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

/// A type that does not stand in a callsite's list.
#[derive(Debug)]
struct More {
    /// The address of the callsite's [`Types`].
    of: usize,
    signature: Signature,
    ty: &'static EventType,
}

static MORE: Table<Option<More>, 2> = Table::new();

impl Types {
    /// The type for a signature. Without a part, that of an event or of a span's Start.
    #[inline]
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
        let ty = self.listed(callsite, part, signature);
        if ty.is_none() {
            callsite.lose();
        }
        ty
    }

    fn listed(
        &self,
        callsite: &Callsite,
        part: Part,
        signature: Signature,
    ) -> Option<&'static EventType> {
        let make = |count| Entry {
            signature,
            has_words: words::can_have(signature),
            ty: new_type(callsite, part, signature, Share::of(callsite.is_site, count)),
            next: OnceLock::new(),
        };
        let mut entry = self.first.get_or_init(|| make(0));
        let mut count = 1;
        while entry.signature != signature {
            if count == LISTED && entry.next.get().is_none() {
                return self.not_listed(callsite, part, signature);
            }
            entry = entry.next.get_or_init(|| Box::new(make(count)));
            count += 1;
        }
        entry.ty
    }

    /// The type for a signature that came after the list was full.
    fn not_listed(
        &self,
        callsite: &Callsite,
        part: Part,
        signature: Signature,
    ) -> Option<&'static EventType> {
        let of = ptr::from_ref(self).addr();
        let [low, high] = [signature as u64, (signature >> 64) as u64];
        let key = Key::of_hash(hash(hash(low ^ of as u64) ^ high));
        let is_it = |more: &Option<More>| {
            more.as_ref().is_some_and(|more| more.of == of && more.signature == signature)
        };
        let find = || MORE.find(key, is_it)?.as_ref().map(|more| more.ty);
        let make = || {
            let share = Share::of(callsite.is_site, LISTED);
            let ty = new_type(callsite, part, signature, share)?;
            self.more.fetch_add(1, Ordering::Relaxed);
            Some(More { of, signature, ty })
        };
        find().or_else(|| {
            // Relaxed: only the number counts, and one more does no harm.
            let count = LISTED + self.more.load(Ordering::Relaxed) as usize;
            if count >= shares::MAX_SIGNATURES || !Share::of(callsite.is_site, count).has_room() {
                callsite.explain_refusal();
                stats::TYPES_REFUSED.add(1);
                return None;
            }
            MORE.find_or_make(key, is_it, make)?.as_ref().map(|more| more.ty)
        })
    }
}

/// Makes a type and registers it.
#[cold]
fn new_type(
    callsite: &Callsite,
    part: Part,
    signature: Signature,
    share: Share,
) -> Option<&'static EventType> {
    if !share.take() {
        callsite.explain_refusal();
        stats::TYPES_REFUSED.add(1);
        return None;
    }
    stats::TYPES.add(1);
    Some(schema::registered(callsite, part, signature))
}
