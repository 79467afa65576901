//! Where records of the crate `log` come from.
//!
//! A record has no callsite, so its place is made one when it is first seen: by its target, module,
//! file, line and level, and the keys of its values. From then on it is found without a lock, and
//! is recorded like an event of `tracing`.

use tracing_core::{Callsite, Interest, Kind, Level, Metadata, field::FieldSet, identify_callsite};

use crate::table::{Key, Table, hash};

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

impl Site<'_> {
    /// The metadata of records from here, whose values have the keys that `keys` passes on. It
    /// passes on the same keys each time that it is called. `None` if the process has too many.
    pub(crate) fn metadata(
        &self,
        keys: impl Fn(&mut dyn FnMut(&str)),
    ) -> Option<&'static Metadata<'static>> {
        static SITES: Table<&Metadata<'static>, 2> = Table::new();
        let mut of_keys = Hash(0);
        keys(&mut |key| of_keys.add(key.as_bytes()));
        let mut all = of_keys;
        all.add(self.target.as_bytes());
        all.add(self.file.unwrap_or_default().as_bytes());
        all.add(&self.line.unwrap_or_default().to_le_bytes());
        let is_it = |metadata: &&Metadata<'_>| {
            let site = Site {
                target: metadata.target(),
                module: metadata.module_path(),
                file: metadata.file(),
                line: metadata.line(),
                level: *metadata.level(),
            };
            let mut fields = metadata.fields().iter().skip(1);
            let mut are_same = site == *self;
            keys(&mut |key| are_same &= fields.next().is_some_and(|field| field.name() == key));
            are_same && fields.next().is_none()
        };
        let make = || self.make(&keys);
        let found = SITES.find(Key::of_hash(hash(all.0)), is_it);
        found.or_else(|| SITES.find_or_make(Key::of_hash(hash(all.0)), is_it, make)).copied()
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
