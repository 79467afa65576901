//! Events for one session, whoever else listens.

use std::{
    ptr,
    sync::{Arc, Weak},
};

use crate::{
    TraceEvent,
    emit::emit_to,
    session::Session,
    shared::{Shared, sessions},
};

/// Records events in one session alone.
///
/// Clones are cheap, and none keeps the session from ending.
#[derive(Clone, Debug)]
pub(crate) struct OnlyIn {
    session: Weak<Shared>,
    slot: u32,
}

impl OnlyIn {
    /// The session that is given.
    pub(crate) fn new(session: &Session) -> Self {
        let session = session.shared();
        Self { session: Arc::downgrade(session), slot: session.slot }
    }

    /// Whether the session still records.
    pub(crate) fn is_live(&self) -> bool {
        sessions::session(self.slot)
            .is_some_and(|session| ptr::eq(Arc::as_ptr(&session), self.session.as_ptr()))
    }

    /// Records an event if the session is live and its filters select the event.
    pub(crate) fn emit<T: TraceEvent>(&self, event: &T) {
        if self.is_live() {
            emit_to(event, event.event_type(), 1 << self.slot);
        }
    }
}
