//! Runs the service of the guide as a user does.

#![cfg(unix)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::support::counts;

/// A running service and its address.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

/// Also runs when a test fails.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(directory: &std::path::Path, filters: &str) -> Running {
    let mut child = Command::new(env!("CARGO_BIN_EXE_guide"))
        .current_dir(directory)
        .env("LISTEN", "127.0.0.1:0")
        .env("NETTRACE_PROVIDERS", filters)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
    Running { child, stdout, address }
}

impl Running {
    fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Terminates the service. Returns the rest of its standard output, and its standard error.
    fn stop(mut self) -> (String, String) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success());
        let (mut out, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {out}{errors}");
        (out, errors)
    }
}

#[test]
fn a_service_that_is_terminated_has_all_its_events() {
    for (filters, answered, read) in [("", 10, 8), ("contoso-checkout=info", 10, 0)] {
        let directory = tempfile::tempdir().unwrap();
        let service = start(directory.path(), filters);
        for user in 0..8 {
            let answer = service.ask(&format!("/cart/{user}"));
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        for path in ["/cart/nobody", "/nothing"] {
            assert!(service.ask(path).starts_with("HTTP/1.1 4"));
        }
        let (out, errors) = service.stop();
        assert!(out.contains(&format!("{} events written, 0 dropped", answered + read)), "{out}");
        assert_eq!(errors, "");
        let mut files = fs::read_dir(directory.path()).unwrap();
        let trace = files.next().expect("a trace").unwrap().path();
        assert!(files.next().is_none());
        let counts = counts(&trace);
        let of = |name: &str| counts.get(name).copied().unwrap_or_default();
        assert_eq!((of("Answered"), of("CartRead")), (answered, read));
        assert_eq!(counts.values().sum::<u64>(), answered + read);
    }
}

#[test]
fn a_filter_of_the_environment_that_selects_nothing_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (_, errors) = start(directory.path(), "Contoso-Chekout").stop();
    assert!(errors.contains("known are Contoso-Checkout"), "{errors}");
}
