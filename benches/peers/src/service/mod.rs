//! The recorders of other libraries for the example service, which this package builds with this
//! module in the place of its own `peers`.
//!
//! Each has the settings that its documentation begins with. What the others would send somewhere
//! is counted and dropped, because a network would be measured otherwise.

mod dial9;
mod fast;
mod otel;

use std::{error::Error, io, path::PathBuf};

use axum::{Router, extract::Request, middleware, middleware::Next, response::Response};
use fastrace::{
    Event, Span,
    future::FutureExt as _,
    local::{LocalParentGuard, LocalSpan},
};
use nettrace_writer::{Session, sink::FileOptions};
use tokio::runtime::{Builder, Runtime};
use tracing::Dispatch;

use crate::{
    cpu,
    record::{Recorded, Tracing},
};

/// A recording that has begun.
pub(crate) enum Peer {
    /// This project, through the bridge.
    Bridge(Session),
    Otel(otel::Recording),
    Fastrace(fast::Recording),
    Dial9(dial9::Recording),
}

impl Peer {
    /// Begins to record. `out` is for those that write a file.
    pub(crate) fn start(
        tracing: Tracing,
        out: PathBuf,
        overwrite: bool,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(match tracing {
            Tracing::Bridge => {
                let file = FileOptions::new(out).overwrite(overwrite).build();
                // The spans of `tracing` alone: what is `#[traced]` has another provider.
                let session = Session::builder().sink(file).provider("service").start()?;
                let options = tracing_nettrace::Options::new().directives("info")?;
                tracing::dispatcher::set_global_default(Dispatch::new(options.subscriber()))?;
                Self::Bridge(session)
            }
            Tracing::Otel => Self::Otel(otel::Recording::start()?),
            Tracing::Fastrace => Self::Fastrace(fast::Recording::start()),
            Tracing::Dial9 => Self::Dial9(dial9::Recording::start()?),
            Tracing::None | Tracing::Nettrace | Tracing::Fmt => {
                unreachable!("the service records these itself")
            }
        })
    }

    /// The runtime, with hooks if the recorder has any.
    pub(crate) fn runtime(&self, mut builder: Builder) -> io::Result<Runtime> {
        match self {
            Self::Dial9(recording) => recording.runtime(builder),
            _ => builder.build(),
        }
    }

    /// Ends the recording.
    pub(crate) fn finish(self) -> Result<Recorded, Box<dyn Error>> {
        Ok(match self {
            Self::Bridge(session) => {
                session.flush()?;
                let cpu = cpu::of_thread("nettrace-flusher");
                let stats = session.finish()?;
                let (events, dropped) = (stats.written, stats.dropped());
                Recorded { events, dropped, bytes: stats.bytes, cpu, ..Recorded::default() }
            }
            Self::Otel(recording) => recording.finish()?,
            Self::Fastrace(recording) => recording.finish(),
            Self::Dial9(recording) => recording.finish(),
        })
    }
}

/// The names of spans that only take what is in force to another thread or task. The others hand on
/// what they have without a span.
const HANDED_ON: [&str; 2] = ["blocking", "task"];

/// The span of fastrace that is in force on a thread.
pub(crate) struct Scope(Span);

impl Scope {
    pub(crate) fn current() -> Self {
        Self(Span::enter_with_local_parent(HANDED_ON[0]))
    }

    pub(crate) fn enter(&self) -> LocalParentGuard {
        self.0.set_local_parent()
    }
}

/// The routes, each request within a span if fastrace records.
pub(crate) fn router(app: Router, tracing: Tracing) -> Router {
    match tracing {
        Tracing::Fastrace => app.layer(middleware::from_fn(serve)),
        _ => app,
    }
}

async fn serve(request: Request, next: Next) -> Response {
    let head = [("method", request.method().to_string()), ("path", request.uri().to_string())];
    root("request", || head, next.run(request)).await
}

/// A future within a span that begins a trace.
pub(crate) fn root<F: Future, const N: usize>(
    name: &'static str,
    properties: impl FnOnce() -> [(&'static str, String); N],
    future: F,
) -> impl Future<Output = F::Output> {
    let span = Span::root(name, fastrace::prelude::SpanContext::random());
    future.in_span(span.with_properties(properties))
}

/// A future of another task, within what is in force here.
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.in_span(Span::enter_with_local_parent(HANDED_ON[1]))
}

/// An event.
pub(crate) fn event<const N: usize>(
    name: &'static str,
    properties: impl FnOnce() -> [(&'static str, String); N],
) {
    if fast::is_recording() {
        LocalSpan::add_event(Event::new(name).with_properties(properties));
    }
}
