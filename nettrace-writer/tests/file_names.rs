//! Names of files: placeholders, replacing what exists, and how a refusal reads.

use std::{fs, io::ErrorKind, path::Path, process};

use nettrace_reader::verify;
use nettrace_writer::{
    Emit, Error, FileNameError, Session, TraceEvent,
    sink::{MemorySink, RotationOptions},
};

/// Each test has a provider of its own: sessions hear all threads of the process.
#[derive(TraceEvent)]
#[trace_event(provider = "File-Names-Rotated")]
struct Rotated {
    run: u32,
}

#[derive(TraceEvent)]
#[trace_event(provider = "File-Names-Again")]
struct Again {
    run: u32,
}

/// The names in a directory, in their order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn placeholders_get_their_values_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a-{pid}-{{b}}-{exe}.nettrace");
    let session = Session::builder().file(&path).start().unwrap();
    // The name of a test program ends with a hash.
    let exe = std::env::current_exe().unwrap();
    let exe = exe.file_stem().unwrap().to_str().unwrap();
    assert!(exe.starts_with("file_names-"), "{exe}");
    let name = format!("a-{}-{{b}}-{exe}.nettrace", process::id());
    assert_eq!(session.path(), Some(&*directory.path().join(&name)));
    assert_eq!(names(directory.path()), [name]);
    session.finish().unwrap();
}

#[test]
fn the_time_is_that_of_the_start_in_utc() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("{time}.nettrace");
    let session = Session::builder().file(path).start().unwrap();
    let name = session.path().unwrap().file_name().unwrap().to_str().unwrap();
    let digits: String = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(digits, "00000000T000000Z.nettrace");
    session.finish().unwrap();
}

#[test]
fn what_has_no_value_is_refused_and_makes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    for (name, message) in [
        (
            "a-{date}.nettrace",
            "the file name `a-{date}.nettrace` has `{date}`, but only `{pid}`, `{time}` and \
             `{exe}` have a meaning; write `{{` and `}}` for braces",
        ),
        (
            "a-{pid.nettrace",
            "the file name `a-{pid.nettrace` has a single `{`; write `{{` and `}}` for braces \
             that are part of the name",
        ),
        (
            "a-pid}.nettrace",
            "the file name `a-pid}.nettrace` has a single `}`; write `{{` and `}}` for braces \
             that are part of the name",
        ),
    ] {
        let error = Session::builder().file(directory.path().join(name)).start().unwrap_err();
        assert!(matches!(error, Error::FileName(_)), "{error}");
        assert_eq!(error.to_string(), message);

        let error = RotationOptions::new(directory.path(), name).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), message);
        let inner = error.get_ref().unwrap().downcast_ref::<FileNameError>();
        assert!(inner.is_some(), "{error:?}");
    }
    assert!(names(directory.path()).is_empty());
}

#[test]
fn rotated_files_share_their_values() {
    let directory = tempfile::tempdir().unwrap();
    let files = RotationOptions::new(directory.path(), "a-{pid}").file_size(2_000).build().unwrap();
    let session = Session::builder().sink(files).provider("File-Names-Rotated").start().unwrap();
    assert_eq!(session.path(), None, "a sink knows its own path");
    for run in 0..400 {
        Rotated { run }.emit();
        if run % 100 == 99 {
            session.flush().unwrap();
        }
    }
    session.finish().unwrap();
    let names = names(directory.path());
    assert!(names.len() > 1, "{names:?}");
    for (name, number) in names.iter().zip(1..) {
        assert_eq!(*name, format!("a-{}-{number:08}.nettrace", process::id()));
    }
}

#[test]
fn a_second_run_replaces_the_file_if_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("service.nettrace");
    for run in 1..=2 {
        let builder = Session::builder().overwrite(true).file(&path).provider("File-Names-Again");
        let session = builder.start().unwrap();
        (0..run).for_each(|run| Again { run }.emit());
        session.finish().unwrap();
        let report = verify(fs::File::open(&path).unwrap()).unwrap();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.events, u64::from(run));
    }

    // What `fn main() -> Result<(), Error>` prints is what `Display` says: a sentence with the
    // path.
    let before = fs::read(&path).unwrap();
    let error = Session::builder().file(&path).start().unwrap_err();
    let expected = format!(
        "cannot create the trace {}: it exists; choose another name, or allow it with \
         `overwrite(true)` or `keep_previous()`",
        path.display()
    );
    assert_eq!(format!("{error:?}"), expected);
    assert_eq!(error.to_string(), expected);
    assert!(matches!(&error, Error::Sink(cause) if cause.kind() == ErrorKind::AlreadyExists));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_path_without_a_directory_or_name_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let says =
        |path: &std::path::Path| Session::builder().file(path).start().unwrap_err().to_string();
    let path = directory.path().join("absent").join("a.nettrace");
    let expected =
        format!("cannot create the trace {}: cannot open its directory: ", path.display());
    assert!(says(&path).starts_with(&expected), "{}", says(&path));
    let path = directory.path().join("{pid}").join("a.nettrace");
    let expected = format!(
        "the directory of `{}` has `{{pid}}`, but only the file name can have placeholders",
        path.display()
    );
    assert_eq!(says(&path), expected);
    let path = directory.path().join("absent").join("");
    let expected = "the path does not end with a file name";
    assert!(says(&path).ends_with(expected), "{}", says(&path));
    let expected = "cannot create the trace with an empty path: ";
    assert!(says("".as_ref()).starts_with(expected), "{}", says("".as_ref()));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn overwriting_is_for_a_file_alone() {
    let memory = MemorySink::new();
    let error = Session::builder().sink(memory.clone()).overwrite(true).start().unwrap_err();
    assert!(matches!(error, Error::OverwriteWithoutFile), "{error}");
    assert!(memory.is_empty());
}
