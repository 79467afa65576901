//! `--format v5` and `--format v4`: what holds of version 6 holds of the older ones, in the reference
//! reader, in ours and in `dotnet-trace`.

mod support;

use std::process::{Command, Stdio};

use crate::support::{
    ALL_TYPES, DIRSCAN, KILLME, STREAM, STRESS, assert_holds, assert_same_events, directory,
    dotnet_trace_opens, run,
};

const FORMATS: [&str; 2] = ["v5", "v4"];

#[test]
fn every_example_writes_what_every_reader_opens() {
    let directory = directory();
    let stress = ["--threads", "4", "--seconds", "0.02", "--event", "string"];
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let examples: [(&str, &[&str]); 5] = [
        (ALL_TYPES, &[]),
        (ALL_TYPES, &["--portable"]),
        (DIRSCAN, &[source]),
        (STRESS, &stress),
        (KILLME, &["--seconds", "0.1", "--rate", "20000"]),
    ];
    for format in FORMATS {
        for (position, (program, args)) in examples.iter().enumerate() {
            let trace = directory.path().join(format!("{position}.{format}.nettrace"));
            let args = [args, &["--format", format][..]].concat();
            let ran = run(program, &args, &trace).well().balanced();
            assert!(ran.number("written") > 0);
            assert_holds(&trace, ran.number("written"), ran.number("dropped"));
            assert_same_events(&trace, ran.number("written"));
            dotnet_trace_opens(&trace);
        }
    }
}

#[test]
fn a_pipe_gets_the_same_bytes() {
    let directory = directory();
    for format in FORMATS {
        let trace = directory.path().join(format);
        let args = ["--seconds", "0.1", "--format", format];
        let output = Command::new(STREAM).args(args).output().unwrap();
        assert!(output.status.success());
        std::fs::write(&trace, output.stdout).unwrap();
        let events = support::own_events(&trace).len() as u64;
        assert!(events > 0);
        assert_holds(&trace, events, 0);
    }
}

#[test]
fn starved_threads_are_accounted_for() {
    let directory = directory();
    let trace = directory.path().join("stress.nettrace");
    let starved =
        ["--threads", "64", "--budget", "1048576", "--seconds", "0.3", "--overwrite", "--format"];
    for format in FORMATS {
        for more in [&[][..], &["--churn"], &["--event", "string"]] {
            let args = [&starved[..], &[format], more].concat();
            let ran = run(STRESS, &args, &trace).well().balanced();
            assert_holds(&trace, ran.number("written"), ran.number("dropped"));
        }
    }
}

#[cfg(unix)]
#[test]
fn a_killed_program_leaves_a_complete_file() {
    let directory = directory();
    for format in FORMATS {
        for kill in 0..10 {
            let trace = directory.path().join(format!("{kill}.{format}.nettrace"));
            let mut program = Command::new(KILLME)
                .args(["--flush-interval", "1", "--rate", "1000000", "--format", format, "--out"])
                .arg(&trace)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(40 + 17 * kill));
            program.kill().unwrap();
            program.wait().unwrap();
            if trace.exists() {
                let events = support::own_events(&trace).len() as u64;
                assert_holds(&trace, events, 0);
            }
        }
    }
}
