//! A service on axum that records a trace. Stop it with Ctrl-C or SIGTERM.

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Path, Request},
    http::{Method, Uri},
    middleware::{self, Next},
    response::Response,
    routing::get,
};
use nettrace_writer::{Emit, Session, TraceEvent, record_panics};
use tokio::{
    net::TcpListener,
    select,
    signal::{self, unix},
};

/// A request was answered, or given up: then the status is 0.
#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Checkout", message = "{method} {path}: {status} after {took}")]
struct Answered<'a> {
    method: &'a str,
    path: &'a str,
    status: u16,
    took: Duration,
}

/// Somebody looked into a cart.
#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Checkout", level = Verbose, message = "cart of user {user}")]
struct CartRead {
    user: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    record_panics();
    let session = Session::builder()
        .file("checkout-{pid}-{time}.nettrace")
        .provider("Contoso-*")
        .provider("NetTrace-Panics")
        .providers_from_env("NETTRACE_PROVIDERS")
        .register::<Answered<'_>>()
        .register::<CartRead>()
        .on_sink_change(|change| eprintln!("trace: {change}"))
        .start_or_warn();
    for warning in session.iter().flat_map(Session::warnings) {
        eprintln!("trace: {warning}");
    }

    let app = Router::new().route("/cart/{user}", get(cart)).layer(middleware::from_fn(record));
    let address = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    // Handle SIGTERM before anybody can know that the service runs and stop it.
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;
    println!("listening on {}", listener.local_addr()?);
    let stop = async move {
        select! {
            _ = terminate.recv() => {}
            _ = signal::ctrl_c() => {}
        }
    };
    let served = axum::serve(listener, app).with_graceful_shutdown(stop).await;

    // Even if the server has failed, the trace gets its last events.
    match session.map(Session::finish) {
        Some(Ok(stats)) => {
            println!("{} events written, {} dropped", stats.written, stats.dropped())
        }
        Some(Err(error)) => eprintln!("trace: {error}"),
        None => {}
    }
    Ok(served?)
}

async fn cart(Path(user): Path<u64>) -> String {
    CartRead { user }.emit();
    format!("the cart of user {user} is empty\n")
}

/// Records each request with its answer.
async fn record(request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut served = Served { method, uri, start: Instant::now(), status: 0 };
    let response = next.run(request).await;
    served.status = response.status().as_u16();
    response
}

/// A request in progress. If the handler panics or the client leaves, nothing after the `await`
/// runs. But this is dropped even then.
struct Served {
    method: Method,
    uri: Uri,
    start: Instant,
    status: u16,
}

impl Drop for Served {
    fn drop(&mut self) {
        let Self { method, uri, start, status } = self;
        let (method, path) = (method.as_str(), uri.path());
        Answered { method, path, status: *status, took: start.elapsed() }.emit();
    }
}
