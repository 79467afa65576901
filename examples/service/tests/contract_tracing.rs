//! The same for what is emitted through `tracing`: thirty tests beside each other, in one process
//! with one subscriber.

#[macro_use]
#[path = "support/beside.rs"]
mod beside;

use std::{sync::Once, time::Duration};

use nettrace_writer::{
    Context, FutureExt as _, assert_event, assert_no_event, assert_span, pattern,
    testing::{self, Capture, Value},
};
use tokio::task::{spawn, spawn_blocking};
use tracing::{Instrument as _, Span, info, info_span, instrument, warn};

/// A process has one subscriber. Whichever test is first installs it.
fn capture() -> Capture {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        tracing::subscriber::set_global_default(tracing_nettrace::subscriber()).unwrap();
    });
    testing::capture()
}

#[derive(Debug)]
struct Declined(#[expect(dead_code, reason = "shown by its `Debug`")] u64);

#[instrument(err(Debug))]
async fn pay(cart: u64, cents: u64) -> Result<(), Declined> {
    tokio::task::yield_now().await;
    if cents > 2_000 { Err(Declined(cart)) } else { Ok(()) }
}

#[instrument(fields(paid = tracing::field::Empty))]
async fn check_out(cart: u64, cents: u64) -> bool {
    let paid = pay(cart, cents).await.is_ok();
    Span::current().record("paid", paid);
    let span = Span::current();
    spawn_blocking(move || span.in_scope(|| info!(cart, cents, "stored"))).await.unwrap();
    spawn(async move { warn!(name: "mailed", cart) }.in_current_span()).await.unwrap();
    paid
}

async fn a_cart_is_paid(cart: u64) {
    let events = capture();
    assert!(check_out(cart, 1_000 + cart).await);
    assert_event!(events, "mailed" { cart: cart, .. });
    let stored = assert_event!(events, "contract_tracing" { message: "stored", cart: cart, .. });
    assert_eq!(stored.get::<u64>("cents"), 1_000 + cart);
    assert_span!(events, "check_out" { cart: cart, paid: true, .. });
    let cents = 1_000 + cart;
    let expected = format!(
        "\
check_out {{ cart: {cart}, cents: {cents}, paid: true }} -> ok
  pay {{ cart: {cart}, cents: {cents} }} -> ok
  contract_tracing {{ message: \"stored\", cart: {cart}, cents: {cents} }}
  mailed {{ cart: {cart} }}
"
    );
    assert_eq!(events.snapshot(), expected);
}

async fn a_cart_is_declined(cart: u64) {
    let events = capture();
    assert!(!check_out(cart, 2_001).await);
    let error =
        assert_event!(events, "contract_tracing" { error: format!("Declined({cart})"), .. });
    assert_eq!(error.level(), nettrace_writer::Level::Error);
    assert_span!(events, "pay" { cart: cart, cents: 2_001, outcome: "err", .. });
    assert_eq!(events.find_spans(&pattern!(span "pay").within("check_out")).len(), 1);
}

/// Tasks that are given the context, and one that is not.
async fn tasks_are_captured(cart: u64) {
    let events = capture();
    let work = move |number: u64| {
        async move { info!(name: "worked", cart, number) }.with_context(Context::current())
    };
    let tasks: Vec<_> = (0..10).map(|number| spawn(work(number))).collect();
    let spanned = spawn(check_out(cart, 5).instrument(info_span!("task", cart)));
    spawn(async { info!(name: "stranger", "of nobody") }).await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(spanned.await.unwrap());
    let worked = pattern!(event "worked" { cart: cart, .. });
    assert_eq!(events.find(&worked).len(), 10, "{events}");
    assert_no_event!(events, "stranger");
    assert_span!(events, "task" { cart: cart, .. });
    let others = |it: &Value| *it != Value::UInt(cart.into());
    assert_no_event!(events, "worked" { cart: testing::that(others), .. });
    events.wait_for(|events| !events.find(&worked).is_empty(), Duration::ZERO);
}

beside_each_other! {
    paid_1: a_cart_is_paid(1);
    paid_2: a_cart_is_paid(2);
    paid_3: a_cart_is_paid(3);
    paid_4: a_cart_is_paid(4);
    paid_5: a_cart_is_paid(5);
    paid_6: a_cart_is_paid(6);
    paid_7: a_cart_is_paid(7);
    paid_8: a_cart_is_paid(8);
    paid_9: a_cart_is_paid(9);
    paid_10: a_cart_is_paid(10);
    declined_1: a_cart_is_declined(1);
    declined_2: a_cart_is_declined(2);
    declined_3: a_cart_is_declined(3);
    declined_4: a_cart_is_declined(4);
    declined_5: a_cart_is_declined(5);
    declined_6: a_cart_is_declined(6);
    declined_7: a_cart_is_declined(7);
    declined_8: a_cart_is_declined(8);
    declined_9: a_cart_is_declined(9);
    declined_10: a_cart_is_declined(10);
    tasks_1: tasks_are_captured(1);
    tasks_2: tasks_are_captured(2);
    tasks_3: tasks_are_captured(3);
    tasks_4: tasks_are_captured(4);
    tasks_5: tasks_are_captured(5);
    tasks_6: tasks_are_captured(6);
    tasks_7: tasks_are_captured(7);
    tasks_8: tasks_are_captured(8);
    tasks_9: tasks_are_captured(9);
    tasks_10: tasks_are_captured(10);
}

/// Takes minutes: `cargo test -p service --test contract_tracing -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_times() {
    testkit::process::repeat(1_000, "");
}
