//! The handles of an application: meters, and the instruments that they make.

mod counter;
mod gauge;
mod handle;
mod histogram_handle;
mod meter;

pub use self::{
    counter::{Counter, UpDownCounter},
    gauge::Gauge,
    histogram_handle::Histogram,
    meter::{InstrumentBuilder, Meter, MeterBuilder},
};
