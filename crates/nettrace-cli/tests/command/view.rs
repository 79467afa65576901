//! Runs `nettrace view`, as a person and as a hostile page would use it.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use testkit::process::copy_program;

use crate::{
    program,
    spans::{START, event, place, stop, stream},
};

fn trace() -> Vec<u8> {
    let root = place(7, 1, 0);
    stream(vec![event(100, START, root), stop(300, root, 200, "ok")]).end()
}

/// A server that is running.
pub(crate) struct Running {
    child: Child,
    /// The address that it printed.
    address: String,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let file = folder.join("shop.nettrace");
        fs::write(&file, trace()).unwrap();
        Self::spawn(&[&["view"], args, &[file.to_str().unwrap()]].concat())
    }

    /// Runs the command with these arguments, which make it serve something.
    pub(crate) fn spawn(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// The host and port, and the path.
    fn place(&self) -> (&str, String) {
        let (host, path) = self.address.rsplit_once("http://").unwrap().1.split_once('/').unwrap();
        (host, format!("/{path}"))
    }

    /// Sends a request, in which PAGE is the path and HERE the host, and returns the answer's head
    /// and body.
    pub(crate) fn ask(&self, request: &str) -> (String, Vec<u8>) {
        let (host, path) = self.place();
        let mut stream = TcpStream::connect(host).unwrap();
        let request = request.replace("HERE", host).replace("PAGE", &path);
        stream.write_all(request.as_bytes()).unwrap();
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
    let (host, path) = running.place();
    let silent = TcpStream::connect(host).unwrap();
    let (head, body) = running.ask("GET PAGE HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nCross-Origin-Resource-Policy: same-origin"), "{head}");
    assert!(!head.contains("Access-Control"), "{head}");
    for header in ["Referrer-Policy: no-referrer", "Cache-Control: no-store"] {
        assert!(head.contains(&format!("\r\n{header}\r\n")), "{head}");
    }
    assert!(head.contains("\r\nContent-Security-Policy: frame-ancestors 'none'"), "{head}");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    assert!(body.starts_with(b"<!doctype html>"));
    let (head, body) = running.ask("HEAD PAGE HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.contains(&length) && body.is_empty(), "{head}");
    // 128 bits that the next server does not have.
    let secret = path.trim_matches('/');
    assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}");
    let other = Running::start(folder.path(), &["--serve"]);
    assert_ne!(other.place().1, path);
    // Who does not know the path gets one answer to everything, and so does a page of a name that
    // somebody directs to this machine.
    let wrong = secret.replace(|c| c == secret.chars().next_back().unwrap(), "x");
    let nothing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\
                   Connection: close";
    for request in [
        "GET / HTTP/1.1\r\nHost: HERE\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: HERE\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: HERE\r\n\r\n".to_owned(),
        "GET /../../etc/passwd HTTP/1.1\r\nHost: HERE\r\n\r\n".to_owned(),
        format!("GET /{wrong}/ HTTP/1.1\r\nHost: HERE\r\n\r\n"),
        format!("GET /{secret} HTTP/1.1\r\nHost: HERE\r\n\r\n"),
        format!("GET /?{secret} HTTP/1.1\r\nHost: HERE\r\n\r\n"),
        "GET PAGE HTTP/1.1\r\nHost: evil.example:80\r\n\r\n".to_owned(),
        "GET PAGE HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        let (head, body) = running.ask(&request);
        assert_eq!((&*head, body.len()), (nothing, 0), "{request}");
    }
    drop(silent);
}

#[test]
fn perfetto_fetches_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    // Any port here; Perfetto's page wants 9001, which another test may have.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running = Running::start(folder.path(), &["--perfetto", &format!("--serve={port}")]);
    let start = format!("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/");
    let rest = running.address.strip_prefix(&start).unwrap();
    assert!(rest.len() == 32 + 14 && rest.ends_with("/trace.pftrace"), "{rest}");
    let (head, body) = running.ask("GET /trace.pftrace HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 ") && !head.contains("Access-Control"), "{head}");
    assert!(body.is_empty());
    let (head, body) =
        running.ask("GET PAGE HTTP/1.1\r\nHost: HERE\r\nOrigin: https://ui.perfetto.dev\r\n\r\n");
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

/// A stand-in for the launcher of browsers, which writes down what it is asked to open. Returns
/// where.
#[cfg(target_os = "linux")]
fn launcher(folder: &Path) -> PathBuf {
    let [script, launcher, opened] = ["script", "xdg-open", "opened"].map(|name| folder.join(name));
    let (temporary, opened_text) = (folder.join("opening"), opened.display());
    let text =
        format!("#!/bin/sh\necho \"$1\" > '{0}'\nmv '{0}' '{opened_text}'\n", temporary.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&script, &launcher);
    opened
}

/// Every user can read the arguments of a browser. They have a file that only this user can read,
/// and not the secret.
#[test]
#[cfg(target_os = "linux")]
fn a_browser_gets_the_secret_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let opened = launcher(folder.path());
    let file = folder.path().join("shop.nettrace");
    fs::write(&file, trace()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(["view", "--perfetto"])
        .arg(&file)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut address, mut said) = (String::new(), String::new());
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    if address.is_empty() {
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert!(said.contains("port 9001 is in use"), "{said}");
        println!("skipped: {said}");
        return;
    }
    let running = Running { child, address: address.trim().to_owned() };
    let deadline = Instant::now() + Duration::from_secs(240);
    while !opened.exists() {
        assert!(Instant::now() < deadline, "nothing is opened");
        thread::sleep(Duration::from_millis(2));
    }
    let argument = fs::read_to_string(&opened).unwrap();
    let (_, path) = running.place();
    let secret = path.split('/').nth(1).unwrap();
    assert!(secret.len() == 32 && !argument.contains(secret), "{argument}");
    let page = Path::new(argument.trim());
    assert_eq!(fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains(&format!("content=\"0; url={}\"", running.address)), "{text}");
    // Nor does anything of the command itself have it that others can read.
    let process = format!("/proc/{}/cmdline", running.child.id());
    assert!(!String::from_utf8_lossy(&fs::read(process).unwrap()).contains(secret));
}

#[test]
#[cfg(target_os = "linux")]
fn it_opens_the_page_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let opened = launcher(folder.path());
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
