//! Conditions that an application probably does not want, although no call has failed.

use std::fmt;

use nettrace_event::{EventSchema, FieldSchema, FieldType, is_replaced, registry};
use nettrace_format::spelling::{nearest, nearest_field};

use crate::{
    shared::{
        Shared, filter::ProviderFilter, known_types::KnownType, refused_types::refused_types,
    },
    sync::Ordering,
};

/// A condition of a session that the application probably does not want. See
/// [`Session::warnings`](crate::Session::warnings).
///
/// [`Display`](fmt::Display) writes a sentence for a log.
///
/// ```
/// use nettrace_writer::{Session, Warning, sink::MemorySink};
///
/// let session = Session::builder().provider("Contoso-Chekout").sink(MemorySink::new()).start()?;
/// let warnings = session.warnings();
/// assert!(warnings.iter().any(|warning| matches!(warning, Warning::UnknownProvider { .. })));
/// # session.finish()?;
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The filter names no provider that is known so far. The name may be misspelt. Or none of the
    /// provider's events has been emitted or [registered](crate::SessionBuilder::register) yet.
    UnknownProvider {
        /// The filter.
        filter: ProviderFilter,
        /// The providers of all event types that are known so far, in alphabetical order.
        known: Vec<&'static str>,
    },
    /// The filter's provider is known, but its level and keywords select none of the event types
    /// that are known so far.
    NothingPasses {
        /// The filter.
        filter: ProviderFilter,
    },
    /// A name of a [value to keep out](crate::SessionBuilder::redact) is that of nothing in the
    /// trace so far: no field, label, key-value, or key of a map. It may be misspelt.
    RedactsNothing {
        /// The name.
        name: String,
        /// The fields of all event types that are known so far, in alphabetical order.
        known: Vec<&'static str>,
    },
    /// An event type was refused, so none of its events is recorded. There is one such warning for
    /// each entry of [`refused_types`]. [`Drops::refused`](crate::Drops::refused) counts the events.
    TypeRefused {
        /// The type, and the reason.
        message: String,
    },
    /// An event type has another id in this trace than its author gave it. The trace had given
    /// that id to another type when this one was registered. The next trace has the right one.
    /// [Registering](crate::SessionBuilder::register) the type before the session starts avoids
    /// that.
    OtherId {
        /// The type.
        event: &'static EventSchema,
        /// Its id in this trace.
        id: u16,
        /// The type that has the id in this trace.
        holder: &'static EventSchema,
    },
    /// The sink fails. Events that are recorded meanwhile are lost.
    SinkFails {
        /// The error of the sink.
        message: String,
        /// Whether the error is final, so that nothing more is written. Otherwise the session tries
        /// again.
        is_final: bool,
    },
    /// Another recorder of events is in this program, perhaps a second version of this crate. The
    /// one that came last has all events, and sessions of the other record none.
    OtherRecorder,
    /// Each event costs a memory fence, because the system has no `membarrier` or forbids it. See
    /// [`Stats::pays_fences`](crate::Stats::pays_fences).
    PaysFences,
    /// The callback of [`on_sink_change`](crate::SessionBuilder::on_sink_change) or the
    /// application's logger panicked. A callback that has panicked is not called again.
    CallbackPanicked,
}

impl Warning {
    /// The known provider that an [`UnknownProvider`](Self::UnknownProvider) filter probably means,
    /// or the known field that is meant by a name that [redacts
    /// nothing](Self::RedactsNothing): it contains the given name, or differs from it in a few
    /// letters.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Warehouse")]
    /// struct Stored;
    ///
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.provider("Contoso-Warehose").start()?;
    /// Stored.emit();
    /// assert_eq!(session.warnings()[0].meant(), Some("Contoso-Warehouse"));
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn meant(&self) -> Option<&'static str> {
        match self {
            Self::UnknownProvider { filter, known } => {
                nearest(filter.name(), known.iter().copied())
            }
            Self::RedactsNothing { name, known } => nearest_field(name, known.iter().copied()),
            _ => None,
        }
    }
}

/// The number of known providers that a message lists.
const MOST_LISTED: usize = 20;

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProvider { filter, known } => {
                write!(f, "the filter `{filter}` selects no provider that is known so far; ")?;
                if let Some(name) = self.meant() {
                    write!(f, "is `{name}` meant? ")?;
                }
                match known.as_slice() {
                    [] => f.write_str("no event has been emitted yet"),
                    known if known.len() > MOST_LISTED => {
                        let rest = known.len() - MOST_LISTED;
                        write!(f, "known are {} and {rest} more", known[..MOST_LISTED].join(", "))
                    }
                    known => write!(f, "known are {}", known.join(", ")),
                }
            }
            Self::NothingPasses { filter } => write!(
                f,
                "the filter `{filter}` selects a known provider, but none of its event types that \
                 are known so far; look at the filter's level and keywords"
            ),
            Self::RedactsNothing { name, .. } => {
                write!(
                    f,
                    "nothing in the trace so far is called `{name}`, which it must not have"
                )?;
                match self.meant() {
                    Some(meant) => write!(f, "; is `{meant}` meant?"),
                    None => Ok(()),
                }
            }
            Self::TypeRefused { message } => f.write_str(message),
            Self::OtherId { event, id, holder } => write!(
                f,
                "event `{}` of provider `{}` (at {}) has the id {id} in this trace and not {}, \
                 which event `{}` (at {}) has here; register it before the session starts",
                event.name, event.provider.name, event.place, event.id, holder.name, holder.place
            ),
            Self::SinkFails { message, is_final: false } => {
                write!(f, "{message}; events are lost until that has passed")
            }
            Self::SinkFails { message, is_final: true } => {
                write!(f, "{message}; the trace ends there")
            }
            Self::OtherRecorder => f.write_str(
                "this program has two recorders of events, perhaps two versions of \
                 nettrace-writer; only sessions of the one that came last record anything",
            ),
            Self::PaysFences => f.write_str(
                "each event pays a memory fence, because the system call `membarrier` is missing \
                 or forbidden",
            ),
            Self::CallbackPanicked => {
                f.write_str("the callback of `on_sink_change`, or the logger, panicked")
            }
        }
    }
}

/// The current warnings of a session. Takes this crate's locks.
pub(crate) fn warnings(session: &Shared) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let types: Vec<_> = registry::types().collect();
    let schemas: Vec<_> = types.iter().map(|ty| ty.schema()).collect();
    for filter in session.filters().unwrap_or_default() {
        if types.iter().any(|ty| filter.matches(ty)) {
            continue;
        }
        if schemas.iter().any(|schema| filter.selects_provider(schema.provider.name)) {
            warnings.push(Warning::NothingPasses { filter });
        } else {
            let mut known: Vec<_> = schemas.iter().map(|schema| schema.provider.name).collect();
            known.sort_unstable();
            known.dedup();
            warnings.push(Warning::UnknownProvider { filter, known });
        }
    }
    let unredacted = session.unredacted.lock().clone();
    if !unredacted.is_empty() {
        let mut known = Vec::new();
        schemas.iter().for_each(|schema| fields(schema.fields, &mut known));
        known.sort_unstable();
        known.dedup();
        let warning = |name| Warning::RedactsNothing { name, known: known.clone() };
        warnings.extend(unredacted.into_iter().map(warning));
    }
    let refused = refused_types().into_iter();
    warnings.extend(refused.map(|message| Warning::TypeRefused { message }));
    warnings.extend(other_ids(&session.known_types()));
    if let Some((message, is_final)) = session.sink.trouble() {
        warnings.push(Warning::SinkFails { message, is_final });
    }
    if is_replaced() {
        warnings.push(Warning::OtherRecorder);
    }
    if session.barrier.owners_pay() {
        warnings.push(Warning::PaysFences);
    }
    if session.sink.notice_has_panicked.load(Ordering::Relaxed) {
        warnings.push(Warning::CallbackPanicked);
    }
    warnings
}

/// A warning for each type whose author gave it another id than it has in the trace.
fn other_ids(known: &[KnownType]) -> Vec<Warning> {
    let has_other_id = |known: &&KnownType| {
        known.ty.schema().id_is_explicit && known.ty.schema().id != known.schema.id
    };
    let warning = |other: &KnownType| {
        let event = other.ty.schema();
        let wanted = (event.provider.name, event.id);
        let holder = known.iter().find(|it| (it.schema.provider.name, it.schema.id) == wanted)?;
        let (id, holder) = (other.schema.id, holder.ty.schema());
        Some(Warning::OtherId { event, id, holder })
    };
    known.iter().filter(has_other_id).filter_map(warning).collect()
}

/// Collects the names of fields, also of those within others.
fn fields(of: &'static [FieldSchema], names: &mut Vec<&'static str>) {
    for field in of {
        names.push(field.name);
        let mut ty = &field.ty;
        while let FieldType::Array(inner, _) | FieldType::Option(inner) = ty {
            ty = inner;
        }
        if let FieldType::Object(inner) = ty {
            fields(inner, names);
        }
    }
}
