//! The options of the targets of `nettrace-views`.

use std::{fs, path::PathBuf};

use clap::ValueHint;
use nettrace_views::viewers::{self, By, Folded, Options, View};

use crate::{failure::Failure, read_options::ReadOptions, source::Source, standard_error};

/// Reads another trace than the one that is converted, from its path. A function of the layer
/// above, which joins and merges files.
pub(crate) type ReadOther<'a> = &'a dyn Fn(
    &PathBuf,
    ReadOptions,
    &mut dyn FnMut(Source, ReadOptions) -> Result<(), Failure>,
) -> Result<(), Failure>;

/// The values of `--by`.
fn names() -> Vec<&'static str> {
    By::ALL.iter().map(|by| by.name()).collect()
}

/// The options of flame graphs.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ViewOptions {
    /// Flame graphs: what their widths are: samples (cpu), times of spans, times in which threads
    /// waited (off-cpu: context switches), or how many events have the stack. Without it: the first
    /// of these that the trace has
    #[arg(long, value_name = "WHAT", value_parser = names())]
    by: Option<String>,
    /// Flame graphs: tell spans of one name apart by the value of this field. Without it, and for
    /// types without the field: by the one that a type marks as its dimension, such as the route of
    /// a request
    #[arg(long, value_name = "FIELD")]
    pub(super) dimension: Option<String>,
    /// Flame graphs: colour what takes more (red) or less (blue) than in another trace
    #[arg(long, value_name = "OTHER", value_hint = ValueHint::FilePath)]
    diff: Option<PathBuf>,
}

impl ViewOptions {
    /// The options for a view. Reads the other trace, if there is one.
    pub(super) fn for_view(
        &self,
        view: View,
        limits: ReadOptions,
        read_other: ReadOther<'_>,
    ) -> Result<Options, Failure> {
        let mut options = Options::default()
            .spans_limit(limits.definitions())
            .samples_limit(limits.definitions());
        let is_flames = matches!(view, View::FlameGraph | View::Folded);
        for (is_given, option) in [
            (self.by.is_some(), "--by"),
            (self.dimension.is_some(), "--dimension"),
            (self.diff.is_some(), "--diff"),
        ] {
            if is_given && !is_flames {
                return Err(Failure::OnlyFlameGraphs(option));
            }
        }
        if let Some(by) = self.by.as_deref().and_then(|by| by.parse::<By>().ok()) {
            options = options.by(by);
        }
        if let Some(field) = &self.dimension {
            options = options.dimension(field);
        }
        if let Some(other) = &self.diff {
            let before = folded(other, limits, &options, read_other)?;
            options = options.compared_with(before);
        }
        Ok(options)
    }
}

/// The stacks of another trace, or of a text that `--to folded` has written.
fn folded(
    path: &PathBuf,
    limits: ReadOptions,
    options: &Options,
    read_other: ReadOther<'_>,
) -> Result<Folded, Failure> {
    if path.extension().is_some_and(|ending| ending == "folded") {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| Failure::Open(path.display().to_string(), error))?;
        return Ok(Folded::read(&text));
    }
    let mut text = Vec::new();
    read_other(path, limits, &mut |source, limits| {
        let mut events = limits.options().open(source)?.sorted();
        Ok(viewers::write(View::Folded, &mut events, &mut text, options)?.end?)
    })?;
    standard_error::hide_progress();
    Ok(Folded::read(&String::from_utf8_lossy(&text)))
}
