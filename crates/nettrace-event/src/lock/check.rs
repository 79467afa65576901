//! The test that `schema_lock!` makes.

use alloc::{format, string::String, vec::Vec};
use core::fmt::Write as _;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::lock::{Catalogue, FIRST_LINE, Verdict, changes};

/// The variable that lets the test write the file.
const VARIABLE: &str = "NETTRACE_SCHEMA";

/// The events that the test compares, and the file.
///
/// ```
/// nettrace_event::schema_lock!(|lock| lock
///     // Events of another package of the workspace.
///     .package("shop-db")
///     // Events that only tests have.
///     .without("shop::tests"));
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    file: PathBuf,
    packages: Vec<&'static str>,
    without: Vec<&'static str>,
    may_lack_events: bool,
}

impl Lock {
    /// The events of `package`, and the file `nettrace.schema` in `folder`.
    pub fn new(package: &'static str, folder: &str) -> Self {
        Self {
            file: Path::new(folder).join("nettrace.schema"),
            packages: Vec::from([package]),
            without: Vec::new(),
            may_lack_events: false,
        }
    }

    /// Also the events of another package, which the test must link: `use shop_db as _;`.
    pub fn package(mut self, package: &'static str) -> Self {
        self.packages.push(package);
        self
    }

    /// Not the events of a module, given by its path: `shop::tests`.
    pub fn without(mut self, module: &'static str) -> Self {
        self.without.push(module);
        self
    }

    /// The file may have events that the code does not: for a build without all features.
    /// `NETTRACE_SCHEMA` then keeps them.
    pub fn may_lack_events(mut self) -> Self {
        self.may_lack_events = true;
        self
    }

    /// Another file, from the package's folder.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.file = self.file.with_file_name("").join(path);
        self
    }

    /// Compares, and writes the file if `NETTRACE_SCHEMA` says so.
    ///
    /// # Errors
    /// A text for people: what has changed, what that does to readers, and how to accept it.
    pub fn check(&self) -> Result<(), String> {
        let wish = std::env::var(VARIABLE).unwrap_or_default();
        let mut code = self.code()?;
        let file = match fs::read_to_string(&self.file) {
            Ok(text) => text
                .parse::<Catalogue>()
                .map_err(|error| format!("{}: {error}", self.file.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match wish.as_str() {
                    "accept" | "break" => self.write(&code),
                    _ => Err(format!(
                        "there is no {}; `{VARIABLE}=accept cargo test` writes it",
                        self.file.display()
                    )),
                };
            }
            Err(error) => return Err(format!("{}: {error}", self.file.display())),
        };
        if self.may_lack_events {
            keep_others(&file, &mut code);
        }
        let changes = changes(&file, &code);
        let worst = changes.iter().map(|change| change.verdict).max().unwrap_or(Verdict::Note);
        match wish.as_str() {
            "break" => return self.write(&code),
            "accept" if worst < Verdict::Breaking => return self.write(&code),
            _ if worst == Verdict::Note => return Ok(()),
            _ => {}
        }
        let mut text = format!("the events differ from {}:\n", self.file.display());
        for change in &changes {
            let _ = writeln!(text, "  {change}");
        }
        let _ = match worst {
            Verdict::Breaking => write!(
                text,
                "Readers of traces may depend on what breaks. Undo it, give the event a new \
                 version, or write the file nevertheless: `{VARIABLE}=break cargo test`"
            ),
            _ => write!(text, "`{VARIABLE}=accept cargo test` writes the file"),
        };
        Err(text)
    }

    /// The events of the code.
    fn code(&self) -> Result<Catalogue, String> {
        for package in &self.packages {
            if Catalogue::of_packages(&[package]).events.is_empty() {
                return Err(format!(
                    "no event of package `{package}` is in this test: it links only the crates \
                     that it names, so write `use {} as _;`",
                    package.replace('-', "_")
                ));
            }
        }
        let mut code = Catalogue::of_packages(&self.packages);
        code.events.retain(|event| !self.without.iter().any(|path| is_within(&event.module, path)));
        Ok(code)
    }

    fn write(&self, code: &Catalogue) -> Result<(), String> {
        let text = format!(
            "{FIRST_LINE}: the events of {}. Written by `{VARIABLE}=accept cargo test`.\n{code}",
            self.packages.join(", ")
        );
        fs::write(&self.file, text).map_err(|error| format!("{}: {error}", self.file.display()))?;
        std::println!("wrote {}", self.file.display());
        Ok(())
    }
}

/// Whether a module is another one, or within it.
fn is_within(module: &str, other: &str) -> bool {
    module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Adds the events of the file of which the code has no version at all.
fn keep_others(file: &Catalogue, code: &mut Catalogue) {
    let names = code.names();
    let others = file.events.iter().filter(|event| !names.contains(&event.full_name()));
    let others: Vec<_> = others.cloned().collect();
    let events = core::mem::take(&mut code.events).into_iter().chain(others);
    *code = Catalogue::new(events.collect());
}

/// Makes the test `schema_is_locked`, which fails if the package's events are not those in its
/// file `nettrace.schema`. See [`lock`](crate::lock) for what it says.
///
/// Put it into a test program of its own, such as `tests/schema.rs`, with `use shop as _;` for the
/// package's library. In a unit test it also sees the events of other unit tests. A [`Lock`] says
/// which events it takes.
///
/// ```
/// nettrace_event::schema_lock!();
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! schema_lock {
    () => {
        $crate::schema_lock!(|lock| lock);
    };
    ($configure:expr) => {
        #[test]
        fn schema_is_locked() {
            let configure: fn($crate::lock::Lock) -> $crate::lock::Lock = $configure;
            let package = $crate::lock::Lock::new(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_MANIFEST_DIR"),
            );
            if let ::core::result::Result::Err(differs) = configure(package).check() {
                ::core::panic!("{differs}");
            }
        }
    };
}
