//! Where a trace comes from, with progress on the terminal where it takes long.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::Path,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;

/// A trace to be read.
pub(crate) type Source = Box<dyn Read>;

/// Opens `file`, or standard input for `-`. While it is read, standard error shows how far, if it is a
/// terminal, standard output is none, and a second has gone by.
pub(crate) fn open(file: &Path) -> Result<Source, Failure> {
    let (source, size): (Source, _) = if file.as_os_str() == "-" {
        (Box::new(io::stdin().lock()), None)
    } else {
        let fail = |error| Failure::Open(file.display().to_string(), error);
        let file = File::open(file).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    if io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return Ok(source);
    }
    let bar = match size {
        Some(size) => ProgressBar::new(size)
            .with_style(style("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")),
        None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes} {bytes_per_sec}")),
    };
    Ok(Box::new(Watched { source, bar: Some(bar), started: std::time::Instant::now() }))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// How long nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);

struct Watched {
    source: Source,
    bar: Option<ProgressBar>,
    started: std::time::Instant,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        if let Some(bar) = &self.bar {
            if count == 0 {
                bar.finish_and_clear();
                self.bar = None;
            } else if self.started.elapsed() > PATIENCE {
                bar.inc(count as u64);
            } else {
                // Counts without drawing.
                bar.update(|state| state.set_pos(state.pos() + count as u64));
            }
        }
        Ok(count)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
