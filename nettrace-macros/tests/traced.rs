//! The events that `#[traced]` records.
#![forbid(unsafe_code)]
#![deny(warnings)]

mod recorder;

use std::{borrow::Cow, cell::RefCell, mem, panic, path::Path, pin::pin, task};

use nettrace_event::{EventType, FieldType, Level};
use nettrace_macros::traced;

/// Replaces the writer's crate: keeps emitted events for the test.
mod writer {
    pub(crate) use nettrace_event as __private;
    pub(crate) use nettrace_macros::TraceEvent;

    pub(crate) trait Emit: nettrace_event::TraceEvent {
        fn emit(self)
        where
            Self: Sized,
        {
            super::keep(self.event_type(), &self);
        }
    }

    impl<T: nettrace_event::TraceEvent> Emit for T {}

    pub(crate) mod __traced {
        use std::time::{Duration, Instant};

        pub(crate) type Elapsed = Duration;

        pub(crate) struct Started(Option<Instant>);

        impl Started {
            pub(crate) const NEVER: Self = Self(None);

            pub(crate) fn now() -> Self {
                Self(Some(Instant::now()))
            }

            pub(crate) fn is_running(&self) -> bool {
                self.0.is_some()
            }

            pub(crate) fn elapsed(&self) -> Duration {
                self.0.map_or(Duration::ZERO, |started| started.elapsed())
            }
        }
    }
}

/// An event's type, and its encoder calls.
type Emitted = (&'static EventType, Vec<String>);

thread_local! {
    static EMITTED: RefCell<Vec<Emitted>> = const { RefCell::new(Vec::new()) };
}

fn keep(ty: &'static EventType, event: &(impl nettrace_event::TraceEvent + ?Sized)) {
    EMITTED.with_borrow_mut(|all| all.push((ty, recorder::record(event))));
}

/// The names of the events since the last call, and the values of the first.
fn emitted() -> (Vec<&'static str>, Vec<String>) {
    let events = EMITTED.with_borrow_mut(mem::take);
    let names = events.iter().map(|(ty, _)| ty.schema().name).collect();
    (names, events.into_iter().next().map(|(_, calls)| calls).unwrap_or_default())
}

#[traced(crate = crate::writer, provider = "Files", level = Verbose, fields = [path, size, names])]
fn load<'a>(
    path: &Path,
    size: usize,
    names: Vec<Cow<'a, str>>,
    _: &mut u8,
) -> Option<Cow<'a, str>> {
    let first = names.into_iter().next()?;
    drop(path.to_owned());
    (size > 0).then_some(first)
}

#[test]
fn both_ends_are_recorded_on_every_way_out() {
    let names = vec![Cow::Borrowed("n")];
    assert_eq!(load(Path::new("/p"), 1, names, &mut 0).as_deref(), Some("n"));
    let (_, schema) = EMITTED.with_borrow(|all| {
        assert!(matches!(&*all[1].1, [call] if call.starts_with("DurationNanos ")));
        (all[1].0.schema(), all[0].0.schema())
    });
    assert_eq!((schema.provider.name, schema.level), ("Files", Level::Verbose));
    assert_eq!(schema.fields[1].ty, FieldType::U64);
    let (events, values) = emitted();
    assert_eq!(events, ["loadStart", "loadStop"]);
    assert_eq!(values, ["str Utf16 /p", "U64 1", "[ Counted 1", "str Utf16 n", "]"]);

    assert_eq!(load(Path::new(""), 1, vec![], &mut 0), None);
    assert_eq!(emitted().0, ["loadStart", "loadStop"]);
}

#[traced(crate = writer, name = "Fall", key_values = [("a", "b")])]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// Names that the generated code must not use.
mod bare {
    #![no_implicit_prelude]
    #![allow(non_upper_case_globals, dead_code, reason = "names that written code might use")]
    #![deny(unused_qualifications, clippy::all, clippy::pedantic)]

    pub(crate) struct Option;
    pub(crate) const duration: () = ();
    pub(crate) mod std {}

    #[::nettrace_macros::traced(crate = crate::writer, fields = [guard, started])]
    pub(crate) fn names(
        mut guard: ::core::primitive::u8,
        started: &::core::primitive::bool,
    ) -> ::core::primitive::u8 {
        let _ = Option;
        guard += <::core::primitive::u8 as ::core::convert::From<_>>::from(*started);
        guard
    }
}

#[test]
fn locals_are_not_confused_with_arguments() {
    assert_eq!(bare::names(1, &true), 2);
    assert_eq!(emitted().1, ["U8 1", "Bool true"]);
}

#[test]
fn a_panic_ends_a_call_too() {
    panic::catch_unwind(|| fail("on purpose")).unwrap_err();
    assert_eq!(emitted().0, ["FallStart", "FallStop"]);
}

struct Counter(u32);

impl Counter {
    #[traced(crate = crate::writer, fields = [by])]
    pub(crate) fn add<T: Into<u32>>(&mut self, by: u32, more: T) -> &mut Self {
        self.0 += by + more.into();
        self
    }
}

#[test]
fn methods_keep_their_receiver_and_parameters() {
    assert_eq!(Counter(1).add(2, 3_u8).0, 6);
    assert_eq!(emitted(), (vec!["addStart", "addStop"], vec!["U32 2".to_owned()]));
}

#[traced(crate = crate::writer)]
async fn wait(turns: usize) -> usize {
    let mut left = turns;
    std::future::poll_fn(|_| {
        left = left.saturating_sub(1);
        if left == 0 { task::Poll::Ready(()) } else { task::Poll::Pending }
    })
    .await;
    turns
}

#[test]
fn an_async_call_lasts_until_its_future_is_done() {
    let mut future = pin!(wait(2));
    assert!(emitted().0.is_empty());
    let mut context = task::Context::from_waker(task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert_eq!(emitted().0, ["waitStart"]);
    assert_eq!(future.as_mut().poll(&mut context), task::Poll::Ready(2));
    assert_eq!(emitted().0, ["waitStop"]);
}
