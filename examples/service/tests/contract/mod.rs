//! The events that the service promises to emit. Thirty tests that run beside each other, in one
//! process, and each sees its own events alone.
//!
//! They are unit tests of the program, because they call its handlers: `main.rs` names this file.

#[macro_use]
#[path = "../support/beside.rs"]
mod beside;

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use nettrace_writer::{
    Sampling, assert_event, assert_no_event, assert_span, pattern, testing::capture,
};
use tower::ServiceExt as _;

use crate::{app, record::Tracing, store::Store};

/// Long, because it only counts if a test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request to the service, and reads its response to the end.
async fn ask(method: Method, path: &str) -> StatusCode {
    // In production one in a hundred requests is recorded. In a test all are.
    let app = app::router(Store::open().unwrap(), Tracing::None, Sampling::ratio(0.01));
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}

async fn an_item_is_shown(id: u64) {
    let events = capture();
    assert_eq!(ask(Method::GET, &format!("/item/{id}")).await, StatusCode::OK);
    assert_span!(events, "ServerRequest" { route: "/item/{id}", "status": 200, .. });
    assert_span!(events, "look" { id: id, outcome: "ok", .. });
    assert_no_event!(events, app::Bought);
    // The two calls within `look` go on at the same time.
    let expected = format!(
        "\
ServerRequest {{ method: \"GET\", route: \"/item/{{id}}\", peer: None, status: 200, \
         request_bytes: 0, response_bytes: {bytes}, grpc_status: None }} -> ok
  look {{ id: {id} }} -> ok
    item {{ id: {id}, err: None }} -> ok
      select {{ id: {id}, err: None }} -> ok
    stock {{ id: {id} }} -> ok
",
        bytes = format!("item {id}: {} cents, {} in stock\n", 100 + id, id % 7).len()
    );
    assert_eq!(events.sorted_snapshot(), expected);
}

async fn an_item_that_there_is_not_is_an_error(id: u64) {
    let events = capture();
    let missing = 1_000 + id;
    assert_eq!(ask(Method::GET, &format!("/item/{missing}")).await, StatusCode::NOT_FOUND);
    let error = format!("there is no item {missing}");
    assert_span!(events, "item" { id: missing, outcome: "err", err: &error, .. });
    assert_span!(events, "ServerRequest" { "status": 404, .. });
}

async fn an_item_is_sold(id: u64) {
    let events = capture();
    assert_eq!(ask(Method::POST, &format!("/order/{id}")).await, StatusCode::OK);
    let item = format!("item {id}");
    let bought = assert_event!(events, app::Bought { item: &item, cents: 100 + id });
    assert_eq!(bought.label("customer").unwrap().to_string(), format!("\"customer {id}\""));
    assert_eq!(events.of::<app::Bought<'_>>().len(), 1);
    assert_eq!(events.find(&pattern!(event app::Bought).within("sell")).len(), 1);
    // The slower way to pay is given up.
    assert_span!(events, "pay_by_transfer" { outcome: "cancelled", .. });
    assert_span!(events, "pay_by_card" { outcome: "ok", .. });
    // A task of its own, which may go on when the response is there.
    let mail = pattern!(span "mail" { customer: id, outcome: "ok", .. });
    events.wait_for(|events| !events.find_spans(&mail).is_empty(), LIMIT);
}

beside_each_other! {
    shown_1: an_item_is_shown(1);
    shown_2: an_item_is_shown(2);
    shown_3: an_item_is_shown(3);
    shown_4: an_item_is_shown(4);
    shown_5: an_item_is_shown(5);
    shown_6: an_item_is_shown(6);
    shown_7: an_item_is_shown(7);
    shown_8: an_item_is_shown(8);
    shown_9: an_item_is_shown(9);
    shown_10: an_item_is_shown(10);
    missing_1: an_item_that_there_is_not_is_an_error(1);
    missing_2: an_item_that_there_is_not_is_an_error(2);
    missing_3: an_item_that_there_is_not_is_an_error(3);
    missing_4: an_item_that_there_is_not_is_an_error(4);
    missing_5: an_item_that_there_is_not_is_an_error(5);
    missing_6: an_item_that_there_is_not_is_an_error(6);
    missing_7: an_item_that_there_is_not_is_an_error(7);
    missing_8: an_item_that_there_is_not_is_an_error(8);
    missing_9: an_item_that_there_is_not_is_an_error(9);
    missing_10: an_item_that_there_is_not_is_an_error(10);
    sold_1: an_item_is_sold(1);
    sold_2: an_item_is_sold(2);
    sold_3: an_item_is_sold(3);
    sold_4: an_item_is_sold(4);
    sold_5: an_item_is_sold(5);
    sold_6: an_item_is_sold(6);
    sold_7: an_item_is_sold(7);
    sold_8: an_item_is_sold(8);
    sold_9: an_item_is_sold(9);
    sold_10: an_item_is_sold(10);
}

/// Takes minutes: `cargo test -p service --bin service -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_times() {
    testkit::process::repeat(1_000, "contract");
}
