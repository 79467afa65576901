//! Placeholders in file names: `{pid}`, `{time}`, `{exe}`.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use nettrace_format::content::SystemTimeParts;

use crate::process::description::program;

/// The placeholders that [`expand`] knows.
const PLACEHOLDERS: [&str; 3] = ["pid", "time", "exe"];

/// Why the placeholders of a file name cannot be replaced. See
/// [`SessionBuilder::file`](crate::SessionBuilder::file) for the known ones.
///
/// ```
/// use nettrace_writer::{Error, FileNameError, Session};
///
/// let error = Session::builder().file("service-{date}.nettrace").start().unwrap_err();
/// let Error::FileName(FileNameError::Unknown { placeholder, .. }) = &error else {
///     panic!("{error}");
/// };
/// assert_eq!(placeholder, "date");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileNameError {
    /// The name has an unknown placeholder.
    #[error(
        "the file name `{name}` has `{{{placeholder}}}`, but only `{{pid}}`, `{{time}}` and \
         `{{exe}}` have a meaning; write `{{{{` and `}}}}` for braces"
    )]
    Unknown {
        /// The file name as it was given.
        name: String,
        /// The text between the braces.
        placeholder: String,
    },
    /// The name has a brace without its counterpart.
    #[error(
        "the file name `{name}` has a single `{brace}`; write `{{{{` and `}}}}` for braces that \
         are part of the name"
    )]
    SingleBrace {
        /// The file name as it was given.
        name: String,
        /// The brace.
        brace: char,
    },
    /// A directory of the path has a known placeholder, and there is no directory of that name.
    #[error(
        "the directory of `{path}` has `{{{placeholder}}}`, but only the file name can have \
         placeholders"
    )]
    InDirectory {
        /// The path as it was given.
        path: String,
        /// The text between the braces.
        placeholder: String,
    },
    /// The name has a brace, but is not Unicode.
    #[error("the file name `{name}` has a brace and is not Unicode; use one or the other")]
    NotUnicode {
        /// The file name, with replacement characters.
        name: String,
    },
    /// The name has `{exe}`, but the system does not tell the program's name.
    #[error(
        "the file name `{name}` has `{{exe}}`, but the system does not tell the program's name; \
         write it out"
    )]
    NoProgramName {
        /// The file name as it was given.
        name: String,
    },
}

/// Replaces the placeholders in the last component of a path.
pub(crate) fn expand_path(path: &Path) -> Result<PathBuf, FileNameError> {
    check_directory(path)?;
    let Some(name) = path.file_name() else { return Ok(path.to_owned()) };
    let expanded = expand(name)?;
    // A separator at the end stays, so that the sink can refuse it.
    Ok(if expanded == name { path.to_owned() } else { path.with_file_name(expanded) })
}

/// Refuses a placeholder in the directory of a path, unless there is a directory of that name.
fn check_directory(path: &Path) -> Result<(), FileNameError> {
    let Some(directory) = path.parent() else { return Ok(()) };
    let text = directory.to_string_lossy();
    let known = PLACEHOLDERS.into_iter().find(|known| text.contains(&format!("{{{known}}}")));
    match known {
        Some(placeholder) if !directory.is_dir() => Err(FileNameError::InDirectory {
            path: path.to_string_lossy().into_owned(),
            placeholder: placeholder.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Replaces the placeholders of a name.
pub(crate) fn expand(name: &OsStr) -> Result<OsString, FileNameError> {
    expand_with(name, |placeholder| match placeholder {
        "pid" => Some(Some(process::id().to_string())),
        "time" => Some(Some(utc(SystemTime::now()))),
        "exe" => Some(program()),
        _ => None,
    })
}

/// Replaces the placeholders of a name by the values that `value` returns. It returns `None` for an
/// unknown placeholder, and `Some(None)` for one whose value is not available.
fn expand_with(
    name: &OsStr,
    value: impl Fn(&str) -> Option<Option<String>>,
) -> Result<OsString, FileNameError> {
    if !name.as_encoded_bytes().iter().any(|byte| matches!(byte, b'{' | b'}')) {
        return Ok(name.to_owned());
    }
    let Some(text) = name.to_str() else {
        return Err(FileNameError::NotUnicode { name: name.to_string_lossy().into_owned() });
    };
    let name = || text.to_owned();
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        expanded.push_str(&rest[..at]);
        let brace = if rest[at..].starts_with('{') { '{' } else { '}' };
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            expanded.push(brace);
            rest = behind;
            continue;
        }
        let single = || FileNameError::SingleBrace { name: name(), brace };
        let end = if brace == '{' { rest.find(['{', '}']) } else { None };
        let end = end.filter(|&end| rest[end..].starts_with('}')).ok_or_else(single)?;
        let placeholder = &rest[..end];
        match value(placeholder) {
            Some(Some(value)) => expanded.push_str(&value),
            Some(None) => return Err(FileNameError::NoProgramName { name: name() }),
            None => {
                let placeholder = placeholder.to_owned();
                return Err(FileNameError::Unknown { name: name(), placeholder });
            }
        }
        rest = &rest[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded.into())
}

/// A date and time in UTC, in the basic form of ISO 8601. The extended form has colons, which some
/// file systems refuse.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let parts = SystemTimeParts::from_unix_millis(since.as_millis() as i64);
    let SystemTimeParts { year, month, day, hour, minute, second, .. } = parts;
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn expanded(name: &str) -> Result<String, FileNameError> {
        let values = |placeholder: &str| match placeholder {
            "pid" => Some(Some("42".to_owned())),
            "exe" => Some(None),
            _ => None,
        };
        expand_with(OsStr::new(name), values).map(|name| name.into_string().unwrap())
    }

    #[test]
    fn placeholders_and_escapes() {
        for (name, expected) in [
            ("plain.nettrace", "plain.nettrace"),
            ("{pid}", "42"),
            ("a-{pid}-{pid}.b", "a-42-42.b"),
            ("{{pid}}", "{pid}"),
            ("{{{pid}}}", "{42}"),
            ("}}{{", "}{"),
            ("é{pid}é", "é42é"),
        ] {
            assert_eq!(expanded(name).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_is_no_placeholder_is_refused() {
        for (name, placeholder) in [("a{}b", ""), ("{ pid}", " pid"), ("{PID}", "PID")] {
            let expected = FileNameError::Unknown {
                name: name.to_owned(),
                placeholder: placeholder.to_owned(),
            };
            assert_eq!(expanded(name), Err(expected));
        }
        for (name, brace) in
            [("a{", '{'), ("{pid", '{'), ("{a{pid}", '{'), ("a}", '}'), ("}{", '}')]
        {
            let expected = FileNameError::SingleBrace { name: name.to_owned(), brace };
            assert_eq!(expanded(name), Err(expected));
        }
        let expected = FileNameError::NoProgramName { name: "{exe}".to_owned() };
        assert_eq!(expanded("{exe}"), Err(expected));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_unicode_have_no_placeholders() {
        use std::os::unix::ffi::OsStrExt;

        let plain = OsStr::from_bytes(b"a\xFF");
        assert_eq!(expand(plain).as_deref(), Ok(plain));
        let error = expand(OsStr::from_bytes(b"a\xFF{pid}")).unwrap_err();
        assert_eq!(error, FileNameError::NotUnicode { name: "a\u{FFFD}{pid}".to_owned() });
    }

    #[test]
    fn only_the_last_part_of_a_path_has_placeholders() {
        let path = expand_path(Path::new("dir-{x}/{pid}.nettrace")).unwrap();
        assert_eq!(path, Path::new("dir-{x}").join(format!("{}.nettrace", process::id())));
        assert_eq!(expand_path(Path::new("..")).as_deref(), Ok(Path::new("..")));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-{pid}").join("b.nettrace");
        let error = FileNameError::InDirectory {
            path: path.to_str().unwrap().to_owned(),
            placeholder: "pid".to_owned(),
        };
        assert_eq!(expand_path(&path), Err(error));
        std::fs::create_dir(folder.path().join("a-{pid}")).unwrap();
        assert_eq!(expand_path(&path), Ok(path));
    }

    #[test]
    fn values() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_322_430);
        assert_eq!(utc(time), "20261122T044030Z");
        assert_eq!(utc(SystemTime::UNIX_EPOCH), "19700101T000000Z");
    }
}
