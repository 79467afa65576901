//! Records of the crate `log`. In one test, because a process has one logger.

mod support;

use log::{LevelFilter, Record};
use nettrace_writer::{ProviderFilter, Session, sink::MemorySink};
use tracing::info_span;
use tracing_nettrace::Options;

use crate::support::{Way, message, only, read};

#[test]
fn records_are_events() {
    Options::new().directives("trace,loud::quiet=off").unwrap().logger().install().unwrap();
    assert!(tracing_nettrace::logger().install().is_err(), "there is one");
    assert_eq!(log::max_level(), LevelFilter::Off);
    log::error!("nobody listens");
    for way in Way::BOTH {
        let memory = MemorySink::new();
        let filters = ProviderFilter::parse_list("log_records::Informational,loud").unwrap();
        let session = Session::builder().sink(memory.clone()).providers(filters);
        let session = session.start().unwrap();
        assert_eq!(log::max_level(), LevelFilter::Trace, "{way:?}: all of `loud`");
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            let line = line!() + 1;
            log::info!(port = 8080, addr:? = Some(1), name = "x", on = true; "listening {}", 1);
            log::debug!("too low");
            log::trace!(target: "loud::inner", "low");
            log::error!(target: "loud::quiet", "off");
            log::error!(target: "elsewhere", "another provider");
            info_span!("span").in_scope(|| log::warn!("within"));
            // What `tracing` logs of its own events with the feature `log-always`.
            let echo_line = line!() + 1;
            tracing::info!("spoken once");
            let echo = |file, line| {
                let record = Record::builder()
                    .args(format_args!("spoken once"))
                    .level(log::Level::Info)
                    .target("log_records")
                    .module_path(Some("log_records"))
                    .file(Some(file))
                    .line(Some(line))
                    .build();
                log::logger().log(&record);
            };
            echo(file!(), echo_line);
            echo(file!(), line);
            // As in a dependency.
            echo("/home/me/.cargo/registry/src/index.crates.io-1949/pool-0.1.7/src/lib.rs", 9);
            (0..3).for_each(|n| log::info!(n; "counted"));

            assert_eq!(session.stats().dropped(), 0);
            session.flush().unwrap();
            let events = read(&memory.bytes());
            let listening = message(&events, "listening 1");
            assert_eq!(
                listening.shown(),
                "message=listening 1 port=8080 addr=Some(1) name=x on=true",
                "{way:?}"
            );
            assert_eq!(listening.name(), "log_records");
            assert_eq!(
                (&*listening.metadata.provider, listening.metadata.level),
                ("log_records", 4)
            );
            assert_eq!(listening.key("module"), Some("log_records"));
            assert_eq!(listening.key("line"), Some(&*line.to_string()));
            assert!(listening.key("file").unwrap().ends_with("tests/log_records.rs"));
            assert_eq!(message(&events, "low").key("target"), Some("loud::inner"));
            assert_eq!(message(&events, "within").span, only(&events, "spanStart").span);
            let spoken: Vec<_> = events
                .iter()
                .filter(|event| event.has("message") && event.field("message") == "spoken once")
                .map(|event| event.key("line").unwrap().to_owned())
                .collect();
            assert_eq!(spoken, [echo_line, line, 9].map(|line| line.to_string()), "{way:?}");
            let in_dependency = events.iter().find(|event| event.key("line") == Some("9"));
            assert_eq!(in_dependency.unwrap().key("file"), Some("pool-0.1.7/src/lib.rs"));
            let counted: Vec<_> = events.iter().filter(|event| event.has("n")).collect();
            assert_eq!(counted.iter().map(|event| event.field("n")).collect::<String>(), "012");
            assert!(counted.iter().all(|it| it.metadata.event_id == counted[0].metadata.event_id));
            // Three above, what was spoken three times, three counted, Start and Stop.
            assert_eq!(events.len(), 3 + 3 + 3 + 2, "{way:?}: {events:#?}");
        });
        drop(session);
        assert_eq!(log::max_level(), LevelFilter::Off, "{way:?}");
    }
}
