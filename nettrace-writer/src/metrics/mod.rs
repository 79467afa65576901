//! Counters, gauges and histograms, for `dotnet-counters` and for traces: feature `metrics`.
//!
//! ```
//! use nettrace_writer::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};
//!
//! static SHOP: Meter = Meter::new("Contoso-Shop");
//! static ORDERS: Counter = Counter::new(&SHOP, "orders").unit("{order}");
//! static CARTS: UpDownCounter = UpDownCounter::new(&SHOP, "carts").unit("{cart}");
//! static STOCK: Gauge = Gauge::new(&SHOP, "stock").description("Items left");
//! static LATENCY: Histogram = Histogram::new(&SHOP, "latency").unit("ms");
//!
//! ORDERS.add(1);
//! CARTS.add(-1);
//! STOCK.set(412.0);
//! LATENCY.record(3.5);
//! ```
//!
//! In a process that [listens](https://docs.rs/nettrace-diagnostics) that is all:
//!
//! ```text
//! dotnet-counters monitor -p PID --counters Contoso-Shop
//! ```
//!
//! To have the values in a trace, without any client, see [`Reporter`].
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | sums | [`Counter`], [`UpDownCounter`] |
//! | last values, distributions | [`Gauge`], [`Histogram`] |
//! | tags | [`Counter::tagged`] |
//! | instruments that come and go, names known at run time | [`Meter::builder`], [`Meter::counter`] |
//! | values that a callback reports | [`Meter::observable_gauge`] |
//! | values in a session's trace | [`Reporter`] |
//! | processor time, memory, threads, descriptors; the tracer itself | [`observe_process`] |
//! | allocations | [`CountingAllocator`] |
//! | programs that use the crate `metrics` | `MetricsRecorder`, with the feature `metrics_facade` |
//!
//! # Promises
//!
//! - An increment takes no lock, does not call the kernel and never panics. It touches memory of
//!   its thread alone. (A gauge and a histogram have memory that threads share.)
//! - Sums are exact: of all threads, also those that have ended, and in the child of a `fork`.
//! - Whoever reads disturbs nobody. Each client has its own intervals and sees every increment in
//!   one of them.
//! - While nobody asks there is no thread and no timer.
//! - Memory has bounds: 2,000 combinations of tags for each instrument ([`Counter::tagged`]), and
//!   12 KiB for each thread that counts, which a later thread takes over. Beyond 1,024 sums an
//!   increment is slower, and takes 512 bytes more for 64 of them.
//!
//! # What clients get
//!
//! What .NET 10 sends by its provider `System.Diagnostics.Metrics`: the same events, with the same
//! ids, versions and fields. Clients that ask for EventCounters (`EventCounterIntervalSec`) get
//! those, unless they ask for the same meter in both ways. Two things differ:
//!
//! - Each client gets what it asks for: its interval, names and limits. So there are no errors that
//!   another client has asked for something else.
//! - The value of a counter is its sum since the process began, not since the client came.

pub(crate) mod cells;
mod once;

// The models use only the modules above.
cfg_if::cfg_if! {
    if #[cfg(not(nettrace_loom))] {
        mod allocator;
        mod event_counters;
        #[cfg(feature = "metrics_facade")]
        mod facade;
        mod histogram;
        mod instruments;
        mod number;
        mod only_in;
        mod ready;
        mod reporter;
        mod state;

        #[cfg(feature = "metrics_facade")]
        pub use self::facade::MetricsRecorder;
        pub use self::{
            allocator::CountingAllocator,
            instruments::*,
            number::Number,
            ready::observe_process,
            reporter::{Reporter, Reporting, attach},
            state::observable::{Observable, Observer},
        };
    }
}
