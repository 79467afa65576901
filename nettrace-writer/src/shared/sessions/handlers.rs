//! All sessions at `fork` and at `exit`: see the [module above](super).

use std::ptr;

use nettrace_event::{SESSION_BITS, registry};
use nettrace_span::backend::LISTENERS;

use super::{TABLE, TRACEPOINTS, handler_events, write_out};
use crate::{
    process::handlers::{self, Handlers},
    shared::local,
    sync::Ordering,
};

/// Installs the handlers of the process, if that is not done yet.
pub(super) fn install() {
    static HANDLERS: Handlers = Handlers { in_child, at_exit: write_out::at_end };
    handlers::install_for_sessions(&HANDLERS);
}

fn in_child() {
    TABLE.store(ptr::null_mut(), Ordering::Release);
    LISTENERS.fetch_and(TRACEPOINTS, Ordering::Relaxed);
    handler_events::forget();
    #[cfg(feature = "testing")]
    super::captures::forget();
    registry::after_fork((1 << SESSION_BITS) - 1);
    local::forget_all();
}
