//! A small shop with a problem of your choice: see the program `problems`.

mod blocking_call;
mod full_channel;
mod idle_leak;
mod lock_across_await;
mod n_plus_one;
mod open_request;
mod retry_storm;
mod shop;
mod shutdown_deadlock;
mod task_leak;

use std::{error::Error, fmt, path::Path, time::Duration};

use clap::ValueEnum;
use nettrace_writer::Session;
use tokio::runtime::Builder;

/// What is wrong with the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Problem {
    /// A lock is held while a card is charged, so orders wait for each other
    LockAcrossAwait,
    /// Each of 60 orders is a query of its own
    NPlusOne,
    /// Calls to an overloaded service are repeated at once
    RetryStorm,
    /// A function computes for long on a thread of the runtime
    BlockingCall,
    /// Each request begins a task that never ends
    TaskLeak,
    /// What takes orders from a channel is slower than those who put them in
    FullChannel,
    /// The end waits for a worker, and the worker for the end
    ShutdownDeadlock,
    /// A supplier never answers, and one request waits for it
    OpenRequest,
    /// Connections of clients that are gone stay open
    IdleLeak,
}

impl Problem {
    /// Uses the shop for so long, and writes its trace. What is under way then has no end in it.
    ///
    /// # Errors
    /// The session cannot start or finish, or the runtime cannot start.
    pub fn run(self, out: &Path, time: Duration) -> Result<(), Box<dyn Error>> {
        let session = Session::builder().file(out).overwrite(true).start()?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
        runtime.block_on(async {
            match self {
                Self::LockAcrossAwait => lock_across_await::run(time).await,
                Self::NPlusOne => n_plus_one::run(time).await,
                Self::RetryStorm => retry_storm::run(time).await,
                Self::BlockingCall => blocking_call::run(time).await,
                Self::TaskLeak => task_leak::run(time).await,
                Self::FullChannel => full_channel::run(time).await,
                Self::ShutdownDeadlock => shutdown_deadlock::run(time).await,
                Self::OpenRequest => open_request::run(time).await,
                Self::IdleLeak => idle_leak::run(time).await,
            }
        });
        session.finish()?;
        runtime.shutdown_background();
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
