//! Runs `nettrace view`, as a person and as a hostile page would use it.
#![cfg(unix)]

mod program;
mod spans;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use spans::{START, event, place, stop, stream};
use testkit::process::copy_program;

fn trace() -> Vec<u8> {
    let root = place(7, 1, 0);
    stream(vec![event(100, START, root), stop(300, root, 200, "ok")]).end()
}

/// A server that is running.
struct Running {
    child: Child,
    /// The address that it printed.
    address: String,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let file = folder.join("shop.nettrace");
        fs::write(&file, trace()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .arg("view")
            .args(args)
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// Sends a request, and returns the answer's head and body.
    fn ask(&self, request: &str) -> (String, Vec<u8>) {
        let address = self.address.rsplit_once("http://").unwrap().1.split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.replace("HERE", address).as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(answer.len());
        let body = answer.get(end + 4..).unwrap_or_default().to_vec();
        (String::from_utf8_lossy(&answer[..end]).into_owned(), body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn it_serves_this_machine_alone() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path(), &["--serve"]);
    assert!(running.address.starts_with("http://127.0.0.1:"), "{}", running.address);
    // Browsers connect in advance and ask nothing.
    let address = running.address.trim_start_matches("http://").trim_end_matches('/');
    let silent = TcpStream::connect(address).unwrap();
    let (head, body) = running.ask("GET / HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nCross-Origin-Resource-Policy: same-origin"), "{head}");
    assert!(!head.contains("Access-Control"), "{head}");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    assert!(body.starts_with(b"<!doctype html>"));
    let (head, body) = running.ask("HEAD / HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.contains(&length) && body.is_empty(), "{head}");
    // A name that somebody directs to this machine.
    let (head, body) = running.ask("GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    assert!(body.is_empty());
    let (head, _) = running.ask("GET /../../etc/passwd HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    drop(silent);
}

#[test]
fn perfetto_fetches_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    // Any port here; Perfetto's page wants 9001, which another test may have.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running = Running::start(folder.path(), &["--perfetto", &format!("--serve={port}")]);
    let expected = format!("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/trace.pftrace");
    assert_eq!(running.address, expected);
    let (head, body) = running.ask(
        "GET /trace.pftrace HTTP/1.1\r\nHost: HERE\r\nOrigin: https://ui.perfetto.dev\r\n\r\n",
    );
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("\r\nAccess-Control-Allow-Origin: https://ui.perfetto.dev\r\n"),
        "{head}"
    );
    let converted = folder.path().join("shop.pftrace");
    let source = folder.path().join("shop.nettrace");
    let args = ["convert", source.to_str().unwrap(), converted.to_str().unwrap()];
    assert!(program::nettrace(&args, b"").status.success());
    assert_eq!(body, fs::read(converted).unwrap());
}

/// A stand-in for the launcher of browsers writes down what it is asked to open.
#[test]
#[cfg(target_os = "linux")]
fn it_opens_the_page_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let [script, launcher, opened] =
        ["script", "xdg-open", "opened"].map(|name| folder.path().join(name));
    fs::write(&script, format!("#!/bin/sh\necho \"$1\" > '{}'\n", opened.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&script, &launcher);
    let file = folder.path().join("my shop;.nettrace");
    fs::write(&file, trace()).unwrap();
    let view = |path: &str| {
        Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .arg("view")
            .arg(&file)
            .env("PATH", path)
            .env("TMPDIR", folder.path())
            .output()
            .unwrap()
    };
    let output = view(&format!("{}:/usr/bin:/bin", folder.path().display()));
    assert_eq!(output.status.code(), Some(0), "{}", program::stderr(&output));
    let path = program::stdout(&output).trim();
    assert_eq!(fs::read_to_string(&opened).unwrap().trim(), path);
    assert!(path.contains("/nettrace-my_shop_-") && path.ends_with(".html"), "{path}");
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read(path).unwrap().starts_with(b"<!doctype html>"));
    // Without a browser the page is there all the same.
    let output = view(folder.path().join("nothing").to_str().unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(program::stderr(&output).contains("--serve"), "{}", program::stderr(&output));
    assert!(Path::new(program::stdout(&output).trim()).exists());
}
