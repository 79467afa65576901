//! The event types that the sessions in a slot know, and their ids in its trace.
//!
//! A type keeps its id for as long as a session lives, though the registry may give the id to
//! another type meanwhile (see [`registry`]). If the other type comes into the trace as well, the
//! two swap: the other one gets the id that the first one has in the registry now, which nothing
//! else in the trace can have. So no two types of a provider have the same id in one trace.

use std::collections::BTreeMap;

#[cfg(doc)]
use nettrace_event::registry;
use nettrace_event::{EventSchema, EventType, SESSION_BITS};

/// A type that the rows of a session may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownType {
    pub(crate) ty: &'static EventType,
    /// With the id that the type has in the session's trace.
    pub(crate) schema: &'static EventSchema,
}

/// The types that the sessions in each slot know.
#[derive(Debug, Default)]
pub(crate) struct SlotTypes {
    slots: [TypesOfSlot; SESSION_BITS as usize],
    /// Schemas with another id than the wanted one, kept for good: one for each type and id.
    copies: BTreeMap<(u32, u16), &'static EventSchema>,
}

#[derive(Debug, Default)]
struct TypesOfSlot {
    /// The types that some session in the slot has listened to, by their index.
    listened_to: BTreeMap<u32, &'static EventType>,
    /// Those of the present session, by provider and by the id that they have in its trace.
    by_id: BTreeMap<(&'static str, u16), &'static EventType>,
}

impl SlotTypes {
    /// Notes that the present session in a slot listens to a type. `None`: it knows the type.
    pub(crate) fn add(&mut self, slot: u32, ty: &'static EventType) -> Option<KnownType> {
        let listened_to = &mut self.slots[slot as usize].listened_to;
        listened_to.insert(ty.index(), ty).is_none().then(|| self.describe(slot, ty))
    }

    /// Begins a session in a slot, which knows all types that earlier sessions there have listened
    /// to.
    pub(crate) fn begin(&mut self, slot: u32) -> Vec<KnownType> {
        let of_slot = &mut self.slots[slot as usize];
        of_slot.by_id.clear();
        let listened_to: Vec<_> = of_slot.listened_to.values().copied().collect();
        listened_to.into_iter().map(|ty| self.describe(slot, ty)).collect()
    }

    fn describe(&mut self, slot: u32, ty: &'static EventType) -> KnownType {
        let (wanted, by_id) = (ty.schema(), &mut self.slots[slot as usize].by_id);
        let mut id = ty.id();
        // Each step leads to another type.
        for _ in 0..by_id.len() {
            let Some(holder) = by_id.get(&(wanted.provider.name, id)) else { break };
            id = holder.id();
        }
        by_id.insert((wanted.provider.name, id), ty);
        let schema = if id == wanted.id {
            wanted
        } else {
            let copy =
                || -> &'static EventSchema { Box::leak(Box::new(EventSchema { id, ..*wanted })) };
            self.copies.entry((ty.index(), id)).or_insert_with(copy)
        };
        KnownType { ty, schema }
    }
}
