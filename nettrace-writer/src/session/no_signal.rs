//! Stands for `on_signal` where signals trigger nothing.

use std::sync::Arc;

use crate::{session::triggers::Control, shared::error::Error};

/// There is none.
#[derive(Debug)]
pub(super) enum OnSignal {}

impl OnSignal {
    pub(super) fn start(_: &[i32], _: &Arc<Control>) -> Result<Option<Self>, Error> {
        Ok(None)
    }
}
