//! The shop: its routes, and what they call.

use std::{
    convert::Infallible,
    fmt, panic,
    pin::Pin,
    sync::OnceLock,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{MatchedPath, Path, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::stream;
use nettrace_tower::ServerLayer;
use nettrace_writer::{
    Context, Emit, FutureExt as _, Label, Sampling, TraceEvent, Trigger, traced,
};
use tokio::{join, select, sync::oneshot, time::sleep};
use tracing::Instrument as _;

use crate::{
    endless::endless,
    known::Call,
    meters, peers,
    record::Tracing,
    store::{ITEMS, Item, Store},
};

/// The provider of the shop's own events and spans.
pub(crate) const PROVIDER: &str = "Example-Service";

/// What happens when a request is slow.
static SLOW: OnceLock<Trigger> = OnceLock::new();

/// A request that takes longer is slow.
const SLOW_AFTER: Duration = Duration::from_millis(8);

/// Fires `slow` at each request that is slow.
pub(crate) fn watch(slow: Trigger) {
    let _ = SLOW.set(slow);
}

/// How deep the tree of categories is.
const DEPTH: u32 = 40;

/// A customer has bought something.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-Service", message = "{item} for {cents} cents")]
pub(crate) struct Bought<'a> {
    pub(crate) item: &'a str,
    pub(crate) cents: u64,
}

/// A line of a report was sent.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-Service", message = "line {number}")]
struct Line {
    number: u64,
}

/// Why a request fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such item.
    NoItem(u64),
    /// A task of this service has failed.
    Broken,
    /// The database has failed.
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoItem(id) => write!(f, "there is no item {id}"),
            Self::Broken => f.write_str("a task has failed"),
            Self::Store(error) => write!(f, "the database: {error}"),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoItem(_) => StatusCode::NOT_FOUND,
            Self::Broken | Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}

/// The routes, with the layers that record requests.
pub(crate) fn router(store: Store, tracing: Tracing, sampling: Sampling) -> Router {
    // The program sends these requests to itself, so the caller has decided. A service that clients
    // reach does not trust its callers.
    let server = ServerLayer::new().trust_callers();
    let server = server.sampling(Sampling::caller().or(sampling));

    let app = Router::new()
        .route("/item/{id}", get(look))
        .route("/order/{id}", post(order))
        .route("/categories", get(categories))
        .route("/report/{lines}", get(report))
        .route("/slow/{millis}", get(slow))
        .route("/broken", get(broken))
        .route("/endless/{number}", get(endless))
        .with_state(store)
        .layer(middleware::from_fn(know))
        .layer(server);
    let app = peers::router(app, tracing);
    if tracing.is_of_tracing() { app.layer(middleware::from_fn(instrument)) } else { app }
}

/// Tells the handlers which call a request is.
async fn know(mut request: Request, next: Next) -> Response {
    let caller = Call::from_headers(request.headers());
    let call = Call::begin("ServerRequest", caller);
    request.extensions_mut().insert(call);
    next.run(request).await
}

/// What `ServerLayer` does, for the crate `tracing`.
async fn instrument(request: Request, next: Next) -> Response {
    let route = request.extensions().get().map_or("", MatchedPath::as_str);
    let status = tracing::field::Empty;
    let span = tracing::info_span!("request", method = %request.method(), route, status);
    async {
        let response = next.run(request).await;
        tracing::Span::current().record("status", response.status().as_u16());
        response
    }
    .instrument(span)
    .await
}

/// Shows an item: two calls at once.
#[traced(provider = "Example-Service", fields = [id: u64 = id.0])]
#[tracing::instrument(skip_all, fields(id = id.0))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "id": "{id:?}" }))]
async fn look(
    State(store): State<Store>,
    Extension(caller): Extension<Call>,
    id: Path<u64>,
) -> Result<String, Failure> {
    let call = Call::begin("look", caller);
    let (item, stock) = join!(store.item(call, id.0), stock(call, id.0));
    let Item { name, cents } = item?;
    Ok(format!("{name}: {cents} cents, {stock} in stock\n"))
}

#[traced(provider = "Example-Service", fields = [id])]
#[tracing::instrument(skip_all, fields(id))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "id": "{id}" }))]
async fn stock(caller: Call, id: u64) -> u64 {
    Call::begin("stock", caller);
    tokio::task::yield_now().await;
    id % 7
}

/// Sells an item. Everything inside carries the customer.
#[traced(provider = "Example-Service", fields = [id: u64 = id.0], err)]
#[tracing::instrument(skip_all, fields(id = id.0))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "id": "{id:?}" }))]
async fn order(
    State(store): State<Store>,
    Extension(caller): Extension<Call>,
    id: Path<u64>,
) -> Result<String, Failure> {
    let call = Call::begin("order", caller);
    let customer = id.0 % 50;
    let name = format!("customer {customer}");
    let sold = sell(call, store, id.0, customer).with_labels(&[Label::Str("customer", &name)]);
    sold.map_err(|_| Failure::Broken)?.await
}

#[traced(provider = "Example-Service", fields = [id, customer], err)]
#[tracing::instrument(skip_all, fields(id, customer))]
#[cfg_attr(
    nettrace_peers,
    fastrace::trace(properties = { "id": "{id}", "customer": "{customer}" })
)]
async fn sell(caller: Call, store: Store, id: u64, customer: u64) -> Result<String, Failure> {
    let call = Call::begin("sell", caller);
    let item = store.item(call, id).await?;
    // Two ways to pay; the one that is slower is dropped.
    let way = select! {
        biased;
        () = pay_by_transfer(call) => "transfer",
        () = pay_by_card(call) => "card",
    };
    let count = store.buy(call, id, customer).await?;
    let Item { name, cents } = item;
    Bought { item: &name, cents }.emit();
    meters::sold(cents);
    tracing::info!(item = name, cents, "bought");
    peers::event("bought", || [("item", name.clone()), ("cents", cents.to_string())]);
    // A task of its own, inside this call. It may go on when this call has ended.
    let (begun, has_begun) = oneshot::channel();
    let mail = mail(call, customer, begun).with_context(Context::current());
    tokio::spawn(peers::within(mail.in_current_span()));
    has_begun.await.map_err(|_| Failure::Broken)?;
    Ok(format!("{count} {name} by {way}\n"))
}

#[traced(provider = "Example-Service")]
#[tracing::instrument(skip_all)]
#[cfg_attr(nettrace_peers, fastrace::trace)]
async fn pay_by_transfer(caller: Call) {
    Call::begin("pay_by_transfer", caller);
    sleep(Duration::from_secs(60)).await;
}

#[traced(provider = "Example-Service")]
#[tracing::instrument(skip_all)]
#[cfg_attr(nettrace_peers, fastrace::trace)]
async fn pay_by_card(caller: Call) {
    Call::begin("pay_by_card", caller);
    tokio::task::yield_now().await;
}

#[traced(provider = "Example-Service", fields = [customer])]
#[tracing::instrument(skip_all, fields(customer))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "customer": "{customer}" }))]
async fn mail(caller: Call, customer: u64, begun: oneshot::Sender<()>) {
    Call::begin("mail", caller);
    let _ = begun.send(());
    sleep(Duration::from_micros(customer)).await;
}

/// Walks down a tree, and down again in futures.
#[traced(provider = "Example-Service")]
#[tracing::instrument(skip_all)]
#[cfg_attr(nettrace_peers, fastrace::trace)]
async fn categories(Extension(caller): Extension<Call>) -> String {
    let call = Call::begin("categories", caller);
    format!("{} and {}\n", depth(call, DEPTH), depth_of_futures(call, DEPTH).await)
}

#[traced(provider = "Example-Service", fields = [below])]
#[tracing::instrument(skip_all, fields(below))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "below": "{below}" }))]
fn depth(caller: Call, below: u32) -> u32 {
    let call = Call::begin("depth", caller);
    if below > 1 { 1 + depth(call, below - 1) } else { 1 }
}

#[traced(provider = "Example-Service", fields = [below])]
#[tracing::instrument(skip_all, fields(below))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "below": "{below}" }))]
fn depth_of_futures(caller: Call, below: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        let call = Call::begin("depth_of_futures", caller);
        if below > 1 { 1 + depth_of_futures(call, below - 1).await } else { 1 }
    })
}

/// Sends a line at a time. The request's span ends with the last one.
#[traced(provider = "Example-Service", fields = [lines: u64 = lines.0])]
#[tracing::instrument(skip_all, fields(lines = lines.0))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "lines": "{lines:?}" }))]
async fn report(Extension(caller): Extension<Call>, lines: Path<u64>) -> Response {
    Call::begin("report", caller);
    let lines = stream::unfold(0, move |number| async move {
        if number == lines.0 {
            return None;
        }
        sleep(Duration::from_millis(1)).await;
        Line { number }.emit();
        tracing::info!(number, "line");
        peers::event("line", || [("number", number.to_string())]);
        Some((Ok::<_, Infallible>(format!("line {number}\n")), number + 1))
    });
    Body::from_stream(lines).into_response()
}

/// Waits.
#[traced(provider = "Example-Service", fields = [millis: u64 = millis.0])]
#[tracing::instrument(skip_all, fields(millis = millis.0))]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "millis": "{millis:?}" }))]
async fn slow(Extension(caller): Extension<Call>, millis: Path<u64>) -> String {
    Call::begin("slow", caller);
    let began = Instant::now();
    sleep(Duration::from_millis(millis.0)).await;
    if let Some(slow) = SLOW.get().filter(|_| began.elapsed() >= SLOW_AFTER) {
        slow.fire(&[("route", "/slow/{millis}")]);
    }
    format!("waited, and sells {ITEMS} items\n")
}

/// Has a bug.
#[traced(provider = "Example-Service")]
#[tracing::instrument(skip_all)]
#[cfg_attr(nettrace_peers, fastrace::trace)]
async fn broken(Extension(caller): Extension<Call>) -> String {
    Call::begin("broken", caller);
    tokio::task::yield_now().await;
    // A panic, but without a message on standard error for each request.
    panic::resume_unwind(Box::new("a bug"))
}
