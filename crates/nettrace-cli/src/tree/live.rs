//! The options of `tree --open` for a process that is running.

use std::time::Duration;

use nettrace_views::text::Detail;

use crate::{filter::EventFilter, nanoseconds::duration};

/// Which process, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OpenOptions {
    /// With --open: the id of a process, to ask what is open there now
    #[arg(short, long, value_name = "PID", requires = "open", conflicts_with = "files")]
    pub(crate) pid: Option<u32>,
    /// With --open: the name of its program, or a part of its command line
    #[arg(
        short,
        long,
        value_name = "NAME",
        requires = "open",
        conflicts_with_all = ["files", "pid"]
    )]
    pub(crate) name: Option<String>,
    /// With --pid or --name: how often what is open is shown
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "1s",
        conflicts_with = "files"
    )]
    pub(crate) interval: Duration,
    /// With --pid or --name: show once what is open after --interval, and end
    #[arg(long, conflicts_with = "files")]
    pub(crate) once: bool,
    /// With --pid or --name: how long: seconds, or with a unit [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "files")]
    pub(crate) duration: Option<Duration>,
    /// With --pid or --name: also the spans that began within this time, as far as the flight
    /// recorder of the process has kept it
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "files")]
    pub(crate) past: Option<Duration>,
}

/// What is asked of the spans.
pub(crate) struct OpenQuestion<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) filter: &'a EventFilter,
    pub(crate) is_json: bool,
    pub(crate) detail: Detail,
}
