//! Lets `dotnet-trace` and other tools of .NET attach to a running Rust process.
//!
//! One line at the start of `main` is enough:
//!
//! ```no_run
//! nettrace_diagnostics::listen_or_warn();
//! ```
//!
//! A service in a container may find its folder for sockets read-only, or missing. It says so on
//! standard error then, and runs on. [`listen`] returns the error instead.
//!
//! From then on whoever may use the process's socket can record its events, without a restart:
//!
//! ```text
//! dotnet-trace ps
//! dotnet-trace collect -p PID --providers Contoso-Shop
//! ```
//!
//! The client chooses providers, keywords, levels and ids of events. It gets a
//! [`Session`](nettrace_writer::Session) like any other, whose sink is the connection: losses are
//! counted, and the trace is complete when the client stops it, and when the process exits. While
//! nobody is attached, one thread sleeps, and an event costs nothing more.
//!
//! # The environment
//!
//! A session can also be asked for by the environment of the process. [`listen`] starts it before
//! it returns, and so does [`from_environment`], which does nothing else. The variables are those
//! of .NET, and some of our own, which come first:
//!
//! | variable | what it says |
//! |---|---|
//! | `NETTRACE_OUTPUT` | a trace is recorded, and its file: a [pattern](nettrace_writer::SessionBuilder::file) like `{exe}-{pid}.nettrace` |
//! | `NETTRACE_PROVIDERS` | [which events](nettrace_writer::ProviderFilter#text-form); all by default |
//! | `NETTRACE_ROTATE` | when a new file begins: a size, an age or both, such as `64MB`, `1h` or `64MB,1h`; units are `KB`, `MB`, `GB` (powers of 1,024, as `KiB`, `MiB`, `GiB`), `s`, `m`, `h` and `d` |
//! | `NETTRACE_KEEP` | what is kept of such files: a number of files, or a size, such as `10` or `1GB` |
//! | `NETTRACE_KEY_VALUES` | further [key-values](nettrace_writer::SessionBuilder::key_value) of the trace: `service.version=1.2,team=shop` |
//! | `NETTRACE_REDACT` | [values to keep out](nettrace_writer::SessionBuilder::redact) of this trace and of those that tools ask for: `customer,Sold:id=hash,Audit:customer=keep` |
//! | `NETTRACE_COMMAND_LINE` | 1: the trace has the program's arguments, which can contain secrets |
//! | `NETTRACE_BUFFER_MB` | the memory for events in MB, decimal; 256 by default |
//! | `DOTNET_EnableEventPipe` | 1: a trace is recorded |
//! | `DOTNET_EventPipeOutputPath` | its file, where `{pid}` stands for the process; `trace.nettrace` by default |
//! | `DOTNET_EventPipeConfig` | `NAME:KEYWORDS:LEVEL:ARGUMENTS,…`, where all but the name can be left out; all events by default |
//! | `DOTNET_EventPipeCircularMB` | the memory for events in MB, hexadecimal; 256 by default |
//! | `DOTNET_EventPipeOutputStreaming` | 1, the default. 0 has no effect, and is answered with a line on standard error |
//!
//! `nettrace select -p PID FILTERS` changes which events that session records, while it runs.
//!
//! A file of that name is replaced, unless another process is writing it: child processes inherit
//! the variables. Such a process records to `NAME-PID.EXTENSION` instead, and says so in one line
//! on standard error. A later one may replace what an earlier one has left. So have `{pid}` in the
//! path if there are several. On Unix the trace is complete when the process returns from `main` or
//! calls `exit`. A signal that kills the process leaves what was written by then.
//!
//! With `NETTRACE_ROTATE` the files of `NETTRACE_OUTPUT=traces/shop.nettrace` are
//! `traces/shop-00000001.nettrace` and so on, and no file is replaced: a process goes on with the
//! next number. With `NETTRACE_KEEP` the files of earlier runs count as well, so a service that
//! restarts again and again does not fill the disk. A name with `{pid}` or `{time}` has no earlier
//! runs.
//!
//! A value that cannot be used is said on standard error, in one line, and nothing is recorded. A
//! filter of `NETTRACE_PROVIDERS` that selects nothing is said as well, once: after 10 s or a
//! minute if a known provider has nearly its name, and otherwise at the end, because its provider
//! may have yet to appear. So is a name of `NETTRACE_REDACT` that nothing in the trace has. A
//! filter whose provider is known, and whose level or keywords select nothing, is said at the end.
//!
//! `NETTRACE_ROTATE` without `NETTRACE_OUTPUT`, and any other of these variables that then has no
//! effect, is said at the start, and so is `NETTRACE_KEEP` without `NETTRACE_ROTATE`. What is
//! recorded is not affected. An application may take `NETTRACE_PROVIDERS` itself, by
//! [`providers_from_env`](nettrace_writer::SessionBuilder::providers_from_env). So that variable is
//! said to have no effect only after 10 s or at the end, and only if the application has not done
//! so.
//!
//! A program that has more rights than who starts it reads no variable at all, neither these nor
//! those below, nor `TMPDIR`: one with the setuid or setgid bit, or with capabilities of its file.
//! Its starter would choose a file that it writes. A line on standard error says so if a variable
//! asks for a trace or a port. Have such a program start its session in code.
//!
//! # Switched off
//!
//! Who runs a process can forbid that tools attach to it: with `NETTRACE_LISTEN=0`, and with
//! `DOTNET_EnableDiagnostics=0` or `DOTNET_EnableDiagnostics_IPC=0`, as for a process of .NET. Then
//! [`listen`] makes no socket and starts no thread, opens no [port](#ports) and waits for none, and
//! returns `Ok`. [`Diagnostics::is_listening`] tells. The session that the environment asks for is
//! recorded even so. Any other value forbids nothing.
//!
//! # Who may attach
//!
//! The process makes the socket `dotnet-diagnostic-PID-TIME-socket` in the folder `TMPDIR`, or else
//! `/tmp`. Only its own user and root may connect: the modes of the socket say so (0600), and on
//! Linux the server also asks the system for the client's user. A client in another namespace of
//! users counts as another user. `TIME` is when the process began:
//! on Linux as `/proc/PID/stat` states it, on other systems 0. The socket is removed at `exit`. A
//! process that is killed leaves it behind. A later process with the same path replaces it, if
//! nobody listens there.
//!
//! # Ports
//!
//! Where a tool cannot see the process's socket, such as in another container, the process connects
//! to the tool. `DOTNET_DiagnosticPorts` has a list, separated by semicolons, of
//! `PATH[,connect|,listen][,suspend|,nosuspend]`:
//!
//! ```text
//! dotnet-trace collect --diagnostic-port /shared/trace.sock
//! DOTNET_DiagnosticPorts=/shared/trace.sock,nosuspend ./shop
//! ```
//!
//! - `connect`, the default: the process connects to the socket at `PATH`, says who it is, and
//!   keeps one connection open for the tool's next command. While nobody listens there it tries
//!   again, at first after 10 ms, and ever more rarely, at last every 5 s. On Linux it also hears
//!   of a socket that appears in that folder, and connects at once. Files of others there wake it
//!   at most twice a second.
//! - `listen`: the process makes another socket at `PATH`.
//! - `suspend`, the default: [`listen`] does not return before a tool has resumed the process at
//!   this port. `dotnet-trace` does so when its session has begun, so it misses no event after
//!   `listen`, and `dotnet-trace collect -- ./shop` works. Who waits for more than 5 s says so on
//!   standard error. `DOTNET_DefaultDiagnosticPortSuspend=1` does the same for the process's own
//!   socket.
//!
//! The first listener of a process gets the ports. If it has some, a folder in which it cannot make
//! its own socket is no error, but a line on standard error.
//!
//! # What a client can ask for
//!
//! | command | answer |
//! |---|---|
//! | CollectTracing, versions 1 to 6 | a live trace |
//! | StopTracing | the end of that trace |
//! | ProcessInfo, versions 1 to 3 | what the process is |
//! | ProcessEnvironment | the process's environment |
//! | ResumeRuntime | the process goes on, if it is [suspended](#ports) |
//! | 0xE0 0x01, our own: a text | the session of the [environment](#the-environment) records what these [filters](nettrace_writer::ProviderFilter#text-form) select, from now on. A text says which of them select nothing that is known so far |
//! | 0xE0 0x02, our own: the id of a live trace | the same text, of that trace |
//! | SetEnvironmentVariable | an error: other threads may be reading the environment |
//! | all others: dumps, profilers, start-up hooks | an error: unknown command |
//!
//! The version of the runtime in ProcessInfo is `10.0.0-rust.nettrace-diagnostics.` and the version
//! of this crate: the protocol is that of .NET 10. Of CollectTracing:
//!
//! - The trace is of version 6, unless [`Options::format`] says otherwise. Clients cannot ask for a
//!   version. The format NetPerf of .NET Core 2 is refused.
//! - Without keywords (0, which `dotnet-trace` sends if its user names none) a provider's events
//!   are recorded whatever keywords they have. A provider's name can end in `*`.
//! - A provider's arguments say which counters and meters the client wants: those of
//!   `System.Diagnostics.Metrics`, and `EventCounterIntervalSec` of any other. The module
//!   [`metrics`](nettrace_writer::metrics) sends them. A client that wants the counters of a
//!   provider and names no keywords gets no other events of it. Other arguments are ignored.
//! - A client that asks for the provider `NetTrace-FlightRecorder`, and for no other, gets what the
//!   process's [flight recorder](nettrace_writer::FlightRecorder) has kept, and then what it
//!   records, whatever keywords, level and buffer the client names. The argument `Past=10` limits
//!   the past to the last 10 seconds, or a little more.
//! - The rundown and the flag for stacks are ignored: a Rust process has no methods to list, and an
//!   event has the stack that the application gives it.
//! - The buffer has the size that the client asks for, up to [`Options::max_buffer`]. When it is
//!   full, events are dropped and counted. With the buffering mode Block (version 6) the threads
//!   that emit wait.
//! - A client that takes nothing for 10 s is disconnected ([`Options::patience`]).
//! - A process has at most 30 sessions. Another one is refused, like everything else that cannot
//!   be, with a code and a sentence.
//!
//! # `fork`
//!
//! The child of a `fork` does not answer for its parent. It can call [`listen`] itself.
//!
//! # Windows
//!
//! There is no `/tmp` there and no `fork`, and instead of a socket the process has the named pipe
//! `\\.\pipe\dotnet-diagnostic-PID`. The process's user, administrators and the system may open it,
//! and nobody from another machine. The ports of `DOTNET_DiagnosticPorts` are pipes, too: by name,
//! or by the whole path.
//!
//! While nobody is attached, one thread sleeps. A client has a thread of its own. Nothing happens
//! at `exit`: call [`Diagnostics::stop`] at the end of `main`, so that the traces of clients are
//! complete. The command `nettrace` cannot attach on Windows.

#![cfg_attr(
    not(unix),
    allow(
        dead_code,
        unused_imports,
        reason = "the client, and what happens at `fork`, are for Unix"
    )
)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "`sync` is the seam; the lint follows its re-exports, `cargo xtask seam` does not"
)]

#[cfg(unix)]
pub mod client;
/// For the fuzz targets. Not part of the public interface.
#[cfg(feature = "__fuzzing")]
#[doc(hidden)]
pub mod __fuzzing {
    pub use crate::fuzzing::check;
}
mod answer;
mod environment;
mod error;
mod filters;
#[cfg(feature = "__fuzzing")]
mod fuzzing;
mod handle;
mod options;
mod ports;
mod protocol;
mod rotation;
mod sessions;
mod standard_error;
mod sync;

#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod descriptors;
#[cfg(unix)]
mod outgoing;
#[cfg(unix)]
mod peer;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod socket;
#[cfg(unix)]
#[cfg_attr(not(target_os = "linux"), path = "watch_elsewhere.rs")]
mod watch;

#[cfg(windows)]
mod pipe;
#[cfg(windows)]
#[path = "pipe_server.rs"]
mod server;

#[cfg(windows)]
use crate::pipe as transport;
#[cfg(unix)]
use crate::socket as transport;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use crate::{error::Error, options::Options};

/// Lets tools attach to this process, until it ends.
///
/// Returns at once, unless the environment [suspends](crate#ports) the process. A thread answers
/// clients: it sleeps until one comes. The returned value can [stop](Diagnostics::stop) it.
/// Dropping that value stops nothing.
///
/// Before that, it starts the session that the [environment](crate#the-environment) asks for, if
/// any. The environment can also [forbid](crate#switched-off) that tools attach.
///
/// Call this early in `main`. An event type is known to clients from its first event on, whether
/// somebody listened then or not.
///
/// # Errors
///
/// - [`Error::Bind`], [`Error::PathTooLong`]: the folder is missing, read-only or too deep.
/// - [`Error::InUse`]: the process listens already.
/// - [`Error::Thread`]: the system has no room for another thread or descriptor.
///
/// A service that must run even so calls [`listen_or_warn`].
pub fn listen() -> Result<Diagnostics, Error> {
    Options::new().listen()
}

/// [`listen`] for a service that must run whether or not tools can attach. An error is one line on
/// standard error, [`health`](nettrace_writer::health) tells it, and the result is `None`.
///
/// ```no_run
/// let diagnostics = nettrace_diagnostics::listen_or_warn();
/// // … at the end of `main`, where `exit` does not do it (Windows):
/// if let Some(diagnostics) = diagnostics {
///     diagnostics.stop();
/// }
/// ```
#[allow(clippy::must_use_candidate, reason = "most callers want the socket alone")]
pub fn listen_or_warn() -> Option<Diagnostics> {
    Options::new().listen_or_warn()
}

/// Starts the session that the [environment](crate#the-environment) asks for, and nothing else.
/// Returns the path of its trace, or its folder if that rotates, or `None` if the environment asks
/// for none.
///
/// [`listen`] does this too. Call this where nobody shall attach. Only the first
/// call in a process has an effect. The session ends when the process does.
///
/// What keeps the session from starting, such as a variable with a bad value, is said on standard
/// error, in one line.
///
/// ```no_run
/// // NETTRACE_OUTPUT=shop-{pid}.nettrace NETTRACE_PROVIDERS='Contoso-*=info' ./shop
/// if let Some(path) = nettrace_diagnostics::from_environment() {
///     eprintln!("recording to {}", path.display());
/// }
/// ```
#[allow(clippy::must_use_candidate, reason = "most callers want the session alone")]
pub fn from_environment() -> Option<PathBuf> {
    accompany_process();
    environment::start()
}

/// Has this crate called at `fork` and at `exit`. The child of a `fork` has no thread that answers,
/// and no session of the environment.
fn accompany_process() {
    #[cfg(unix)]
    nettrace_writer::companion::accompany(descriptors::close_in_child, || {
        handle::at_exit();
        environment::at_exit();
    });
}

/// A process that tools can attach to. Dropping it stops nothing.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    handle: sync::Arc<handle::Handle>,
}

/// Time that [`Diagnostics::stop`] waits.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

impl Diagnostics {
    fn start(options: Options) -> Result<Self, Error> {
        // Before any session, for which it holds.
        nettrace_writer::companion::redact_sessions(&options.redacted);
        accompany_process();
        environment::start();
        let handle = match environment::forbids_to_listen() {
            true => sync::Arc::new(handle::Handle::without_server(server::path(&options))),
            false => server::start(options)?,
        };
        Ok(Self { handle })
    }

    /// Whether tools can attach: nobody has [stopped](Self::stop) it, the environment does not
    /// [forbid it](crate#switched-off), and this is not the child of a `fork`.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.handle.serves()
    }

    /// The path of the socket, or of the pipe, whether or not it is there: see
    /// [`is_listening`](Self::is_listening).
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use nettrace_diagnostics::Options;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let diagnostics = Options::new().directory(directory).listen()?;
    /// assert!(diagnostics.path().starts_with(directory));
    /// diagnostics.stop();
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.path
    }

    /// Ends the sessions of all clients, removes the socket, and ends the thread. Returns when that
    /// is done. It gives up on clients that do not read for two seconds.
    ///
    /// Does nothing in the child of a `fork`, and nothing the second time. `exit` does the same.
    pub fn stop(&self) {
        self.handle.stop(STOP_PATIENCE);
    }
}

/// The README, so that the tests compile its examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
