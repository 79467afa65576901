//! The index and the id of a type.
//!
//! A table finds a type by provider and id. It is an array of lists that go through the types
//! themselves, so it needs no memory but theirs. Only the holder of the registry's lock reads or
//! changes it.
//!
//! A type that is equal to a registered one shares its index and its id, and is not in the table.
//! It finds the other on its way through its choices: an id that was taken once stays taken.

use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use super::{MAX_TYPES, RegisterError, types, walk};
use crate::{event::EventType, schema::EventSchema};

const LISTS: usize = 1 << 11;
static BY_ID: [AtomicPtr<EventType>; LISTS] = [const { AtomicPtr::new(ptr::null_mut()) }; LISTS];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Assigns an index and an id to a type: those of an equal type that is registered, or new ones.
pub(super) fn admit(ty: &'static EventType) -> Result<(), RegisterError> {
    let schema = ty.schema();
    let (id, holder) = if schema.id_is_explicit {
        (schema.id, holder(schema, schema.id))
    } else {
        let mut choices = schema.choices().map(|id| (id, holder(schema, id)));
        let is_it = |(_, holder): &(u16, Option<&EventType>)| {
            holder.is_none_or(|holder| is_same(holder.schema(), schema))
        };
        // There are more choices than types.
        choices.find(is_it).unwrap_or((schema.id, None))
    };
    if let Some(other) = holder.filter(|other| is_same(other.schema(), schema)) {
        ty.set_index(other.index());
        ty.set_id(id);
        return Ok(());
    }
    if let Some(other) = holder.filter(|other| other.schema().id_is_explicit) {
        return Err(RegisterError::IdClash { refused: schema, holder: other.schema() });
    }
    let count = COUNT.load(Ordering::Relaxed);
    if count == MAX_TYPES {
        return Err(RegisterError::TooManyTypes { refused: schema });
    }
    COUNT.store(count + 1, Ordering::Relaxed);
    ty.set_index(count + 1);
    ty.set_id(id);
    match holder {
        None => insert(ty),
        Some(other) => move_on(other, ty),
    }
    Ok(())
}

/// Whether two types are one. Those that were given the same id and are equal but for their place
/// are one, too: a program can have two versions of a crate.
fn is_same(one: &EventSchema, other: &EventSchema) -> bool {
    let place = if one.id_is_explicit { other.place } else { one.place };
    EventSchema { place, ..*one } == *other
}

/// Gives the id of a type that was not given it to one that was.
fn move_on(holder: &'static EventType, ty: &'static EventType) {
    let schema = holder.schema();
    let free = schema.choices().find(|&id| self::holder(schema, id).is_none());
    remove(holder);
    insert(ty);
    let id = free.unwrap_or(schema.id);
    // Those that share its index share its id.
    let equals = types().filter(|other| other.index() == holder.index());
    equals.for_each(|other| other.set_id(id));
    holder.set_id(id);
    insert(holder);
}

/// The type of a provider that has this id.
fn holder(of: &EventSchema, id: u16) -> Option<&'static EventType> {
    let provider = of.provider.name;
    walk(list(provider, id), |ty| &ty.next_by_id)
        .find(|ty| ty.id() == id && ty.schema().provider.name == provider)
}

fn insert(ty: &'static EventType) {
    let list = list_of(ty);
    ty.next_by_id.store(list.load(Ordering::Relaxed), Ordering::Relaxed);
    // Release: as for the other lists.
    list.store(ptr::from_ref(ty).cast_mut(), Ordering::Release);
}

fn remove(ty: &'static EventType) {
    let rest = ty.next_by_id.load(Ordering::Relaxed);
    let own = ptr::from_ref(ty).cast_mut();
    let list = list_of(ty);
    if list.load(Ordering::Relaxed) == own {
        return list.store(rest, Ordering::Release);
    }
    let before = walk(list, |ty| &ty.next_by_id)
        .find(|other| other.next_by_id.load(Ordering::Relaxed) == own);
    if let Some(before) = before {
        before.next_by_id.store(rest, Ordering::Release);
    }
}

fn list_of(ty: &EventType) -> &'static AtomicPtr<EventType> {
    list(ty.schema().provider.name, ty.id())
}

/// The list of a provider and id. Ids are spread well enough, and so are providers by the few bytes
/// that tell them apart.
fn list(provider: &str, id: u16) -> &'static AtomicPtr<EventType> {
    let of_provider =
        provider.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    &BY_ID[(of_provider.wrapping_add(usize::from(id))) % LISTS]
}
