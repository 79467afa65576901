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

use crate::{
    flusher::OwnThread,
    session::triggers::{Control, Triggers},
    shared::error::Error,
};

/// Signals that a program can take over without staying alive when it should end, or going on after
/// a crash.
fn is_free(signal: i32) -> bool {
    let is_named = [SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT].contains(&signal);
    #[cfg(target_os = "linux")]
    return is_named || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
    #[cfg(not(target_os = "linux"))]
    return is_named;
}

impl Triggers {
    /// Writes a dump when the process gets this signal: with `SIGUSR1`, `kill -USR1 PID` asks for
    /// one. The name of the trigger is that of the signal. A thread of the session waits for it.
    ///
    /// From the start of the session on, the signal does nothing else, also after the session has
    /// ended, unless the program has a handler of its own: that is called, too. So these signals
    /// alone can be asked for: `SIGUSR1`, `SIGUSR2`, `SIGHUP`, `SIGQUIT`, and the real-time signals
    /// of Linux. Otherwise the start of the session fails with [`Error::Signal`]. A program that
    /// ends by `SIGTERM` calls [`Trigger::fire`](crate::Trigger::fire) where it handles it, and
    /// [finishes](crate::Session::finish) the session. For crashes there is
    /// [`persistent`](crate::SessionBuilder::persistent).
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// const SIGUSR1: i32 = 10; // libc::SIGUSR1
    /// let triggers = Triggers::new("dumps", "shop").on_signal(SIGUSR1);
    /// ```
    pub fn on_signal(mut self, signal: i32) -> Self {
        self.signals.push(signal);
        self
    }
}

/// A thread that waits for signals, until this is dropped.
#[derive(Debug)]
pub(super) struct OnSignal(Handle);

impl OnSignal {
    /// `None`: there are none to wait for.
    pub(super) fn start(signals: &[i32], control: &Arc<Control>) -> Result<Option<Self>, Error> {
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

impl Drop for OnSignal {
    fn drop(&mut self) {
        self.0.close();
    }
}
