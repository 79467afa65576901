//! Known problems beside other layers, on many threads, and at unusual times.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads and counts")]

mod support;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use nettrace_writer::{
    OnFull, Session,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};
use testkit::process::one_at_a_time;
use tracing::{Level, Span, debug, info, info_span};
use tracing_nettrace::Options;
use tracing_subscriber::{
    filter::{LevelFilter, filter_fn},
    layer::{Context, Layer},
    prelude::*,
    registry::LookupSpan,
    reload,
};

use crate::support::{Way, both, named, only, read, record};

/// Counts what another layer sees.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Counting {
    fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        id: &tracing::Id,
        context: Context<'_, S>,
    ) {
        // As layers of OpenTelemetry and `tracing-error` do.
        let span = context.span(id).expect("it has begun");
        span.extensions_mut().insert(self.0.load(Ordering::Relaxed));
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn other_layers_see_what_no_session_wants() {
    let _alone = one_at_a_time();
    let counting = Counting::default();
    let seen = || counting.0.swap(0, Ordering::Relaxed);
    let other =
        counting.clone().with_filter(filter_fn(|metadata| *metadata.level() <= Level::INFO));
    let registry = tracing_subscriber::registry().with(tracing_nettrace::layer()).with(other);
    tracing::subscriber::with_default(registry, || {
        let work = || {
            debug!("low");
            info!("high");
            info_span!("span").in_scope(|| ());
        };
        work();
        assert_eq!(seen(), 2, "nobody listens");
        let memory = MemorySink::new();
        let session =
            Session::builder().sink(memory.clone()).provider("beside_other_layers").start();
        let session = session.unwrap();
        work();
        assert_eq!(seen(), 2);
        session.finish().unwrap();
        assert_eq!(read(&memory.bytes()).len(), 4);
        work();
        assert_eq!(seen(), 2, "nobody listens any more");
    });
    // A layer without a filter beside ours.
    let registry =
        tracing_subscriber::registry().with(counting.clone()).with(tracing_nettrace::layer());
    tracing::subscriber::with_default(registry, || {
        debug!("nobody but the other layer listens");
        assert_eq!(seen(), 1);
    });
}

#[test]
fn filters_on_our_layer_and_reload() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let session =
        Session::builder().sink(memory.clone()).provider("beside_other_layers").start().unwrap();
    let (filter, handle) = reload::Layer::new(LevelFilter::WARN);
    let layer = tracing_nettrace::layer().with_filter(filter);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let work = |n: u64| {
            info_span!("filtered", n).in_scope(|| tracing::warn!(n, "loud"));
        };
        work(1);
        handle.modify(|level| *level = LevelFilter::INFO).unwrap();
        work(2);
        handle.modify(|level| *level = LevelFilter::OFF).unwrap();
        work(3);
    });
    session.finish().unwrap();
    let events = read(&memory.bytes());
    let shown: Vec<_> =
        events.iter().map(|event| (event.name().len() > 12, event.span.is_some())).collect();
    assert_eq!(shown.len(), 4, "{events:#?}");
    assert_eq!(events[0].span, None, "the span was filtered");
    assert_eq!(only(&events, "filteredStart").field("n"), "2");
}

#[test]
fn subscribers_of_several_threads() {
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let builder = Session::builder().sink(memory.clone()).provider("beside_other_layers");
    let session = builder.on_full(OnFull::Block).start().unwrap();
    const THREADS: u64 = 64;
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            thread::spawn(move || {
                let way = Way::BOTH[number as usize % 2];
                tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
                    for turn in 0..50 {
                        info_span!("turn", number, turn).in_scope(|| {
                            info_span!("inner", number).in_scope(|| info!(number, turn));
                        });
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.dropped()), (THREADS * 50 * 5, 0));
    let events = read(&memory.bytes());
    let starts = named(&events, "turnStart");
    assert_eq!(starts.len() as u64, THREADS * 50);
    for inner in named(&events, "innerStart") {
        let parent = starts.iter().find(|start| start.span == inner.parent).expect("a parent");
        assert_eq!(parent.field("number"), inner.field("number"));
    }
}

/// Handles of one subscriber's spans, cloned, sent around and dropped by 8 threads.
#[test]
fn handles_are_sent_around() {
    for way in Way::BOTH {
        let (events, _) = record(
            way,
            Options::new(),
            |session| session,
            || {
                let dispatch = tracing::dispatcher::get_default(Clone::clone);
                let (senders, receivers): (Vec<_>, Vec<_>) =
                    (0..8).map(|_| std::sync::mpsc::channel::<Span>()).unzip();
                let threads: Vec<_> = receivers
                    .into_iter()
                    .enumerate()
                    .map(|(number, receiver)| {
                        let (dispatch, next) =
                            (dispatch.clone(), senders[(number + 1) % 8].clone());
                        thread::spawn(move || {
                            tracing::dispatcher::with_default(&dispatch, || {
                                for (turn, span) in receiver.iter().take(300).enumerate() {
                                    span.in_scope(|| ());
                                    if turn % 3 == 0 {
                                        let _ = next.send(span.clone());
                                    }
                                    drop(span);
                                }
                            });
                        })
                    })
                    .collect();
                for (turn, sender) in (0..2_400).zip(senders.iter().cycle()) {
                    let _ = sender.send(info_span!("sent", turn));
                }
                drop(senders);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            },
        );
        let (starts, stops) = (named(&events, "sentStart"), named(&events, "sentStop"));
        assert_eq!((starts.len(), stops.len()), (2_400, 2_400), "{way:?}");
        let mut ids: Vec<_> = stops.iter().map(|stop| stop.span).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2_400, "{way:?}: each ends once");
    }
}

/// A sink that logs. Its own session must come to rest, and nothing may wait for ever.
#[test]
fn what_a_sink_logs_is_counted() {
    struct Chatty(MemorySink);

    impl Sink for Chatty {
        fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
            self.0.start(header, end)
        }

        fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
            info_span!("writing").in_scope(|| info!("in the sink"));
            self.0.write(batch)
        }

        fn finish(&mut self) -> io::Result<()> {
            self.0.finish()
        }
    }

    alone("what_a_sink_logs_is_counted", || {
        tracing::subscriber::set_global_default(tracing_nettrace::subscriber()).unwrap();
        let memory = MemorySink::new();
        let session = Session::builder().sink(Chatty(memory.clone())).start().unwrap();
        let before = tracing_nettrace::stats().on_session_thread;
        for n in 0..20 {
            info!(n);
            session.flush().unwrap();
        }
        assert_eq!(session.finish().unwrap().written, 20);
        assert!(tracing_nettrace::stats().on_session_thread >= before + 20);
        assert_eq!(read(&memory.bytes()).len(), 20);
    });
}

/// With the subscriber of the whole process, `tracing` lets a value log: its event comes first.
#[test]
fn values_that_log_and_drop_spans() {
    struct Logs(u32);

    impl fmt::Debug for Logs {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let _span = info_span!("in_debug", depth = self.0).entered();
            if self.0 > 0 {
                info!(depth = self.0, inner = ?Logs(self.0 - 1));
            }
            write!(f, "logs {}", self.0)
        }
    }

    alone("values_that_log_and_drop_spans", || {
        tracing::subscriber::set_global_default(tracing_nettrace::subscriber()).unwrap();
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).start().unwrap();
        info!(depth = 3_u32, inner = ?Logs(2));
        assert_eq!(session.finish().unwrap().dropped(), 0);
        let events = read(&memory.bytes());
        let depths: Vec<_> = events
            .iter()
            .filter(|event| event.has("inner"))
            .map(|event| (event.field("depth"), event.field("inner")))
            .collect();
        assert_eq!(depths, [("1", "logs 0"), ("2", "logs 1"), ("3", "logs 2")]);
        assert_eq!(named(&events, "in_debugStart").len(), 3);
        assert_eq!(named(&events, "in_debugStop").len(), 3);
    });
}

/// Runs `work` in a process of its own, which may have a subscriber of its own.
fn alone(name: &str, work: impl FnOnce()) {
    if testkit::process::is_rerun().is_some() {
        return work();
    }
    let output = testkit::process::rerun(name, "alone");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_combination_of_optional_fields_is_recorded() {
    fn generic<T: tracing::Value>(first: Option<T>, rest: [Option<u64>; 7]) {
        let [a, b, c, d, e, f, g] = rest;
        info!(name: "many", first, a, b, c, d, e, f, g);
    }
    let before = tracing_nettrace::stats();
    let work = || {
        for bits in 0..128_u32 {
            let rest = [0, 1, 2, 3, 4, 5, 6].map(|bit| (bits >> bit & 1 != 0).then_some(1));
            generic(None::<u64>, rest);
        }
    };
    both(&Options::new(), work, |way, events| assert_eq!(events.len(), 128, "{way:?}"));
    let after = tracing_nettrace::stats();
    assert_eq!(after.events_refused, before.events_refused);
}

/// Lines of a log have the ids that the trace has.
#[cfg(feature = "fmt")]
#[test]
fn lines_have_the_ids_of_the_trace() {
    use std::sync::{Mutex, PoisonError};

    use tracing_nettrace::with_ids;
    use tracing_subscriber::fmt::layer;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            String::from_utf8(bytes).unwrap()
        }
    }

    #[nettrace_writer::traced(provider = "beside_other_layers")]
    fn ours() {
        info!("within ours");
    }

    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let session = Session::builder().on_full(OnFull::Block).sink(memory.clone()).start().unwrap();
    let [text, colours, pretty, json, bare] = std::array::from_fn(|_| Lines::default());
    let to = |lines: &Lines| {
        let lines = lines.clone();
        move || lines.clone()
    };
    let registry = tracing_subscriber::registry()
        .with(tracing_nettrace::layer())
        .with(layer().with_ansi(false).with_writer(to(&text)).map_event_format(with_ids))
        .with(layer().with_ansi(true).with_writer(to(&colours)).map_event_format(with_ids))
        .with(layer().with_ansi(false).pretty().with_writer(to(&pretty)).map_event_format(with_ids))
        .with(layer().json().with_writer(to(&json)).map_event_format(with_ids))
        .with(layer().json().with_writer(to(&bare)));
    let shown = tracing::subscriber::with_default(registry, || {
        info!("outside");
        for lines in [&text, &colours, &pretty, &json] {
            let line = lines.take();
            assert!(line.contains("outside") && !line.contains("_id"), "{line}");
        }
        let span = info_span!("request");
        let shown = span.in_scope(|| {
            info!("within");
            let other = info_span!("other");
            info!(parent: &other, "elsewhere");
            info!(parent: &span, "explicit");
            info!(parent: None, "nowhere");
            nettrace_writer::Context::current().to_string()
        });
        ours();
        shown
    });
    session.finish().unwrap();
    let events = read(&memory.bytes());
    let ids = |name: &str| {
        let event = only(&events, name);
        let trace: String = event.trace.unwrap().iter().map(|b| format!("{b:02x}")).collect();
        (trace, format!("{:016x}", event.span.unwrap()))
    };
    let (trace, span) = ids("requestStart");
    let (our_trace, our_span) = ids("oursStart");
    let prefix = format!("trace_id={trace} span_id={span}");
    assert_eq!(shown, prefix);
    for lines in [text, colours, pretty] {
        let lines = lines.take();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let expected = match line {
                _ if line.contains("within ours") => {
                    format!("trace_id={our_trace} span_id={our_span} ")
                }
                _ if line.contains("within") || line.contains("explicit") => format!("{prefix} "),
                _ => {
                    assert!(!line.contains("trace_id"), "{line}");
                    continue;
                }
            };
            assert!(line.starts_with(&expected), "{line}");
            assert_eq!(line.matches("_id=").count(), 2, "{line}");
        }
    }
    let (json, bare) = (json.take(), bare.take());
    assert_eq!(json.lines().count(), 5);
    for (line, bare) in json.lines().zip(bare.lines().skip(1)) {
        let with = match line {
            _ if line.contains("within ours") => Some((&our_trace, &our_span)),
            _ if line.contains("within") || line.contains("explicit") => Some((&trace, &span)),
            _ => None,
        };
        let (trace, rest) = line.split_at(if with.is_some() { 13 + 32 + 13 + 16 + 1 } else { 0 });
        if let Some((of_trace, of_span)) = with {
            let expected = format!("{{\"trace_id\":\"{of_trace}\",\"span_id\":\"{of_span}\"");
            assert_eq!(trace, expected);
            assert!(rest.starts_with(",\"timestamp\":") && rest.ends_with('}'), "{rest}");
            // All but the times are the same.
            let after_level = |line: &str| line.split_once("level").unwrap().1.to_owned();
            assert_eq!(after_level(line), after_level(bare));
        }
    }
}

/// A trace has the same ids here and in what OpenTelemetry exports to.
#[cfg(feature = "opentelemetry")]
#[test]
fn spans_have_the_ids_of_opentelemetry() {
    use nettrace_writer::traced;
    use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SdkTracerProvider, SpanData, SpanProcessor},
    };
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    /// Keeps the spans that end.
    #[derive(Clone, Debug, Default)]
    struct Ended(Arc<std::sync::Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Ended {
        fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &opentelemetry::Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    #[traced(provider = "beside_other_layers")]
    fn ours() {
        info_span!("inner").in_scope(|| info!("inmost"));
    }

    fn caller() -> opentelemetry::Context {
        use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

        opentelemetry::Context::new().with_remote_span_context(SpanContext::new(
            TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736),
            SpanId::from(0x00f0_67aa_0ba9_02b7),
            TraceFlags::SAMPLED,
            true,
            TraceState::default(),
        ))
    }

    let _alone = one_at_a_time();
    for comes_first in [true, false] {
        let ended = Ended::default();
        let provider = SdkTracerProvider::builder().with_span_processor(ended.clone()).build();
        let memory = MemorySink::new();
        let session = Session::builder().on_full(OnFull::Block).sink(memory.clone());
        let session = session.start().unwrap();
        let options = Options::new().opentelemetry(true);
        let (registry, tracer) = (tracing_subscriber::registry(), provider.tracer("tests"));
        let dispatch = if comes_first {
            let theirs = tracing_opentelemetry::layer().with_tracer(tracer);
            tracing::Dispatch::new(registry.with(options.layer()).with(theirs))
        } else {
            let theirs = tracing_opentelemetry::layer().with_tracer(tracer);
            tracing::Dispatch::new(registry.with(theirs).with(options.layer()))
        };
        tracing::dispatcher::with_default(&dispatch, || {
            let request = info_span!("request", user = tracing::field::Empty, status = 200);
            // Before a span has ids, anything may be said of it.
            request.record("user", "ann");
            request.set_parent(caller()).unwrap();
            request.in_scope(|| {
                info!("in request");
                let context = Span::current().context();
                let trace = context.span().span_context().trace_id().to_string();
                let ours_now = nettrace_writer::Context::current();
                assert_eq!(ours_now.trace_id().unwrap().to_string(), trace);
                ours();
            });
            let job = info_span!("job");
            let step = info_span!(parent: &job, "step");
            info!(parent: &step, "in step");
            let elsewhere = thread::spawn({
                let (dispatch, step) = (dispatch.clone(), step.clone());
                move || tracing::dispatcher::with_default(&dispatch, || step.in_scope(ours))
            });
            elsewhere.join().unwrap();
            info_span!(parent: &job, "unused").follows_from(&request);
            drop(info_span!(parent: &job, "never"));
        });
        drop(dispatch);
        assert_eq!(session.finish().unwrap().dropped(), 0);

        let events = read(&memory.bytes());
        let starts: Vec<_> = events.iter().filter(|it| it.name().ends_with("Start")).collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let exported = std::mem::take(&mut *ended.0.lock().unwrap());
        assert_eq!(exported.len(), 7, "{comes_first}");
        for span in &exported {
            let context = &span.span_context;
            let same = starts.iter().filter(|start| {
                start.name() == format!("{}Start", span.name)
                    && start.trace.is_some_and(|id| hex(&id) == context.trace_id().to_string())
            });
            let of_id = same.clone().filter(|start| {
                start.span.is_some_and(|id| format!("{id:016x}") == context.span_id().to_string())
            });
            // One that was never entered has its own id if the other layer has forgotten it.
            let expected = usize::from(comes_first || span.name != "never");
            assert_eq!(of_id.count(), expected, "{comes_first} {span:?} {starts:#?}");
            assert!(same.count() > 0, "{comes_first} {span:?}");
        }
        let start = |name: &str| only(&events, &format!("{name}Start"));
        assert_eq!(hex(&start("request").trace.unwrap()), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(start("request").shown(), "status=200");
        let record = only(&events, "requestRecord");
        assert_eq!((record.shown().as_str(), record.span), ("user=ann", start("request").span));
        assert_eq!(start("step").parent, start("job").span);
        let at = |text| support::message(&events, text);
        assert_eq!(at("in step").span, start("step").span);
        for outer in ["request", "step"].map(start) {
            let within = named(&events, "oursStart");
            let inside: Vec<_> = within.iter().filter(|it| it.parent == outer.span).collect();
            assert_eq!(inside.len(), 1, "{comes_first}");
            assert_eq!(inside[0].trace, outer.trace);
        }
        assert_eq!(named(&events, "neverStop").len(), 1);
    }
}
