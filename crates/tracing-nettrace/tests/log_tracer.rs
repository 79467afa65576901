//! Records of the crate `log` that `tracing-log` makes events of `tracing`.

mod support;

use nettrace_writer::ProviderFilter;
use tracing_nettrace::Options;

use crate::support::{Way, message, record};

#[test]
fn an_event_of_tracing_log_is_the_record() {
    tracing_log::LogTracer::init().unwrap();
    let options = Options::new().directives("trace,log_tracer::quiet=off").unwrap();
    for way in Way::BOTH {
        let filter = ProviderFilter::new("log_tracer").level(nettrace_writer::Level::Warning);
        let mut line = 0;
        let (events, _) = record(
            way,
            options.clone(),
            |session| session.provider(filter),
            || {
                line = line!() + 1;
                log::warn!("through tracing {}", 1);
                log::info!("too low");
                log::warn!(target: "log_tracer::quiet", "off");
                log::error!(target: "elsewhere", "another provider");
            },
        );
        assert_eq!(events.len(), 1, "{way:?}: {events:#?}");
        let event = message(&events, "through tracing 1");
        assert_eq!(event.shown(), "message=through tracing 1", "{way:?}");
        assert_eq!((&*event.metadata.provider, event.metadata.level), ("log_tracer", 3));
        assert_eq!(event.name(), "log_tracer");
        assert_eq!(event.key("module"), Some("log_tracer"));
        assert_eq!(event.key("target"), Some("log_tracer"));
    }
}
