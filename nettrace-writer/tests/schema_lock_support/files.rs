//! The file with all events: what is in it, and when a test writes it.

use std::{fs, path::Path};

use nettrace_writer::{
    Secret, TraceEvent, TraceSpan,
    lock::{Catalogue, FIRST_LINE, Lock},
    secret::Length,
    traced,
};
use testkit::process::this_program;

use crate::events_of;

mod shapes {
    use super::*;

    #[derive(TraceEvent)]
    #[trace_event(provider = "Shapes")]
    enum Job<'a> {
        #[trace_event(opcode = Start)]
        Began {
            id: u32,
            who: Option<Secret<&'a str, Length>>,
        },
        Ended(u8, [i128; 3], (bool, Secret<u8>)),
    }

    #[derive(TraceSpan)]
    #[trace_event(provider = "Shapes")]
    struct Load {
        page: u64,
    }

    #[traced(provider = "Shapes", mode = single, fields = [name])]
    fn single(name: &str) {}

    #[traced(provider = "Shapes")]
    async fn generic<T>(value: T) {
        let _ = value;
    }

    fn inner() {
        #[derive(TraceEvent)]
        #[trace_event(provider = "Shapes")]
        struct Within {
            list: Vec<String>,
        }
    }
}

/// Every kind of derived type is there, and no other. The golden file of the tests.
#[test]
fn every_derive_is_in_the_catalogue() {
    let text = events_of("files::shapes").to_string();
    assert_eq!(text, include_str!("shapes.schema"), "{text}");
    assert_eq!(text.parse::<Catalogue>().unwrap().to_string(), text);
}

/// Runs `locked` in a process of its own, and returns what it says.
fn locked(file: &Path, module: &str, wish: &str) -> Result<(), String> {
    let output = this_program()
        .args(["--ignored", "--exact", "files::locked_events", "--nocapture"])
        .env("LOCKED_FILE", file)
        .env("LOCKED_MODULE", module)
        .env("NETTRACE_SCHEMA", wish)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(said + &String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
#[ignore = "run by other tests in a process of its own"]
fn locked_events() {
    let module = std::env::var("LOCKED_MODULE").unwrap();
    let mut lock = Lock::new("nettrace-writer", env!("CARGO_MANIFEST_DIR"))
        .file(std::env::var("LOCKED_FILE").unwrap());
    for other in Catalogue::of_packages(&["nettrace-writer"]).events {
        if other.module != format!("schema_lock::{module}") {
            lock = lock.without(String::leak(other.module));
        }
    }
    if module == "level" {
        lock = lock.may_lack_events();
    }
    lock.check().unwrap();
}

#[test]
fn a_file_is_written_only_if_somebody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nettrace.schema");
    let text = || fs::read_to_string(&file).unwrap();

    let missing = locked(&file, "old", "").unwrap_err();
    assert!(missing.contains("NETTRACE_SCHEMA=accept cargo test"), "{missing}");
    assert!(!file.exists());
    locked(&file, "old", "accept").unwrap();
    let old = text();
    assert!(old.starts_with(FIRST_LINE) && old.contains("event Answered"), "{old}");
    locked(&file, "old", "").unwrap();

    // A note is no reason to fail.
    let meant = old.replace("The path.", "The whole path.");
    fs::write(&file, &meant).unwrap();
    locked(&file, "old", "").unwrap();
    assert_eq!(text(), meant);
    locked(&file, "old", "accept").unwrap();
    assert_eq!(text(), old);

    // The test's own events: another module is another place, which is a note.
    let appended = locked(&file, "appended", "").unwrap_err();
    assert!(appended.contains("compatible: Shop/Answered: field `cached`"), "{appended}");
    assert!(appended.contains("NETTRACE_SCHEMA=accept"), "{appended}");
    locked(&file, "appended", "accept").unwrap();
    locked(&file, "appended", "").unwrap();

    for wish in ["", "accept"] {
        let broken = locked(&file, "retyped", wish).unwrap_err();
        assert!(broken.contains("breaking: Shop/Answered: field `status`"), "{broken}");
        assert!(broken.contains("NETTRACE_SCHEMA=break"), "{broken}");
    }
    assert!(text().contains("field cached bool"));
    locked(&file, "retyped", "break").unwrap();
    locked(&file, "retyped", "").unwrap();

    // Events that a build lacks stay, if that is allowed.
    locked(&file, "files::shapes", "").unwrap_err();
    locked(&file, "files::shapes", "break").unwrap();
    locked(&file, "level", "").unwrap_err();
    locked(&file, "level", "accept").unwrap();
    locked(&file, "level", "").unwrap();
    assert!(text().contains("event JobBegan") && text().contains("event Answered"));

    fs::write(&file, format!("{FIRST_LINE}\nprovider Shop\nevent Answered\n  version ?\n"))
        .unwrap();
    let damaged = locked(&file, "level", "").unwrap_err();
    assert!(damaged.contains("line 4: `version ?`"), "{damaged}");
}

#[test]
fn a_package_without_events_is_told() {
    let lock = Lock::new("shop-front", env!("CARGO_MANIFEST_DIR"));
    let said = lock.check().unwrap_err();
    assert!(said.contains("`use shop_front as _;`"), "{said}");
}
