//! A page that follows a trace while a service writes it: `nettrace report --serve`.
//!
//! The browser asks whether there is a newer page. While it asks, the files are looked at every few
//! seconds, and if one has changed, all are read again as `report` reads them. One thread does so,
//! and rests after a reading four times as long as that took. If nobody looks, nothing is read.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use nettrace_views::report::Report;

use super::{
    announce,
    serve::{PageHandle, Server, pause},
};
use crate::{
    excerpt,
    failure::Failure,
    files::{Files, SourceFiles},
    read_options::ReadOptions,
    report::{self, Content, FollowOptions},
    source::Meanwhile,
    standard_error,
};

/// How many times as long as a reading took nothing is read after it.
const REST: u32 = 4;

/// Serves the report of these files at a port until Ctrl-C.
pub(crate) fn run(
    paths: &[PathBuf],
    limits: ReadOptions,
    (port, options): (u16, &FollowOptions),
    content: &Content,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let content = content.clone();
    let paths = paths.to_vec();
    let mut followed =
        Followed { paths, limits, content, every: options.every, seen: Ok(Vec::new()), number: 1 };
    followed.seen = followed.look();
    let (mut report, end) = followed.read()?;
    let server = Server::of_page(port, followed.page(&mut report)?)?;
    let page = server.page();
    announce(&server.address(), end, out)?;
    server.meanwhile(move || followed.go_on(report, &page));
    server.run()
}

/// A file, as it was when it was read.
type SeenFile = (PathBuf, u64, Option<SystemTime>);

/// A trace whose files are looked at again and again.
#[derive(Debug)]
struct Followed {
    paths: Vec<PathBuf>,
    limits: ReadOptions,
    content: Content,
    every: Duration,
    /// The files, or why they could not be looked at.
    seen: Result<Vec<SeenFile>, String>,
    /// The number of the page.
    number: u64,
}

impl Followed {
    fn look(&self) -> Result<Vec<SeenFile>, String> {
        let files = Files::find(&self.paths).map_err(|failure| failure.to_string())?;
        let seen = files.each().into_iter().map(|path| {
            let metadata = fs::metadata(path);
            let metadata = metadata.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((path.to_owned(), metadata.len(), metadata.modified().ok()))
        });
        seen.collect()
    }

    /// Reads the trace. The inner `Result` says how it ended.
    fn read(&mut self) -> Result<(Report, Result<(), Failure>), Failure> {
        let files = Files::find(&self.paths)?;
        if let Some(path) = files.each().into_iter().find(|path| !path.is_file()) {
            let name = path.display();
            return Err(Failure::Browser(match path.exists() || path.as_os_str() == "-" {
                true => format!("--serve reads the trace again when it grows; {name} is no file"),
                false => format!("cannot open {name}: it does not exist"),
            }));
        }
        let mut limits = self.limits;
        limits.is_file = true;
        let (name, recordings) = (files.name().to_owned(), files.shown());
        let unread = files.unread();
        let filter = Some(&self.content.filter);
        let (trace, ending) = excerpt::open(files, &mut limits, Meanwhile::Nothing, false, filter)?;
        let about = SourceFiles { name: &name, recordings: &recordings, ending: &ending };
        let trace = trace.into_nettrace(limits)?;
        let (mut report, _) = report::read(trace, limits, about, &self.content)?;
        if unread > 0 {
            report.note(format!("Of {unread} files nothing could be read."));
        }
        let end = match report.damage() {
            None => ending.after(Ok(())),
            Some(damage) => Err(Failure::Browser(damage.to_string())),
        };
        Ok((report, end))
    }

    /// The page, which says when it was made.
    fn page(&self, report: &mut Report) -> Result<Vec<u8>, Failure> {
        let mut page = Vec::new();
        report.follow(self.number, SystemTime::now(), self.every);
        report.write(&mut page)?;
        Ok(page)
    }

    /// Makes a newer page whenever somebody asks and the files have changed.
    fn go_on(mut self, mut report: Report, page: &PageHandle) {
        // Each page says what is missing; the terminal has said it once.
        standard_error::be_silent();
        let mut rest = Duration::ZERO;
        let mut told = None;
        loop {
            pause(self.every.max(rest));
            rest = Duration::ZERO;
            if !page.was_asked_for() {
                continue;
            }
            let seen = self.look();
            if seen == self.seen {
                continue;
            }
            let began = Instant::now();
            self.seen = seen;
            let read = match &self.seen {
                Ok(_) => self.read().map_err(|failure| failure.to_string()),
                Err(why) => Err(why.clone()),
            };
            match read {
                Ok((newer, _)) => (report, told) = (newer, None),
                Err(why) => {
                    // Only the latest reason is true.
                    let why = format!("The trace could not be read again: {why}.");
                    if let Some(before) = told.replace(why.clone()) {
                        report.take_back(&before);
                    }
                    report.note(why);
                }
            }
            self.number += 1;
            if let Ok(bytes) = self.page(&mut report) {
                page.replace(self.number, bytes);
            }
            rest = began.elapsed() * REST;
        }
    }
}
