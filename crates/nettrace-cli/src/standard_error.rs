//! Standard error: messages, and the progress bar, which do not mix.

use std::{
    cell::Cell,
    fmt,
    io::{self, Write},
    sync::OnceLock,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::spelling::OneLine;

/// The progress bar. The thread that reads ahead may still be running when the command ends, so the
/// command must be able to remove the bar.
static SHOWN: OnceLock<ProgressBar> = OnceLock::new();

thread_local! {
    /// Whether this thread's messages are left out.
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Leaves out this thread's messages from now on.
pub(crate) fn be_silent() {
    IS_SILENT.set(true);
}

/// Writes a line to standard error, if there is one. A closed standard error is not a failure. The
/// text can have names from a trace or from another process: it stays one line.
pub(crate) fn say(text: Option<impl fmt::Display>) -> io::Result<()> {
    let Some(text) = text.filter(|_| !IS_SILENT.get()) else { return Ok(()) };
    // The line must not mix with the progress bar.
    hide_progress();
    match writeln!(io::stderr(), "{}", OneLine(text)) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The progress bar of an input, with its size in bytes where that is known.
pub(crate) fn progress_bar(size: Option<u64>) -> &'static ProgressBar {
    SHOWN.get_or_init(|| match size {
        Some(size) => ProgressBar::new(size)
            .with_style(style("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")),
        None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes} {bytes_per_sec}")),
    })
}

/// Removes the progress bar from the terminal, before something else is written there.
pub(crate) fn hide_progress() {
    if let Some(bar) = SHOWN.get() {
        bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
