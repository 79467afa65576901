//! Substitute for `on_signal` where signals trigger nothing.

use std::sync::Arc;

use super::control::Control;
use crate::shared::error::Error;

/// No thread waits for signals.
#[derive(Debug)]
pub(super) enum OnSignal {}

impl OnSignal {
    pub(super) fn start(_: &[i32], _: &Arc<Control>) -> Result<Option<Self>, Error> {
        Ok(None)
    }
}
