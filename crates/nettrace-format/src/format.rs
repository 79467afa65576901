//! The formats that a trace can have.
//!
//! # How to add a format
//!
//! 1. Write a folder with the format's bytes, and in it a `static` [`Definition`]: the format's
//!    name, its constants, and a function that makes its [`Writer`](crate::writer::Writer).
//! 2. Declare the folder in `lib.rs`, behind a feature.
//! 3. Add an arm to [`Format`]: to the enum, to [`Format::ALL`] and to the one `match` over it,
//!    [`Format::definition`]. Add its name to [`FEATURES`].
//!
//! No other file asks which format it writes. A [`Transcoder`](crate::Transcoder) speaks in the
//! terms of version 6, and the format's `Writer` tells the same facts in the way of its format.

use core::{fmt, str::FromStr};

use nettrace_event::EventSchema;

#[cfg(feature = "heph")]
use crate::heph;
#[cfg(feature = "v5")]
use crate::v5;
use crate::{error::FormatError, schema::Metadata, stream_end::StreamEnd, v6, writer::Definition};

/// The format of a trace.
///
/// Version 6 is always there. The others are there with a feature of this crate, which
/// `nettrace-writer` has as well: `v5` or `heph`.
///
/// ```
/// use nettrace_format::Format;
///
/// // What a command shows of each format.
/// let names: Vec<_> = Format::ALL.iter().map(|format| format.to_string()).collect();
/// assert_eq!(names, ["v6", "v5", "v4", "heph"]);
/// assert_eq!(Format::default(), Format::V6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// NetTrace version 6, which stores everything. Readers since 2025 support it: TraceEvent
    /// 3.1.22, `dotnet-trace` 10.
    #[default]
    V6,
    /// NetTrace version 5, as .NET 5 to 10 write it. See [`v5`] for what it lacks.
    ///
    /// Needs the feature `v5`.
    #[cfg(feature = "v5")]
    V5,
    /// NetTrace version 4, as .NET Core 3 writes it. It also lacks arrays and opcodes.
    ///
    /// Needs the feature `v5`.
    #[cfg(feature = "v5")]
    V4,
    /// The format of Heph's trace system, version 0.1.0: spans with attributes. See [`heph`] for
    /// how events map to it.
    ///
    /// Needs the feature `heph`.
    #[cfg(feature = "heph")]
    Heph,
}

impl Format {
    /// All formats that are compiled in, the default first.
    pub const ALL: &'static [Self] = &[
        Self::V6,
        #[cfg(feature = "v5")]
        Self::V5,
        #[cfg(feature = "v5")]
        Self::V4,
        #[cfg(feature = "heph")]
        Self::Heph,
    ];

    pub(crate) fn definition(self) -> &'static Definition {
        match self {
            Self::V6 => &v6::V6,
            #[cfg(feature = "v5")]
            Self::V5 => &v5::V5,
            #[cfg(feature = "v5")]
            Self::V4 => &v5::V4,
            #[cfg(feature = "heph")]
            Self::Heph => &heph::HEPH,
        }
    }

    /// The format's name: `v6`, `v5`, `v4` or `heph`. [`Display`](fmt::Display) shows it, and
    /// [`FromStr`] reads it.
    ///
    /// ```
    /// use nettrace_format::Format;
    ///
    /// assert_eq!(Format::V5.name(), "v5");
    /// assert_eq!("heph".parse(), Ok(Format::Heph));
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// The format's name in a sentence: `NetTrace V6`, `Heph`.
    ///
    /// ```
    /// assert_eq!(nettrace_format::Format::V4.title(), "NetTrace V4");
    /// ```
    #[must_use]
    pub fn title(self) -> &'static str {
        self.definition().title
    }

    /// A line about the format, for the help of a command.
    ///
    /// ```
    /// let about = nettrace_format::Format::V5.about();
    /// assert_eq!(about, "NetTrace version 5, as .NET 5 to 10 write it");
    /// ```
    #[must_use]
    pub fn about(self) -> &'static str {
        self.definition().about
    }

    /// The usual extension of a file's name, without the dot.
    ///
    /// ```
    /// use nettrace_format::Format;
    ///
    /// assert_eq!(Format::V6.extension(), "nettrace");
    /// assert_eq!(Format::Heph.extension(), "heph");
    /// ```
    #[must_use]
    pub fn extension(self) -> &'static str {
        self.definition().extension
    }

    /// Whether rows contain the addresses of their stacks, rather than the ids of stacks.
    ///
    /// ```
    /// use nettrace_format::Format;
    ///
    /// assert!(Format::Heph.has_stacks_in_rows());
    /// assert!(!Format::V6.has_stacks_in_rows());
    /// ```
    #[must_use]
    pub fn has_stacks_in_rows(self) -> bool {
        self.definition().has_stacks_in_rows
    }

    /// What a complete stream ends with.
    ///
    /// ```
    /// use nettrace_format::Format;
    ///
    /// // The null reference that ends the objects of version 5.
    /// assert_eq!(Format::V5.end().bytes(), [1]);
    /// ```
    #[must_use]
    pub fn end(self) -> StreamEnd {
        self.definition().end
    }

    /// Checks whether the format can describe an event type.
    ///
    /// ```
    /// use nettrace_format::Format;
    /// # use nettrace_format::example::SALE;
    ///
    /// assert_eq!(Format::V4.check(&SALE), Ok(()));
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] says why it cannot.
    pub fn check(self, schema: &'static EventSchema) -> Result<(), FormatError> {
        (self.definition().check)(schema)
    }

    /// Checks whether the format can describe a type of a trace.
    ///
    /// ```
    /// use nettrace_format::{Field, Format, Metadata, Type};
    ///
    /// let fields = vec![Field::new("price", Type::Decimal)];
    /// let sale = Metadata { fields, ..Metadata::default() };
    /// assert!(Format::V5.check_type(&sale).is_err());
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] says why it cannot. It does not name the field.
    pub fn check_type(self, of: &Metadata) -> Result<(), FormatError> {
        (self.definition().check_type)(of)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let absent = || FEATURES.iter().copied().find(|(absent, _)| *absent == name);
        let found = Self::ALL.iter().copied().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownFormat { absent: absent() })
    }
}

/// The names of formats, each with the feature that compiles it in.
const FEATURES: [(&str, &str); 3] = [("v5", "v5"), ("v4", "v5"), ("heph", "heph")];

/// No format has this name, or the one that has it is not compiled in.
///
/// ```
/// let error = "v3".parse::<nettrace_format::Format>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "no format has this name; use one of `v6`, `v5`, `v4`, `heph`"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownFormat {
    /// The name of a format that is not compiled in, and its feature.
    absent: Option<(&'static str, &'static str)>,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, feature)) = self.absent {
            return write!(
                f,
                "the format `{name}` is not compiled in; switch on the feature `{feature}` of \
                 nettrace-writer or nettrace-format"
            );
        }
        f.write_str("no format has this name; use one of")?;
        for (at, format) in Format::ALL.iter().enumerate() {
            write!(f, "{} `{format}`", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{format, string::ToString};

    use super::*;

    #[test]
    fn a_format_that_is_not_compiled_in_names_its_feature() {
        let error = UnknownFormat { absent: Some(FEATURES[1]) };
        assert_eq!(
            error.to_string(),
            "the format `v4` is not compiled in; switch on the feature `v5` of nettrace-writer or \
             nettrace-format"
        );
        // With all features, as these tests are compiled, each is there.
        let names = FEATURES.map(|(name, _)| name);
        assert_eq!(names, [Format::V5, Format::V4, Format::Heph].map(Format::name));
        assert_eq!(format!("{:?}", "v7".parse::<Format>()), "Err(UnknownFormat { absent: None })");
    }
}
