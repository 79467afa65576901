//! Rotation of a trace by the environment: `NETTRACE_ROTATE` and `NETTRACE_KEEP`.

use std::{io, path::Path, time::Duration};

use nettrace_writer::{
    companion::time_unit,
    sink::{RotatingFiles, RotationOptions},
};

/// When a new file begins, and what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    file_size: Option<u64>,
    file_age: Option<Duration>,
    total_size: Option<u64>,
    total_files: Option<usize>,
}

impl Rotation {
    /// Reads the values of `NETTRACE_ROTATE`, such as `64MB`, `1h` or `64MB,1h`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut rotation = Self::default();
        for part in text.split(',').map(str::trim) {
            match (size(part), age(part)) {
                (Some(size), _) => rotation.file_size = Some(size),
                (None, Some(age)) => rotation.file_age = Some(age),
                (None, None) => {
                    return Err("it is not a size or an age, such as `64MB`, `1h` or `64MB,1h`");
                }
            }
        }
        Ok(rotation)
    }

    /// Adds the value of `NETTRACE_KEEP`: a number of files, or a size.
    pub(crate) fn keep(mut self, text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(files @ 1..) => self.total_files = Some(files),
            _ => self.total_size = size(text),
        }
        if self.total_files.is_none() && self.total_size.is_none() {
            return Err("it is not a number of files or a size, such as `10` or `1GB`");
        }
        if self.total_size.is_some_and(|total| self.file_size.is_none_or(|file| file > total)) {
            return Err("a size in all needs a size of each file in NETTRACE_ROTATE, no larger");
        }
        Ok(self)
    }

    /// The sink for files beside `path`: `DIRECTORY/STEM-NUMBER.EXTENSION`.
    pub(crate) fn sink(&self, path: &Path) -> io::Result<RotatingFiles> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let stem = path.file_stem().unwrap_or_default();
        // Files of earlier runs count, so that a service which restarts again and again does not
        // fill the disk.
        let is_bounded = self.total_size.is_some() || self.total_files.is_some();
        let mut options = RotationOptions::new(directory, stem).adopt_existing(is_bounded);
        if let Some(extension) = path.extension() {
            options = options.extension(extension);
        }
        if let Some(bytes) = self.file_size {
            options = options.file_size(bytes);
        }
        if let Some(age) = self.file_age {
            options = options.file_age(age);
        }
        if let Some(bytes) = self.total_size {
            options = options.total_size(bytes);
        }
        if let Some(files) = self.total_files {
            options = options.total_files(files);
        }
        options.build()
    }
}

/// A number of bytes above 0. As in `NETTRACE_BUFFER_MB`, a megabyte is 2^20 bytes.
fn size(text: &str) -> Option<u64> {
    let [kilo, mega, giga] = [1 << 10, 1 << 20, 1 << 30];
    let units =
        [("KB", kilo), ("KiB", kilo), ("MB", mega), ("MiB", mega), ("GB", giga), ("GiB", giga)];
    units.iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*factor).filter(|number| *number > 0)
    })
}

/// A number of seconds, minutes, hours or days above 0.
fn age(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix('d') {
        Some(number) => (number, 86_400),
        None => time_unit(text).map(|(number, nanos)| (number, nanos / 1_000_000_000))?,
    };
    let seconds = number.trim().parse::<u64>().ok()?.checked_mul(unit)?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_have_units() {
        let rotation = Rotation::parse("64MB, 1h").unwrap();
        assert_eq!(Rotation::parse("64MiB,60m"), Ok(rotation));
        let both = Rotation {
            file_size: Some(64 << 20),
            file_age: Some(Duration::from_secs(3_600)),
            ..Rotation::default()
        };
        assert_eq!(rotation, both);
        assert_eq!(rotation.keep("10"), Ok(Rotation { total_files: Some(10), ..both }));
        assert_eq!(rotation.keep("1GB"), Ok(Rotation { total_size: Some(1 << 30), ..both }));
        for bad in ["", "64", "MB", "-1MB", "0MB", "1.5GB", "1h,,", "99999999999999GB", "1w"] {
            assert!(Rotation::parse(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "-1", "1MB", "x"] {
            assert!(rotation.keep(bad).is_err(), "{bad}");
        }
        assert!(Rotation::parse("1h").unwrap().keep("1GB").is_err());
    }
}
