//! The option that says whether lines have colors.

use std::io;

use nettrace_views::text::wants_colors;

/// Whether lines have colors.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ColorOption {
    /// Whether lines have colors. auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
}

/// When lines have colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl ColorOption {
    pub(crate) fn is_wanted(self) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => wants_colors(&io::stdout()),
        }
    }
}
