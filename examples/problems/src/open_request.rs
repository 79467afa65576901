//! A supplier never answers, and one request waits for it.

use std::{future::pending, time::Duration};

use nettrace_writer::{Emit as _, TraceEvent, traced};
use tokio::time::sleep;

use crate::shop::{answer, clients};

/// A question is on its way.
#[derive(TraceEvent)]
#[trace_event(provider = "Shop", message = "asked {supplier} for a delivery date")]
struct Asked<'a> {
    supplier: &'a str,
}

pub(crate) async fn run(time: Duration) {
    clients(4, time, |id| async move {
        answer("/delivery", id, delivery(id)).await;
    })
    .await;
}

#[traced(provider = "Shop")]
async fn delivery(id: u64) {
    ask_supplier(if id == 100 { "Fabrikam" } else { "Contoso" }).await;
}

#[traced(provider = "Shop", fields = [supplier])]
async fn ask_supplier(supplier: &str) {
    Asked { supplier }.emit();
    match supplier {
        // It has no time limit.
        "Fabrikam" => pending().await,
        _ => sleep(Duration::from_millis(5)).await,
    }
}
