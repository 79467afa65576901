//! The omissions of a conversion, counted by kind.

use nettrace_reader::{Metadata, Type};
pub(super) use nettrace_views::LeftOutKind as Kind;

/// How many things of each kind were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Omissions {
    /// Events whose payload is too large in the types of the target.
    pub(super) large_events: u64,
    /// Events that must be converted value by value, but whose payload does not fit their type.
    pub(super) strange_events: u64,
    /// Events that lost the bytes after the last field of their type.
    pub(super) longer_events: u64,
    /// Events that name code or processes, for readers of version 6 alone.
    pub(super) code_names: u64,
    /// Events from before the start of the trace. Their time became the start.
    pub(super) early_times: u64,
    /// Spans that may lack the fields of their start.
    pub(super) spans: u64,
    /// Labels of events.
    pub(super) labels: u64,
    /// Stacks.
    pub(super) stacks: u64,
    /// References of events to stacks that the source does not define.
    pub(super) undefined_stacks: u64,
    /// Names of threads.
    pub(super) thread_names: u64,
    /// Key-values of threads.
    pub(super) thread_key_values: u64,
    /// Process ids of threads that are not of the process that the trace names.
    pub(super) thread_processes: u64,
    /// Ids of threads that were replaced, because another thread of the result has the id or the
    /// format cannot store it.
    pub(super) thread_ids: u64,
    /// Places from which on the sequence numbers of a thread are shifted.
    pub(super) numbers: u64,
    /// Lost events that the result shows as losses of another thread, or not at all.
    pub(super) losses: u64,
    /// Key-values of the trace.
    pub(super) key_values: u64,
    /// Event types without their texts, key-values, opcode or GUID.
    pub(super) type_texts: u64,
    /// Event types without their fields.
    pub(super) type_fields: u64,
    /// Event types without their fields, as the reader does not follow the types of these.
    pub(super) unread_fields: u64,
    /// Event types that got another event id, because readers of the target would confuse them with
    /// a type that has the same.
    pub(super) type_numbers: u64,
    /// Blocks whose kind this program does not know.
    pub(super) unknown_blocks: u64,
    /// Information on threads and event types whose kind this program does not know.
    pub(super) unknown_parts: u64,
}

impl Omissions {
    /// Counts an event type whose fields the result does not describe.
    pub(super) fn without_fields(&mut self, of: &Metadata) {
        match of.fields.iter().any(|field| is_unread(&field.ty)) {
            true => self.unread_fields += 1,
            false => self.type_fields += 1,
        }
    }

    /// The kinds that are not zero: how many, a description, and why.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &'static str, Kind)> {
        let missing = [
            (self.large_events, "events whose payload would be too large"),
            (self.strange_events, "events whose payload does not fit their type"),
            (
                self.code_names,
                "names of functions, files and processes, by which stacks have names",
            ),
            (self.unread_fields, "descriptions of event types' fields that cannot be decoded"),
        ];
        let no_place = [
            (self.longer_events, "events' bytes behind the last field of their type"),
            (self.early_times, "times before the start of the trace, which became the start"),
            (self.spans, "spans that may lack the fields of their start"),
            (self.labels, "labels of events"),
            (self.stacks, "stacks"),
            (self.undefined_stacks, "references to stacks that the source does not define"),
            (self.thread_names, "names of threads"),
            (self.thread_key_values, "key-values of threads"),
            (self.thread_processes, "processes of threads"),
            (self.thread_ids, "ids of threads that other threads have too"),
            (self.numbers, "threads' numbers that begin again at 1, and go on in the result"),
            (self.losses, "losses of threads that have no events"),
            (self.key_values, "key-values of the trace"),
            (self.type_texts, "event types' texts, key-values, opcodes or GUIDs"),
            (self.type_fields, "descriptions of event types' fields; the payloads are unchanged"),
            (self.type_numbers, "event ids that other types have too, which were changed"),
            (self.unknown_blocks, "blocks of unknown kinds"),
            (self.unknown_parts, "parts of unknown kinds of threads and event types"),
        ];
        let missing = missing.into_iter().map(|(count, what)| (count, what, Kind::Missing));
        let no_place = no_place.into_iter().map(|(count, what)| (count, what, Kind::NoPlace));
        missing.chain(no_place).filter(|(count, ..)| *count > 0)
    }
}

/// Whether the reader does not know what a type is. An array of such a type is such a type itself.
pub(super) fn is_unread(of: &Type) -> bool {
    match of {
        Type::Unknown(_) | Type::Deep | Type::Damaged => true,
        Type::Object(fields) => fields.iter().any(|field| is_unread(&field.ty)),
        _ => false,
    }
}
