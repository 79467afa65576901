//! The number of event types that this crate makes, and their shares.
//!
//! A process has a bound for all of its types, and theirs is the memory that is never given back.
//! Who logs chooses the targets and keys of `log`, and who calls chooses which optional fields have
//! values. So these have shares of their own. However many they are, something is left for the
//! callsites that the program's source has.

use nettrace_event::registry;
use nettrace_writer::bridge;
use tracing_core::Metadata;

use crate::{
    sites::Site,
    sync::{AtomicU32, Once, Ordering},
};

/// The most types of the process that this crate makes. Types that are derived have the rest.
const MAX_TYPES: u32 = registry::MAX_TYPES - 2_047;
/// The most signatures of a callsite.
pub(crate) const MAX_SIGNATURES: usize = 1_024;
/// The signatures of a callsite that count among its own. Later ones have a share.
const OWN_SIGNATURES: usize = 8;

/// What a type is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The first types of a callsite.
    Callsites,
    /// The other signatures of callsites.
    Signatures,
    /// Records of the crate `log`.
    Records,
}

/// How many types of each share there are.
static TAKEN: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
/// How many there are of all shares.
static ALL: AtomicU32 = AtomicU32::new(0);

impl Share {
    /// The share of a callsite's type that comes after this number of others of the same part.
    pub(crate) fn of(is_site: bool, before: usize) -> Self {
        match (is_site, before) {
            (true, _) => Self::Records,
            (false, 0..OWN_SIGNATURES) => Self::Callsites,
            (false, _) => Self::Signatures,
        }
    }

    /// The most types of the share.
    fn most(self) -> u32 {
        match self {
            Self::Callsites => MAX_TYPES,
            Self::Signatures => 4_096,
            Self::Records => 6_144,
        }
    }

    /// Whether there can be one more type.
    pub(crate) fn has_room(self) -> bool {
        // Relaxed, here and below: only the numbers count.
        TAKEN[self as usize].load(Ordering::Relaxed) < self.most()
            && ALL.load(Ordering::Relaxed) < MAX_TYPES
    }

    /// Counts one more type. Returns `false` if there cannot be one more.
    pub(crate) fn take(self) -> bool {
        let take = |count: &AtomicU32, most| {
            let take = |count| (count < most).then_some(count + 1);
            count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        };
        let own = &TAKEN[self as usize];
        let is_taken = take(own, self.most());
        if is_taken && !take(&ALL, MAX_TYPES) {
            own.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        is_taken
    }
}

/// Says, once, that callsites have too many types. `example` is the first one.
pub(crate) fn explain_callsites(example: &Metadata<'_>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        bridge::explain_loss(format!(
            "events from `tracing` are lost because their types are too many, the first one with \
             the target `{}` ({}:{}): each combination of fields that have values, and of their \
             types, is a type of its own",
            example.target(),
            example.file().unwrap_or("?"),
            example.line().unwrap_or_default(),
        ));
    });
}

/// Says, once, that records come from too many places. `example` is the first one.
pub(crate) fn explain_records(example: &Site<'_>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        bridge::explain_loss(format!(
            "events from `log` are lost because they come from too many places, or with too many \
             targets and keys, the first one with the target `{}` ({}:{}): what differs from \
             record to record belongs into the message or a value",
            example.target,
            example.file.unwrap_or("?"),
            example.line.unwrap_or_default(),
        ));
    });
}
