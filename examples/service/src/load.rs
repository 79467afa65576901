//! The requests with which the service loads itself.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use http_body_util::BodyExt as _;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use nettrace_tower::ClientLayer;
use nettrace_writer::{Context, FutureExt as _, Sampling, traced};
use tokio::{select, task::JoinSet, time::sleep_until};
use tower::{Layer as _, ServiceExt as _, util::MapRequest};
use tracing::Instrument as _;

use crate::{endless, known::Call, meters::Meters, peers, store::ITEMS};

/// When the load ends, if no signal ends it sooner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// After so many requests.
    Count(u64),
    /// At a time.
    Time(Instant),
}

/// What has become of the requests.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    /// Answered with a status below 400.
    pub(crate) ok: u64,
    /// Answered with another status.
    pub(crate) failed: u64,
    /// Not answered: the connection was closed.
    pub(crate) broken: u64,
    /// Given up.
    pub(crate) cancelled: u64,
    /// How long items and orders took, in microseconds, the shortest first.
    micros: Vec<u32>,
}

impl Load {
    /// Which time so many percent of the requests for items and orders did not exceed, in
    /// microseconds.
    pub(crate) fn percentile(&self, percent: usize) -> Option<u32> {
        let last = self.micros.len().checked_sub(1)?;
        Some(self.micros[last * percent / 100])
    }

    fn plus(mut self, other: Self) -> Self {
        self.requests += other.requests;
        self.ok += other.ok;
        self.failed += other.failed;
        self.broken += other.broken;
        self.cancelled += other.cancelled;
        self.micros.extend(other.micros);
        self
    }
}

type HttpClient = legacy::Client<HttpConnector, Body>;
type Client = nettrace_tower::Client<MapRequest<HttpClient, fn(Request<Body>) -> Request<Body>>>;

/// What the load is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) until: Until,
    /// How many requests are in progress at once.
    pub(crate) at_once: usize,
    /// Which requests are recorded, if each begins a trace.
    pub(crate) sampling: Sampling,
    /// How many requests begin in a second. `None`: each when another is done.
    pub(crate) rate: Option<u32>,
}

/// Sends requests, each of which begins a trace.
pub(crate) async fn run(plan: Plan) -> Load {
    send_all(plan, Call::default()).await
}

/// Sends requests inside one span.
#[traced(provider = "Example-Service", fields = [at_once = plan.at_once as u64])]
pub(crate) async fn run_as_one(plan: Plan) -> Load {
    send_all(plan, Call::begin("run_as_one", Call::default())).await
}

async fn send_all(plan: Plan, caller: Call) -> Load {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let client: Client = ClientLayer::new().sampling(plan.sampling).layer(client.map_request(know));
    let progress = Arc::new(Progress::default());
    let stop = tokio::spawn(stop_at_signal(progress.clone()));
    let numbers = Arc::new(Numbers::new(Kind::NAMES));
    let mut senders = JoinSet::new();
    for _ in 0..plan.at_once {
        let send = send(client.clone(), plan, caller, progress.clone(), numbers.clone());
        senders.spawn(send.with_context(Context::current()));
    }
    let mut load = senders.join_all().await.into_iter().fold(Load::default(), Load::plus);
    stop.abort();
    debug_assert_eq!(load.requests, numbers.requests());
    load.micros.sort_unstable();
    load
}

/// How far the load is.
#[derive(Debug, Default)]
struct Progress {
    /// The number of the next request.
    next: AtomicU64,
    /// No request begins any more.
    is_stopped: AtomicBool,
}

/// Stops the load when the process is told to end, so that the trace is whole and the counts show.
async fn stop_at_signal(progress: Arc<Progress>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
        select! { _ = interrupt.recv() => (), _ = terminate.recv() => () }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    progress.is_stopped.store(true, Ordering::Relaxed);
}

/// The call that a request is, which its headers name, and the caller, which it carries.
fn know(request: Request<Body>) -> Request<Body> {
    let caller = request.extensions().get().copied().unwrap_or_default();
    Call::from_headers(request.headers()).note("ClientRequest", caller);
    request
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Item,
    NoItem,
    Order,
    Categories,
    Report,
    Slow,
    Broken,
    GivenUp,
}

/// The numbers of each kind of request.
type Numbers = Meters<8>;

impl Kind {
    /// The names of all kinds, in their order.
    const NAMES: [&'static str; 8] =
        ["item", "no_item", "order", "categories", "report", "slow", "broken", "given_up"];

    fn of(number: u64) -> Self {
        match number % 100 {
            17 => Self::GivenUp,
            53 if number % 200 == 53 => Self::Broken,
            31 | 71 => Self::NoItem,
            9 => Self::Categories,
            39 | 89 => Self::Report,
            7 | 27 | 47 | 67 | 87 => Self::Slow,
            rest if rest % 3 == 0 => Self::Order,
            _ => Self::Item,
        }
    }
}

/// Sends one request after the other.
async fn send(
    client: Client,
    plan: Plan,
    caller: Call,
    progress: Arc<Progress>,
    numbers: Arc<Numbers>,
) -> Load {
    let Plan { address, until, rate, .. } = plan;
    let mut load = Load::default();
    let start = Instant::now();
    loop {
        let number = progress.next.fetch_add(1, Ordering::Relaxed);
        if let Some(rate) = rate {
            let due = start + Duration::from_secs_f64(number as f64 / f64::from(rate));
            sleep_until(due.into()).await;
        }
        let is_over = match until {
            Until::Count(count) => number >= count,
            Until::Time(end) => Instant::now() >= end,
        };
        if is_over || progress.is_stopped.load(Ordering::Relaxed) {
            return load;
        }
        load.requests += 1;
        let (kind, id) = (Kind::of(number), number % ITEMS);
        let request = match kind {
            Kind::Order => Request::post(format!("http://{address}/order/{id}")),
            Kind::Item => Request::get(format!("http://{address}/item/{id}")),
            Kind::NoItem => Request::get(format!("http://{address}/item/{}", ITEMS + id)),
            Kind::Categories => Request::get(format!("http://{address}/categories")),
            Kind::Report => Request::get(format!("http://{address}/report/5")),
            Kind::Slow => Request::get(format!("http://{address}/slow/{}", 2 + number % 7)),
            Kind::Broken => Request::get(format!("http://{address}/broken")),
            Kind::GivenUp => Request::get(format!("http://{address}/endless/{number}")),
        };
        let request = request.extension(caller).body(Body::empty()).expect("a valid request");
        numbers.begin(kind as usize);
        let began = Instant::now();
        let span = tracing::info_span!("call", number);
        let answer = answer(client.clone(), request).instrument(span);
        let answer = peers::root("call", || [("number", number.to_string())], answer);
        let given_up = async {
            match kind {
                Kind::GivenUp => endless::has_begun(number).await,
                _ => pending().await,
            }
        };
        select! {
            answer = answer => match answer {
                Ok(status) if status.is_success() => load.ok += 1,
                Ok(_) => load.failed += 1,
                Err(()) => load.broken += 1,
            },
            () = given_up => load.cancelled += 1,
        }
        let took = began.elapsed();
        numbers.end(kind as usize, took);
        if matches!(kind, Kind::Item | Kind::Order) {
            let micros = took.as_micros();
            load.micros.push(u32::try_from(micros).unwrap_or(u32::MAX));
        }
    }
}

/// Reads an answer to its end. Fails if there is none.
async fn answer(client: Client, request: Request<Body>) -> Result<StatusCode, ()> {
    let response = client.oneshot(request).await.map_err(drop)?;
    let status = response.status();
    response.into_body().collect().await.map_err(drop)?;
    Ok(status)
}
