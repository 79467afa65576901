//! Signals that make a flight recorder write a dump.
//!
//! `signal-hook` has the handler, which others in the process can share: it calls all that were
//! registered for a signal, those of tokio too. The handler notes the number and wakes a thread.

use std::{io, sync::Arc};

use signal_hook::{
    consts::{SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2},
    iterator::{Handle, Signals},
    low_level::signal_name,
};

use super::control::TriggerControl;
use crate::{flusher::OwnThread, shared::error::Error};

/// Signals that a program can take over without staying alive when it should end, or going on after
/// a crash.
fn is_free(signal: i32) -> bool {
    let is_named = [SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT].contains(&signal);
    #[cfg(target_os = "linux")]
    return is_named || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
    #[cfg(not(target_os = "linux"))]
    return is_named;
}

/// A thread that waits for signals, until this is dropped.
#[derive(Debug)]
pub(super) struct SignalThread(Handle);

impl SignalThread {
    /// `None`: there are none to wait for.
    pub(super) fn start(
        signals: &[i32],
        control: &Arc<TriggerControl>,
    ) -> Result<Option<Self>, Error> {
        let Some(first) = signals.first() else { return Ok(None) };
        if let Some(&signal) = signals.iter().find(|signal| !is_free(**signal)) {
            let words = "use SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT or a real-time signal";
            let cause = io::Error::new(io::ErrorKind::InvalidInput, words);
            return Err(Error::Signal { signal, cause });
        }
        let failed = |cause| Error::Signal { signal: *first, cause };
        let mut signals = Signals::new(signals).map_err(failed)?;
        let (handle, control) = (signals.handle(), Arc::clone(control));
        let wait = move || {
            for signal in signals.forever() {
                let unnamed = || format!("signal-{signal}");
                let name = signal_name(signal).map_or_else(unnamed, str::to_owned);
                control.ask(&name, &[], false, None);
            }
        };
        OwnThread::start(c"nettrace-signal", wait).map_err(Error::Thread)?;
        Ok(Some(Self(handle)))
    }
}

impl Drop for SignalThread {
    fn drop(&mut self) {
        self.0.close();
    }
}
