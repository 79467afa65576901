//! The service: a shop on axum whose requests tower-http traces. It knows of `tracing` alone.

use std::{fmt, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tower_http::trace::TraceLayer;
use tracing::{Instrument as _, Span, debug, field, info, info_span, instrument, trace, warn};

use crate::store::{Item, Store};

/// The service, with the middleware that nearly every service on axum has.
pub(crate) fn router(store: Store) -> Router {
    Router::new()
        .route("/item/{id}", get(item))
        .route("/order/{id}", post(order))
        .route("/report/{items}", get(report))
        .route("/broken", get(broken))
        .layer(TraceLayer::new_for_http())
        .with_state(store)
}

/// Why a request fails.
#[derive(Debug)]
pub(crate) enum Failure {
    NoItem(i64),
    Database(sqlx::Error),
    Broken,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoItem(id) => write!(f, "no item {id}"),
            Self::Database(error) => write!(f, "the database fails: {error}"),
            Self::Broken => f.write_str("it is broken"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoItem(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}

#[instrument(skip(store), err(level = "info"))]
async fn item(State(store): State<Store>, Path(id): Path<i64>) -> Result<Json<Value>, Failure> {
    let Item { name, cents } = store.item(id).await?;
    info!(id, cents, dear = cents > 500, euros = cents as f64 / 100.0, "found \"{name}\"");
    Ok(Json(json!({ "name": name, "cents": cents })))
}

/// What becomes known later is recorded into fields that are empty first.
#[instrument(skip(store), fields(customer, bought = field::Empty, never = field::Empty), ret)]
async fn order(State(store): State<Store>, Path(id): Path<i64>) -> Result<String, Failure> {
    let customer = id % 17;
    Span::current().record("customer", customer);
    let item = store.item(id).in_current_span().await?;
    // Goes on in a task of its own, which has a span of its own.
    let buying = async move { store.buy(id, customer).await };
    let bought = tokio::spawn(buying.instrument(info_span!("buying", %item.name))).await;
    let bought = bought.map_err(|_| Failure::Broken)??;
    Span::current().record("bought", bought);
    debug!(price = ?item, tags = ?["a", "\u{1F980}", ""], wide = u64::MAX, "sold");
    Ok(format!("{bought} of {}", item.name))
}

/// Waits for things that happen at the same time.
#[instrument(level = "debug", skip_all, fields(items))]
async fn report(State(store): State<Store>, Path(items): Path<i64>) -> Result<String, Failure> {
    let mut parts = Vec::new();
    for id in 0..items {
        let span = info_span!("part", id);
        let store = store.clone();
        let part = async move {
            tokio::time::sleep(Duration::from_micros(200)).await;
            let item = store.item(id).await?;
            trace!(id, cents = item.cents, "has a part");
            Ok::<_, Failure>(item.cents)
        };
        parts.push(tokio::spawn(part.instrument(span)));
    }
    let mut sum = 0;
    for part in parts {
        sum += part.await.map_err(|_| Failure::Broken)??;
    }
    let span = info_span!("count", sum, negative = -sum, digits = field::Empty);
    spawn_blocking(move || {
        let text = span.in_scope(|| {
            debug!("counting");
            sum.to_string()
        });
        span.record("digits", text.len() as u64);
        text
    })
    .await
    .map_err(|_| Failure::Broken)
}

#[instrument(err(Debug))]
async fn broken() -> Result<(), Failure> {
    let error: Box<dyn std::error::Error> = Box::new(Failure::Database(sqlx::Error::PoolClosed));
    warn!(error, "this one always fails");
    Err(Failure::Broken)
}
