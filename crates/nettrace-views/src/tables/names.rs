//! Names of files and of columns.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

use crate::model::OneLine;

/// How many bytes the name of a file has at most, without its ending. File systems have 255.
const LONGEST: usize = 180;

/// The names of devices on Windows. No file can have one of them, whatever its ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Gives out names that differ in more than the case of letters. Some engines and file systems take
/// names for the same that do not.
#[derive(Debug, Default)]
pub(crate) struct Unique {
    taken: HashSet<String>,
    /// The next number for a name that is taken.
    next: HashMap<String, u64>,
}

impl Unique {
    /// The name, or with `_2`, `_3` and so on behind it if it is taken. Control characters are
    /// written as in Rust, and an empty name is `unnamed`.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let name = match name {
            "" => "unnamed".to_owned(),
            name => OneLine(name).to_string(),
        };
        self.numbered(name, '_')
    }

    /// A name for a file in a folder: what is unsafe in `name` is `%` and two hexadecimal digits,
    /// and `~2`, `~3` and so on are behind it if it is taken.
    pub(crate) fn file(&mut self, name: &str) -> String {
        self.numbered(escaped(name), '~')
    }

    fn numbered(&mut self, name: String, mark: char) -> String {
        let folded = name.to_lowercase();
        if self.taken.insert(folded.clone()) {
            return name;
        }
        let next = self.next.entry(folded.clone()).or_insert(2);
        loop {
            let number = *next;
            *next += 1;
            if self.taken.insert(format!("{folded}{mark}{number}")) {
                return format!("{name}{mark}{number}");
            }
        }
    }
}

/// A name as part of the name of a file. Letters and digits of all scripts, and the punctuation
/// that shells, patterns, addresses and file systems leave alone, stay as they are.
pub(crate) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let device = name.split('.').next().unwrap_or("").to_ascii_lowercase();
    let number = |prefix: &str| {
        let rest = device.strip_prefix(prefix);
        rest.is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']))
    };
    let is_device = DEVICES.contains(&&*device) || number("com") || number("lpt");
    for (at, c) in name.char_indices() {
        let is_safe = match c {
            '.' | '_' => at > 0,
            '-' => at > 0,
            c => c.is_alphanumeric(),
        };
        if is_safe && !(at == 0 && is_device) {
            text.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // A `String` takes everything.
                let _ = write!(text, "%{byte:02X}");
            }
        }
        if text.len() > LONGEST {
            break;
        }
    }
    while text.len() > LONGEST {
        text.pop();
    }
    if text.is_empty() { "unnamed".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for (name, file) in [
            ("Shop.Sale", "Shop.Sale"),
            ("Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntime"),
            ("a/b\\c:d", "a%2Fb%5Cc%3Ad"),
            ("..", "%2E."),
            (".hidden", "%2Ehidden"),
            ("_x=1", "%5Fx%3D1"),
            ("é\0\u{202E}", "é%00%E2%80%AE"),
            ("CON.x", "%43ON.x"),
            ("com1", "%63om1"),
            ("com", "com"),
            ("100%", "100%25"),
            ("", "unnamed"),
        ] {
            assert_eq!(escaped(name), file, "{name:?}");
        }
        assert_eq!(escaped(&"x".repeat(1000)).len(), LONGEST);
        assert!(escaped(&"💡".repeat(1000)).len() <= LONGEST);
    }

    #[test]
    fn equal_names_are_numbered() {
        let mut names = Unique::default();
        let all: Vec<_> =
            ["x", "X", "x_2", "", "", "a\nb", "x"].map(|name| names.unique(name)).into();
        assert_eq!(all, ["x", "X_2", "x_2_2", "unnamed", "unnamed_2", "a\\nb", "x_3"]);
        let mut files = Unique::default();
        assert_eq!(files.file("A/b"), "A%2Fb");
        assert_eq!(files.file("a/B"), "a%2FB~2");
    }
}
