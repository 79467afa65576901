//! Key-values with a meaning for the tools of this project: what writers state by them, and
//! readers look for.

/// The key of an event type that says how its events tell of a span: [`SINGLE`] or [`LATE`].
pub const SPAN: &str = "nettrace.span";

/// Key-value of a type whose events each stand for a whole span.
pub const SINGLE: (&str, &str) = (SPAN, "single");

/// Key-value of a type whose events tell a session of spans that began before it.
pub const LATE: (&str, &str) = (SPAN, "late");

/// The key of a type of spans that asks for a tail decision.
pub const TAIL: &str = "nettrace.tail";

/// Begins the key that states the Rust type of a field, whose name follows.
pub const RUST_TYPE: &str = "nettrace.type.";

/// Key-value of a type whose field `started` is the time at which a span began.
pub const STARTED: (&str, &str) = ("nettrace.type.started", "SystemTime");

/// Key-value of a type whose field `duration` is that of a span.
pub const DURATION: (&str, &str) = ("nettrace.type.duration", "Duration");

/// The key of a type that names the field by which spans of one name are told apart.
pub const DIMENSION: &str = "nettrace.dimension";

/// The key of a trace that names the recording of which it is a part.
pub const RECORDING: &str = "nettrace.recording";

/// The key of a trace with its number in its recording, from 1 on.
pub const FILE: &str = "nettrace.file";

/// The key of a trace made of a recorder file: the process that is gone.
pub const RECOVERED: &str = "nettrace.recovered";

/// The key of a dump with the number of older events that its recorder gave up.
pub const GIVEN_UP: &str = "nettrace.given_up";

/// The key of a dump with the number of events that its recorder had and the dump has not.
pub const LEFT_OUT: &str = "nettrace.left_out";

/// The key of a dump with the names of the triggers that asked for it.
pub const TRIGGER: &str = "nettrace.trigger";

/// The key of a dump with the number of triggers that it does not name.
pub const TRIGGER_MORE: &str = "nettrace.trigger.more";

/// The key of a dump with the number of triggers whose key-values it does not have.
pub const TRIGGER_LEFT_OUT: &str = "nettrace.trigger.left_out";

/// The key of a dump with the provider and name of the event that asked for it.
pub const TRIGGER_EVENT: &str = "nettrace.trigger.event";

/// The key of a trace made of several files: their number.
pub const MERGED: &str = "nettrace.merged";

/// The key of a trace made of several files: what is missing between them.
pub const MISSING: &str = "nettrace.missing";

/// The key of a trace made of others: what it contains, by which copies are recognized.
pub const CONTAINS: &str = "nettrace.contains";

/// The key of a trace with those events of others that passed filters: what the others contain.
pub const EXCERPT: &str = "nettrace.excerpt";

/// The key of such a trace with the filters.
pub const FILTER: &str = "nettrace.filter";

/// The key of a trace converted from another format, which is the value.
pub const SOURCE: &str = "nettrace.source";

/// The option of a Heph trace that states losses which a stream's counter does not show: before the
/// stream's first event and after its last. It was invented by this project; other readers skip it,
/// as they skip every option that they do not know.
///
/// Its value is 16 bytes: the stream (32 bits), the number of the last missing event (32 bits), and
/// the number of events missing since the stream's last event or its last such option (64 bits).
pub const HEPH_LOST: &str = "nettrace.lost";

/// The option of a Heph trace whose value is padding: room that a file sink has reserved and not
/// yet used. It was invented by this project, too.
pub const HEPH_PAD: &str = "nettrace.pad";
