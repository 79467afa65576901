//! `nettrace view`: shows a trace in the browser, as a report or in Perfetto.

pub(crate) mod follow;
mod serve;

use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::Path,
};

use nettrace_views::viewers::{self, View};

use crate::{
    failure::Failure,
    file_name,
    files::SourceFiles,
    heph::Original,
    read_options::ReadOptions,
    report::{self, Content},
    source::Source,
    standard_error::say,
};

use self::serve::Server;

/// The only port from which Perfetto's page takes traces.
const PERFETTO_PORT: u16 = 9001;

/// The page that draws traces.
const PERFETTO: &str = "https://ui.perfetto.dev";

/// Options of `view`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BrowserOptions {
    /// Open the trace in Perfetto (ui.perfetto.dev) instead. Its page comes from the network; the
    /// trace is handed to it on this machine, at port 9001, until Ctrl-C
    #[arg(long)]
    perfetto: bool,
    /// Serve on this machine alone until Ctrl-C, and print the address instead of opening it. The
    /// address has a secret: who knows it can read the trace. Without a port a free one is taken;
    /// --perfetto needs port 9001
    // With `=`: the trace may follow the option.
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0"
    )]
    serve: Option<u16>,
    #[command(flatten)]
    pub(crate) content: Content,
}

/// Shows `trace` in the browser.
pub(crate) fn run(
    trace: (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    options: &BrowserOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if options.perfetto {
        return perfetto(trace, limits, about.name, options, out);
    }
    let (page, end) = report::page(trace, limits, about, &options.content)?;
    match options.serve {
        Some(port) => {
            let server = Server::of_page(port, page)?;
            announce(&server.address(), end, out)?;
            server.run()
        }
        None => {
            let path = keep(&page, about.name).map_err(Failure::Output)?;
            writeln!(out, "{}", path.display())?;
            out.flush()?;
            open::that(&path).map_err(|error| not_opened(&path.display(), &error))?;
            end
        }
    }
}

/// Hands the trace to Perfetto's page, which fetches it from this process.
fn perfetto(
    (source, original): (Source, Original),
    limits: ReadOptions,
    path: &Path,
    options: &BrowserOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut events = limits.options().open(source)?.sorted();
    let file = tempfile::tempfile().map_err(Failure::Output)?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let settings = viewers::Options::default().spans_limit(limits.definitions());
    let written = viewers::write(View::Perfetto, &mut events, &mut writer, &settings)?;
    let mut file: File =
        writer.into_inner().map_err(|error| Failure::Output(error.into_error()))?;
    let size = file.stream_position().map_err(Failure::Output)?;
    for (count, what, _) in written.left_out.lines() {
        say(Some(format_args!("left out: {count} {what}")))?;
    }
    let end = written.end.map_err(Failure::from).and(original.end_whole());
    let port = options.serve.filter(|port| *port != 0).unwrap_or(PERFETTO_PORT);
    let server = Server::of_trace(port, file, size)?;
    let address = format!("{PERFETTO}/#!/?url={}", server.address());
    announce(&address, end, out)?;
    if options.serve.is_none() {
        let page = keep(redirect(&address).as_bytes(), path).map_err(Failure::Output)?;
        // Some launchers wait until the browser ends, which wants its trace before.
        server.meanwhile(move || {
            if let Err(error) = open::that(&page) {
                // If standard error is closed, there is nobody to tell.
                let _ = say(Some(not_opened(&page.display(), &error)));
            }
        });
    }
    server.run()
}

/// Prints the address, and how the trace ended if it is damaged.
fn announce(address: &str, end: Result<(), Failure>, out: &mut impl Write) -> Result<(), Failure> {
    if let Err(failure) = end {
        say(Some(failure))?;
    }
    writeln!(out, "{address}")?;
    out.flush()?;
    Ok(say(Some("Ctrl-C ends it"))?)
}

/// A page that leads to the address. Every user can read the arguments of the browser, so they
/// must not have the secret that is in the address: they have the name of this page's file.
fn redirect(address: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
         <title>NetTrace</title>\n<a href=\"{address}\">Open the trace in Perfetto</a>\n"
    )
}

/// Writes the page into a file that only this user can read. The system's cleaning of temporary
/// files removes it.
fn keep(page: &[u8], trace: &Path) -> io::Result<std::path::PathBuf> {
    let stem = trace.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let prefix = format!("nettrace-{}-", file_name::part(&stem.unwrap_or_default()));
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".html").tempfile()?;
    file.write_all(page)?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

fn not_opened(what: &impl std::fmt::Display, error: &io::Error) -> Failure {
    Failure::Browser(format!("cannot open {what} in a browser: {error}; --serve prints an address"))
}
