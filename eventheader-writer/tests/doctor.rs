//! Runs `eventheader doctor` as a user does, on any machine.

use std::process::{Command, Output};

use eventheader_writer::{Availability, doctor};

fn eventheader(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eventheader")).args(arguments).output().unwrap()
}

#[test]
fn says_what_the_library_finds() {
    let found = doctor();
    let output = eventheader(&["doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(if found.is_ready() { 0 } else { 1 }), "{text}");
    let (first, rest) = text.split_once('\n').unwrap();
    let answer = if found.is_ready() { "yes" } else { "no" };
    assert!(first.ends_with(answer), "{text}");
    assert!(rest.contains(&found.availability.explanation()), "{text}");
    // A problem is reported with its remedy.
    let remedy = match found.availability {
        Availability::NoTracefs => "mount -t tracefs",
        Availability::NoTracing | Availability::NoUserEvents { .. } => "CONFIG_USER_EVENTS=y",
        Availability::NotPermitted { .. } => "run as root",
        Availability::Ready { .. } => "user_events_data",
        _ => "",
    };
    assert!(text.contains(remedy), "{text}");
    assert!(found.is_ready() || found.command().is_none() || !found.tracepoints.is_empty());
}

#[test]
fn a_file_that_cannot_be_decoded_is_named() {
    let output = eventheader(&["decode", "/no/such/perf.data"]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    let expected = if cfg!(feature = "decode") {
        "/no/such/perf.data: No such file"
    } else {
        "--features decode"
    };
    assert!(words.contains(expected), "{words}");
    // A file of another kind. The program itself is one.
    let output = eventheader(&["decode", env!("CARGO_BIN_EXE_eventheader")]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    let expected = if cfg!(feature = "decode") {
        "this is no file that `perf record` wrote"
    } else {
        "--features decode"
    };
    assert!(words.contains(expected), "{words}");
}

#[test]
fn explains_its_use() {
    let help = eventheader(&["--help"]);
    assert!(help.status.success());
    let usage = String::from_utf8(help.stdout).unwrap();
    assert!(usage.contains("usage: eventheader doctor"), "{usage}");
    for command in ["doctor", "decode"] {
        let output = eventheader(&[command, "--help"]);
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), usage);
    }
    for mistake in [&[][..], &["doktor"], &["doctor", "now"]] {
        let output = eventheader(mistake);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), usage);
        assert!(output.stdout.is_empty());
    }
}
