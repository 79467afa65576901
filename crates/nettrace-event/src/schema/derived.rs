//! The ids of event types whose authors gave none.

use crate::schema::{EventSchema, Place};

/// The id that an event without a given id has if it is free: a hash of its name (FNV-1a, 32 bits,
/// folded) in the range 8,192 to 65,534.
///
/// It depends only on the name, so it is the same in every build and on every machine. If another
/// type of the provider has it, registration goes on: see [`choices`](EventSchema::choices).
///
/// ```
/// use nettrace_event::derived_id;
///
/// assert_eq!(derived_id("Sale"), derived_id("Sale"));
/// assert_ne!(derived_id("Sale"), derived_id("Refund"));
/// assert!((8_192..=65_534).contains(&derived_id("Sale")));
/// ```
#[must_use]
pub const fn derived_id(name: &str) -> u16 {
    folded(hashed(FNV_OFFSET, name.as_bytes()))
}

impl EventSchema {
    /// The ids that registration tries, in this order, if the author gave none: [`id`](Self::id),
    /// a hash of name and module, a hash of these and line and column, and all ids after that.
    /// What the second and the third are hardly depends on the order of registration.
    ///
    /// ```
    /// use nettrace_event::{EventSchema, Place, derived_id, example::SALE};
    ///
    /// let in_module = |module| EventSchema {
    ///     id: derived_id(SALE.name),
    ///     place: Place { module, ..Place::UNKNOWN },
    ///     ..SALE
    /// };
    /// let (a, b) = (in_module("a"), in_module("b"));
    /// assert_eq!(a.choices().next(), b.choices().next());
    /// assert_ne!(a.choices().nth(1), b.choices().nth(1));
    /// ```
    pub fn choices(&self) -> impl Iterator<Item = u16> + use<> {
        let Place { module, line, column, .. } = self.place;
        let of_module =
            hashed(hashed(hashed(FNV_OFFSET, self.name.as_bytes()), &[0xff]), module.as_bytes());
        let of_place = hashed(hashed(of_module, &line.to_le_bytes()), &column.to_le_bytes());
        let last = u32::from(folded(of_place)) - FIRST_DERIVED;
        let rest = (0..DERIVED).map(move |more| (FIRST_DERIVED + (last + more) % DERIVED) as u16);
        [self.id, folded(of_module)].into_iter().chain(rest)
    }
}

/// The first derived id, and how many there are.
const FIRST_DERIVED: u32 = 8_192;
const DERIVED: u32 = 65_535 - FIRST_DERIVED;
const FNV_OFFSET: u32 = 0x811c_9dc5;

const fn hashed(mut hash: u32, bytes: &[u8]) -> u32 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

const fn folded(hash: u32) -> u16 {
    (FIRST_DERIVED + (hash ^ (hash >> 16)) % DERIVED) as u16
}
