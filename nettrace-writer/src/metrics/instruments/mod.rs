//! The handles of an application: meters, and the instruments that they make.

mod handle;
mod handles;
mod meter;

pub use self::{
    handles::*,
    meter::{InstrumentBuilder, Meter, MeterBuilder},
};
