//! Callsites that several types share, and callsites that are made at run time.

use std::{
    any::type_name,
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering},
};

use testkit::effort::left_out;
use tracing::{
    Event, Level, Metadata, Value, callsite::Identifier, dispatcher::with_default, field::FieldSet,
    info, info_span, metadata::Kind as MetadataKind, subscriber::Interest,
};
use tracing_core::Callsite;

use crate::support::{BOTH, record};

/// One callsite for all types of values.
fn typed<V: Value>(value: V) {
    info!(value, of = "typed");
}

fn generic<T: Debug + Default>() {
    let span = info_span!("generic", ty = type_name::<T>());
    span.in_scope(|| info!(of = type_name::<T>(), value = ?T::default()));
}

#[test]
fn generic_functions() {
    for way in BOTH {
        let ((), recorded) = record(|| {
            with_default(&way.dispatch(), || {
                for _ in 0..3 {
                    typed(7_u64);
                    typed(-7_i64);
                    typed(true);
                    typed(2.5);
                    typed("text");
                    typed(Some(8_u64));
                    typed(None::<u64>);
                }
                generic::<u8>();
                generic::<String>();
                generic::<Vec<i64>>();
            });
        });
        let typed = recorded.plain().filter(|event| event.fields["of"] == "typed");
        let values: Vec<_> = typed.map(|event| event.fields.get("value").map(|v| &**v)).collect();
        let once = [
            Some("u64 7"),
            Some("i64 -7"),
            Some("bool true"),
            Some("f64 2.5"),
            Some("text"),
            Some("u64 8"),
            None,
        ];
        assert_eq!(values, once.repeat(3), "{way:?}");

        for (ty, value) in [
            (type_name::<u8>(), "0"),
            (type_name::<String>(), "\"\""),
            ("alloc::vec::Vec<i64>", "[]"),
        ] {
            let event = recorded.only("of", ty);
            assert_eq!(event.field("value"), value);
            assert_eq!(recorded.spans[&event.span.unwrap()].fields["ty"], ty);
        }
    }
}

/// A callsite that is made at run time, as bridges from other languages do.
struct Made {
    metadata: std::sync::OnceLock<Metadata<'static>>,
    is_wanted: AtomicBool,
}

impl Callsite for Made {
    fn set_interest(&self, interest: Interest) {
        self.is_wanted.store(!interest.is_never(), Ordering::Relaxed);
    }

    fn metadata(&self) -> &Metadata<'_> {
        self.metadata.get().unwrap()
    }
}

impl Made {
    fn new(number: usize) -> &'static Self {
        let made: &'static Self = Box::leak(Box::new(Self {
            metadata: std::sync::OnceLock::new(),
            is_wanted: AtomicBool::new(false),
        }));
        let name: &'static str = format!("made {number}").leak();
        let fields = FieldSet::new(&["number"], Identifier(made));
        let metadata = Metadata::new(
            name,
            "made::here",
            Level::INFO,
            None,
            None,
            None,
            fields,
            MetadataKind::EVENT,
        );
        made.metadata.set(metadata).unwrap();
        tracing_core::callsite::register(made);
        made
    }

    fn emit(&'static self, number: u64) {
        if self.is_wanted.load(Ordering::Relaxed) {
            let metadata = self.metadata.get().unwrap();
            let field = metadata.fields().field("number").unwrap();
            let values = [(&field, Some(&number as &dyn Value))];
            Event::dispatch(metadata, &metadata.fields().value_set(&values));
        }
    }
}

#[test]
fn callsites_made_at_run_time() {
    if left_out() {
        return;
    }
    const COUNT: u64 = 500;
    for way in BOTH {
        let dispatch = way.dispatch();
        let ((), recorded) = record(|| {
            with_default(&dispatch, || {
                // Made while the session listens. They are used again after the last one is made.
                let all: Vec<_> = (0..COUNT).map(|number| Made::new(number as usize)).collect();
                for round in 0..2 {
                    all.iter()
                        .enumerate()
                        .for_each(|(at, made)| made.emit(round * COUNT + at as u64));
                }
            });
        });
        let numbers: Vec<_> = recorded.plain().map(|event| event.field("number")).collect();
        let expected: Vec<_> = (0..2 * COUNT).map(|number| format!("u64 {number}")).collect();
        assert_eq!(numbers, expected, "{way:?}");
        let names: Vec<_> = recorded.plain().map(|event| &*event.name).collect();
        assert!(names[..3].iter().zip(["made 0", "made 1", "made 2"]).all(|(a, b)| a.contains(b)));
    }
}
