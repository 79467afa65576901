//! Where records of the crate `log` come from.
//!
//! A record has no callsite, so its place is made one when it is first seen: by its target, module,
//! file, line and level, and the keys of its values. From then on it is found without a lock, and
//! is recorded like an event of `tracing`.

use tracing_core::{Callsite, Interest, Kind, Level, Metadata, field::FieldSet, identify_callsite};

use crate::{
    sync::{AtomicU32, Ordering},
    table::{Key, Table, hash},
};

/// The most places that records come from.
const MAX_SITES: u32 = 8_192;
/// Beyond this number, only those are kept whose records some session wants.
const FREE_SITES: u32 = 4_096;

/// The name of the metadata: see `schema::name`.
const NAME: &str = "event of log";
/// The field that the message is. The values of a record have the numbers after it.
const MESSAGE: &str = "message";

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site<'a> {
    pub(crate) target: &'a str,
    pub(crate) module: Option<&'a str>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) level: Level,
}

/// Stands for the callsites of all records.
struct Records;

static RECORDS: Records = Records;

static METADATA: Metadata<'static> = Metadata::new(
    NAME,
    "log",
    Level::TRACE,
    None,
    None,
    None,
    FieldSet::new(&[MESSAGE], identify_callsite!(&RECORDS)),
    Kind::EVENT,
);

impl Callsite for Records {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &METADATA
    }
}

impl<'a> Site<'a> {
    /// The place that metadata was made for, if it is such.
    pub(crate) fn of(metadata: &'a Metadata<'_>) -> Option<Self> {
        (metadata.callsite() == METADATA.callsite()).then(|| Self {
            target: metadata.target(),
            module: metadata.module_path(),
            file: metadata.file(),
            line: metadata.line(),
            level: *metadata.level(),
        })
    }

    /// The metadata of records from here, whose values have the keys that `keys` passes on. It
    /// passes on the same keys each time that it is called. `None` if the process has too many, or
    /// many and no session wants these.
    pub(crate) fn metadata(
        &self,
        keys: impl Fn(&mut dyn FnMut(&str)),
        is_wanted: impl FnOnce() -> bool,
    ) -> Option<&'static Metadata<'static>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static SITES: Table<&Metadata<'static>, 2> = Table::new();
        let mut of_keys = Hash(0);
        keys(&mut |key| of_keys.add(key.as_bytes()));
        let mut all = of_keys;
        all.add(self.target.as_bytes());
        all.add(self.file.unwrap_or_default().as_bytes());
        all.add(&self.line.unwrap_or_default().to_le_bytes());
        let is_it = |metadata: &&Metadata<'_>| {
            let mut fields = metadata.fields().iter().skip(1);
            let mut are_same = Site::of(metadata).as_ref() == Some(self);
            keys(&mut |key| are_same &= fields.next().is_some_and(|field| field.name() == key));
            are_same && fields.next().is_none()
        };
        let make = || {
            COUNT.fetch_add(1, Ordering::Relaxed);
            self.make(&keys)
        };
        let key = Key::of_hash(hash(all.0));
        let found = SITES.find(key, is_it);
        found
            .or_else(|| {
                // Relaxed: only the number counts, and a few more do no harm.
                let may_make = match COUNT.load(Ordering::Relaxed) {
                    0..FREE_SITES => true,
                    count => count < MAX_SITES && is_wanted(),
                };
                may_make.then(|| SITES.find_or_make(key, is_it, make))?
            })
            .copied()
    }

    #[cold]
    fn make(&self, keys: impl Fn(&mut dyn FnMut(&str))) -> &'static Metadata<'static> {
        let own = |text: &str| -> &'static str { Box::leak(text.into()) };
        let mut names = vec![MESSAGE];
        keys(&mut |key| names.push(own(key)));
        let fields = FieldSet::new(Box::leak(names.into()), identify_callsite!(&RECORDS));
        Box::leak(Box::new(Metadata::new(
            NAME,
            own(self.target),
            self.level,
            self.file.map(own),
            self.line,
            self.module.map(own),
            fields,
            Kind::EVENT,
        )))
    }
}

/// Eight bytes at a time.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0xff; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = hash(self.0.rotate_left(29) ^ u64::from_le_bytes(word));
        }
        self.0 = hash(self.0 ^ bytes.len() as u64);
    }
}
