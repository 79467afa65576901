//! The severity of an event.

use core::fmt;

/// Severity of an event: a number, of which 0 to 5 have names.
///
/// The numbers are those of the NetTrace and EventHeader formats. A session that asks for a level
/// gets that level and every lower number. Both formats store the level in one byte, so an
/// application may use numbers above 5 for levels of its own; readers show them as numbers.
///
/// ```
/// use nettrace_event::Level;
///
/// assert!(Level::Error < Level::Verbose);
/// assert_eq!(Level::new(5), Level::Verbose);
/// assert_eq!(Level::new(17).number(), 17);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

#[allow(
    non_upper_case_globals,
    reason = "they read as the variants of an enum, which users expect"
)]
impl Level {
    /// 0: always recorded, whatever level a session asks for. EventHeader has no such level and
    /// stores 1.
    pub const LogAlways: Self = Self(0);
    /// 1: the process or a request cannot go on.
    pub const Critical: Self = Self(1);
    /// 2: something failed.
    pub const Error: Self = Self(2);
    /// 3: something looks wrong.
    pub const Warning: Self = Self(3);
    /// 4: normal operation; the default.
    pub const Informational: Self = Self(4);
    /// 5: details for diagnosis.
    pub const Verbose: Self = Self(5);
}

impl Level {
    /// The level with this number.
    ///
    /// ```
    /// use nettrace_event::Level;
    ///
    /// /// Finer than `Verbose`.
    /// const TRACE: Level = Level::new(6);
    /// assert!(TRACE > Level::Verbose);
    /// ```
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number that the formats store.
    ///
    /// ```
    /// assert_eq!(nettrace_event::Level::Warning.number(), 3);
    /// ```
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The name of levels 0 to 5.
    ///
    /// ```
    /// use nettrace_event::Level;
    ///
    /// assert_eq!(Level::Warning.name(), Some("Warning"));
    /// assert_eq!(Level::new(6).name(), None);
    /// ```
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::LogAlways => "LogAlways",
            Self::Critical => "Critical",
            Self::Error => "Error",
            Self::Warning => "Warning",
            Self::Informational => "Informational",
            Self::Verbose => "Verbose",
            _ => return None,
        })
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Level({})", self.0),
        }
    }
}
