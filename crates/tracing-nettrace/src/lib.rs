//! Records the spans and events of [`tracing`] in NetTrace traces, which [`nettrace_writer`]
//! writes: exact losses, files that are complete at every instant, sessions that come and go.
//!
//! | for | see |
//! |---|---|
//! | the whole process, by one line in `main` | [`init`] |
//! | a layer beside others, in a registry | [`layer`](fn@layer) |
//! | a subscriber without a registry, which costs less | [`subscriber`](fn@subscriber) |
//! | providers, keywords, directives | [`Options`] |
//! | records of the crate `log` | `logger` (feature `log`) |
//! | the ids of OpenTelemetry | `Options::opentelemetry` (feature `opentelemetry`) |
//! | trace ids in log lines | `with_ids` (feature `fmt`) |
//! | what was not recorded as it is | [`stats`](fn@stats) |
//!
//! The layer and the subscriber record for whatever [sessions](nettrace_writer::Session) there are,
//! and nothing while there is none. Their filters work on callsites as on derived events:
//! `my_service:0x1:Warning`. A callsite that no session wants is disabled, in `tracing`'s own way:
//! its fields are not evaluated. When a session begins, ends or changes its filters, all callsites
//! are asked again, once.
//!
//! If the environment variable `RUST_LOG` is set, it counts as well, as with `fmt`: what it does
//! not let pass is not recorded. [`Options::directives`] takes its place.
//!
//! # Events
//!
//! | of `tracing` | in the trace |
//! |---|---|
//! | target `my_crate::db` | provider `my_crate`, or `my_crate.db` with [`Options::whole_target`] |
//! | `ERROR`, `WARN`, `INFO` | levels 2, 3, 4 |
//! | `DEBUG`, `TRACE` | level 5; `TRACE` has the keyword [`KEYWORD_TRACE`] |
//! | `name:`, or else the target | the event's name: `my_crate::db` |
//! | level, target, module, file, line | key-values of the event type |
//! | `i64`, `u64`, `i128`, `u128`, `f64`, `bool` | `Int64`, `UInt64`, objects of two, `Double`, `Boolean` |
//! | `&str`, `?debug`, `%display` | text |
//! | `&[u8]` | an array of bytes |
//! | `&dyn Error` | text: the error and its sources, `a: b: c` |
//! | `Empty`, `None` | no field |
//! | the message | the field `message`, and the message template `{message}` |
//!
//! Events have few names, to group them by. What they say is their message, and callsites with the
//! same name are told apart by file and line. A file of a dependency begins at its package:
//! `hyper-util-0.1.17/src/client/legacy/pool.rs`. A callsite has one event type for each
//! combination of types that its values have. The id of a type is a hash of what identifies it, so
//! it is the same in each run of the same source.
//!
//! An event has 65,436 bytes at most, and a text two for each of its UTF-16 units. If an event
//! would have more, its longest texts are cut, as little as is needed. Each ends with `…` then, and
//! [`texts_cut`](Stats::texts_cut) counts it.
//!
//! Records of the crate `log` are such events, too: through `logger` (feature `log`), or through
//! `tracing-log`, which makes them events of `tracing`. Then the provider, the place and the level
//! are those of the record, and its text is the message.
//!
//! # Spans
//!
//! A span `checkout` has two events, with ids as any other [span](nettrace_writer::TraceSpan) has:
//!
//! - `checkoutStart` when it is made, not when it is first entered: its parent is the one at that
//!   time, and a span that is never entered is seen. (With ids of OpenTelemetry it comes later.)
//! - `checkoutStop` when its last handle is gone: `duration`, `outcome`, `polls` (how often it was
//!   entered), `busy` (how long in all) and `idle` (the rest). Time in which it is entered on two
//!   threads counts twice, so `busy` can exceed `duration`. The outcome is `panicked` if its
//!   thread unwinds, `err` if it is a call of a function under `#[instrument(err)]` that has
//!   returned an error, and otherwise `ok`. (If nobody wants the event that tells of the error, as
//!   may be with `err(level = "debug")`, nobody knows of it, and the outcome is `ok`.)
//! - `checkoutRecord` for fields that are recorded later. They are an event of their own and do not
//!   come with the Stop, so that a trace that ends early has them, and the order shows.
//! - `checkoutFollows` for `follows_from`, with the ids of the other span.
//! - `checkoutResume` and `checkoutSuspend` at each enter and exit, with [`Options::polls`].
//!
//! Spans nest with those of `#[traced]`: each is the parent of whatever begins while it is the
//! innermost one on its thread. Other layers of `tracing` do not see those of `#[traced]`.
//!
//! # Sessions that begin within a span
//!
//! A span that a session wants is kept until it ends, whatever becomes of the session. A session
//! that begins later is told of it when the span, or the thread that is in it, is next heard of: by
//! a `checkoutStart` whose type has the key-value `nettrace.span` = `late`, and whose one field is
//! `age`, the time since the start. Spans that no session wanted when they began are disabled, as
//! events are, and no later session can be told of them. [`Options::keep_spans`] keeps them.
//!
//! # Memory
//!
//! A recorder needs 64 KiB for its first 256 open spans, which are recorded without a lock and
//! without an allocation. Any other takes some 200 bytes and a lock for a moment. Its memory is
//! freed when it ends. [`Options::span_memory`] is the bound. What exceeds it is refused and
//! [counted](Stats::spans_refused).
//!
//! # Bounds
//!
//! The types of events are never given back, so their number has a bound: 14,336 for all that this
//! crate makes in a process. A callsite has one for each combination of types that its values
//! have, and an optional field that is empty makes another combination. So a callsite has 1,024 at
//! most; all that have more than 8 share 4,096 further ones. Records of `log` have 6,144, because
//! their targets and keys may come from outside. What one of these bounds keeps out takes nothing
//! from the others. Sessions count such an event as attempted, and as lost among
//! [`Drops::refused`](nettrace_writer::Drops::refused). The trace has a gap in its place,
//! [`refused_types`](nettrace_writer::refused_types) says why, and
//! [`events_refused`](Stats::events_refused) counts it for the process. A span whose Start is lost
//! has a Start without fields, which is a [late](#sessions-that-begin-within-a-span) one.
//!
//! # When a span ends
//!
//! With the layer, a span ends when its last handle is gone *and* its children have ended, because
//! the registry has it so. With the subscriber it ends with its last handle.
//!
//! # Features
//!
//! - `fmt`: `with_ids`, which puts the ids of spans into the lines of `tracing-subscriber`'s
//!   formatters, with its feature of that name.
//! - `opentelemetry`: spans can have the ids of OpenTelemetry (`Options::opentelemetry`).
//! - `log`: records of the crate `log`, with the values of their keys.
//! - `valuable`: values of the crate [`valuable`](https://docs.rs/valuable). Numbers and texts have
//!   their types, structures are JSON. `tracing` passes such values on only in builds with
//!   `RUSTFLAGS="--cfg tracing_unstable"`. In other builds this feature changes nothing.
//!
//! [`tracing`]: https://docs.rs/tracing

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "has a seam")]

mod callsite;
mod directives;
mod init;
mod kept;
mod layer;
#[cfg(feature = "fmt")]
mod lines;
#[cfg(feature = "log")]
mod log;
mod options;
mod others;
mod parts;
mod recorder;
mod row;
mod schema;
mod scratch;
mod shares;
mod sites;
mod spans;
mod stack;
mod stats;
mod subscriber;
mod sync;
mod table;
mod thread_number;
#[cfg(all(tracing_unstable, feature = "valuable"))]
mod valuable;
mod values;
mod words;

#[cfg(feature = "fmt")]
pub use crate::lines::{WithIds, with_ids};
#[cfg(feature = "log")]
pub use crate::log::{Logger, logger};
pub use crate::{
    callsite::KEYWORD_TRACE,
    init::{Init, InitError, Trace, init},
    layer::{Layer, Recording, Wanted, layer},
    options::Options,
    stats::{Stats, stats},
    subscriber::{Subscriber, subscriber},
};

/// The README, so that the tests compile its examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}

/// The page on migration, for the same reason.
#[cfg(doctest)]
#[doc = include_str!("../MIGRATION.md")]
#[doc(hidden)]
pub mod migration {}
