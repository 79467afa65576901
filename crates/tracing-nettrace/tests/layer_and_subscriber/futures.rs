//! `#[instrument]` on async functions.

use std::{io, time::Duration};

use tokio::{runtime::Builder, task::yield_now};
use tracing::{Instrument as _, Span, dispatcher::with_default, field::Empty, info, info_span};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::support::{BOTH, record};

#[tracing::instrument(ret, err, fields(later = Empty))]
async fn half(number: u64) -> Result<u64, io::Error> {
    yield_now().await;
    Span::current().record("later", "recorded");
    info!(number, at = "half");
    tokio::time::sleep(Duration::from_micros(50)).await;
    if number % 2 == 1 {
        return Err(io::Error::other(format!("{number} is odd")));
    }
    Ok(number / 2)
}

#[tracing::instrument(skip_all, ret(level = "debug"), err(Debug, level = "warn"))]
async fn both(number: u64) -> Result<u64, io::Error> {
    let (first, second) = (
        tokio::spawn(half(number).in_current_span()),
        tokio::spawn(half(2 * number).instrument(info_span!("between", number))),
    );
    let first = first.await.unwrap();
    let second = second.await.unwrap().unwrap();
    Ok(first? + second)
}

#[test]
fn instrumented_functions() {
    for way in BOTH {
        let dispatch = way.dispatch();
        let ((), recorded) = record(|| {
            let with_it = dispatch.clone();
            let runtime = Builder::new_multi_thread()
                .worker_threads(4)
                .on_thread_start(move || std::mem::forget(with_it.clone().set_default()))
                .enable_time()
                .build()
                .unwrap();
            let tasks: Vec<_> = with_default(&dispatch, || {
                (0..40).map(|number| runtime.spawn(both(number))).collect()
            });
            runtime.block_on(async {
                for (number, task) in tasks.into_iter().enumerate() {
                    assert_eq!(task.await.unwrap().is_ok(), number % 2 == 0);
                }
            });
            drop(runtime);
        });

        let count = |name: &str| recorded.spans.values().filter(|span| span.name == name).count();
        assert_eq!((count("both"), count("half"), count("between")), (40, 80, 40), "{way:?}");
        assert!(recorded.spans.values().all(|span| span.stopped_on.is_some()));
        for span in recorded.spans.values() {
            let names = recorded.up(span.parent);
            match &*span.name {
                "both" => assert!(names.is_empty(), "{span:?}"),
                "between" => assert_eq!(names, ["both"]),
                _ => {
                    assert!(names == ["both"] || names == ["between", "both"], "{names:?}");
                    assert_eq!(span.fields["later"], "recorded");
                }
            }
        }
        for event in recorded.plain() {
            let span = &recorded.spans[&event.span.expect("all events are in a span")];
            let level = match (&*span.name, event.fields.get("return"), event.fields.get("error")) {
                ("half", None, None) => {
                    assert_eq!(event.field("number"), span.fields["number"]);
                    4
                }
                ("half", Some(half), None) => {
                    let number: u64 = number(&span.fields["number"]);
                    assert_eq!(*half, (number / 2).to_string());
                    4
                }
                ("half", None, Some(error)) => {
                    let number = number(&span.fields["number"]);
                    assert_eq!(*error, format!("{number} is odd"));
                    2
                }
                ("both", Some(_), None) => 5,
                ("both", None, Some(error)) => {
                    assert!(error.contains("Custom { kind: Other"), "{error}");
                    3
                }
                _ => panic!("{event:?}"),
            };
            assert_eq!(event.level, level, "{event:?}");
        }
        // Each half says so, and returns or fails. So does each of the others.
        assert_eq!(recorded.plain().count(), 80 * 2 + 40);
    }
}

fn number(text: &str) -> u64 {
    text.strip_prefix("u64 ").unwrap().parse().unwrap()
}
