//! Colors of terminals, and whether a terminal shows them.

use std::{fmt, io::IsTerminal};

/// Whether lines for `out` have colors: it is a terminal that knows them, and the variable
/// `NO_COLOR` is absent or empty. One without a name, or with the name `dumb`, knows none, except
/// on Windows, where terminals have no names.
#[must_use]
pub fn wants_colors(out: &impl IsTerminal) -> bool {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let knows = || cfg!(windows) || variable("TERM").is_some_and(|name| name != "dumb");
    out.is_terminal() && variable("NO_COLOR").is_none() && knows()
}

/// A color of a terminal. `{}` begins it, `{:#}` ends it.
///
/// These are of the colors from 16 on, which are the same in every theme. The first 16 are up to
/// the theme: xterm's yellow cannot be read on white, nor its blue on black.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(u8);

impl Style {
    /// No color of its own.
    pub const DEFAULT: Self = Self(0);
    /// What is read last.
    pub const GREY: Self = Self(244);
    /// An error, and a failure.
    pub const RED: Self = Self(196);
    /// What is as it should be.
    pub const GREEN: Self = Self(28);
    /// A warning.
    pub const YELLOW: Self = Self(136);
    /// What only developers read.
    pub const BLUE: Self = Self(32);
    /// Something unknown, or more detail still.
    pub const PURPLE: Self = Self(133);

    /// This color, or none.
    #[must_use]
    pub fn on(self, has_colors: bool) -> Self {
        if has_colors { self } else { Self::DEFAULT }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            _ if f.alternate() => f.write_str("\x1b[0m"),
            color => write!(f, "\x1b[38;5;{color}m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Style;

    /// The luminance of a color, as WCAG 2 defines it.
    fn luminance(rgb: [u8; 3]) -> f64 {
        let linear = rgb.map(|it| match f64::from(it) / 255.0 {
            dark if dark <= 0.04045 => dark / 12.92,
            bright => ((bright + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// A color of the fixed part of xterm's palette.
    fn rgb(color: u8) -> [u8; 3] {
        match color {
            232.. => [8 + 10 * (color - 232); 3],
            16.. => {
                [36, 6, 1].map(|it| [0, 95, 135, 175, 215, 255][usize::from((color - 16) / it % 6)])
            }
            _ => panic!("{color} is another color in each theme"),
        }
    }

    #[test]
    fn colors_can_be_read() {
        let backgrounds = [
            ("white", [0xFF; 3]),
            ("black", [0; 3]),
            ("VS Code, dark", [0x1E; 3]),
            ("Solarized, light", [0xFD, 0xF6, 0xE3]),
            ("Solarized, dark", [0, 0x2B, 0x36]),
            ("Dracula", [0x28, 0x2A, 0x36]),
        ];
        let styles =
            [Style::GREY, Style::RED, Style::GREEN, Style::YELLOW, Style::BLUE, Style::PURPLE];
        for style in styles {
            for (name, background) in backgrounds {
                let [one, other] = [rgb(style.0), background].map(|it| luminance(it) + 0.05);
                let contrast = one.max(other) / one.min(other);
                assert!(contrast >= 3.0, "{style:?} on {name}: {contrast:.2}");
            }
        }
    }
}
