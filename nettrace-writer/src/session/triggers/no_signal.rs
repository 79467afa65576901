//! Substitute for `on_signal` where signals trigger nothing.

use std::sync::Arc;

use super::control::TriggerControl;
use crate::shared::error::Error;

/// No thread waits for signals.
#[derive(Debug)]
pub(super) enum SignalThread {}

impl SignalThread {
    pub(super) fn start(_: &[i32], _: &Arc<TriggerControl>) -> Result<Option<Self>, Error> {
        Ok(None)
    }
}
