//! One page, served to the browser of the user who knows its address.
//!
//! Every user and program of this machine reaches the server, and the trace may be for its owner's
//! eyes alone. So the path begins with a secret, and any other path gets the same empty answer,
//! whatever else is right or wrong with the request.
//!
//! A page of another site can make a browser ask this server too, under a name that it directs to
//! this machine (DNS rebinding). So every request must name this machine in its header `Host`. And
//! no page of another origin can read the answer, but Perfetto's, if it is meant to.

use std::{
    fs::File,
    hint,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nettrace_views::model::hex;

use crate::failure::Failure;

/// The size of the head of a request.
const MOST_HEAD: u64 = 16 << 10;

/// The number of requests answered at a time. Browsers also connect without asking.
const MOST_AT_ONCE: usize = 32;

/// Time for a client to send its request, and to take the next bytes of the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The length of the secret, in bytes.
const SECRET: usize = 16;

/// The contents that the server serves.
#[derive(Debug)]
struct ServedPage {
    /// Where it is: `/SECRET/` and a name.
    path: String,
    body: AnswerBody,
    /// Whether it is a trace for Perfetto's page, not a page.
    for_perfetto: bool,
}

/// The bytes of the answer.
#[derive(Debug)]
enum AnswerBody {
    Page(Mutex<CurrentPage>),
    /// A file, and its size.
    File(File, u64),
}

/// A page, until a newer one takes its place.
#[derive(Debug)]
struct CurrentPage {
    bytes: Arc<Vec<u8>>,
    number: u64,
    /// Whether somebody has asked for it, or for its number, since that was looked at.
    is_asked_for: bool,
}

/// The page of a server that runs.
#[derive(Debug)]
pub(super) struct PageHandle(Arc<ServedPage>);

impl PageHandle {
    /// Whether somebody has asked for the page since this was last called.
    pub(super) fn was_asked_for(&self) -> bool {
        self.0.body.page().is_some_and(|mut page| std::mem::take(&mut page.is_asked_for))
    }

    /// Serves a newer page from now on.
    pub(super) fn replace(&self, number: u64, bytes: Vec<u8>) {
        if let Some(mut page) = self.0.body.page() {
            (page.bytes, page.number) = (Arc::new(bytes), number);
        }
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    served: Arc<ServedPage>,
}

impl Server {
    /// Serves a page at a port of this machine alone. 0 is any free port.
    pub(super) fn of_page(port: u16, page: Vec<u8>) -> Result<Self, Failure> {
        Self::bind(port, "", AnswerBody::of_page(page), false)
    }

    /// Serves a trace to Perfetto's page: a file, and its size.
    pub(super) fn of_trace(port: u16, trace: File, size: u64) -> Result<Self, Failure> {
        Self::bind(port, "trace.pftrace", AnswerBody::File(trace, size), true)
    }

    fn bind(port: u16, name: &str, body: AnswerBody, for_perfetto: bool) -> Result<Self, Failure> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret).map_err(|error| {
            Failure::Browser(format!("the system has no random numbers: {error}"))
        })?;
        let path = format!("/{}/{name}", hex(&secret));
        let served = ServedPage { path, body, for_perfetto };
        let fail = |error: io::Error| {
            Failure::Browser(match error.kind() {
                ErrorKind::AddrInUse => format!("port {port} is in use"),
                _ => format!("cannot listen at port {port}: {error}"),
            })
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address, served: Arc::new(served) })
    }

    /// The address, with the secret.
    pub(super) fn address(&self) -> String {
        format!("http://{}{}", self.address, self.served.path)
    }

    /// The page, to replace it while the server runs.
    pub(super) fn page(&self) -> PageHandle {
        PageHandle(Arc::clone(&self.served))
    }

    /// Does something on a thread of its own, while requests are answered.
    #[expect(clippy::disallowed_methods, reason = "a thread that shares nothing")]
    pub(super) fn meanwhile(&self, what: impl FnOnce() + Send + 'static) {
        std::thread::spawn(what);
    }

    /// Answers requests, each on a thread of its own, until the process ends.
    #[expect(clippy::disallowed_methods, reason = "threads that share nothing but what they send")]
    pub(super) fn run(self) -> Result<(), Failure> {
        let port = self.address.port();
        for stream in self.listener.incoming() {
            // The client may be gone, or descriptors are used up for the moment.
            let Ok(stream) = stream else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if Arc::strong_count(&self.served) > MOST_AT_ONCE {
                continue;
            }
            let served = Arc::clone(&self.served);
            std::thread::spawn(move || {
                // A client that goes away ends only its own answer.
                let _ = serve(&stream, &served, port);
            });
        }
        Ok(())
    }
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a thread that shares nothing")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Reads a request and answers it.
fn serve(stream: &TcpStream, served: &ServedPage, port: u16) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let timely = DeadlineReader { stream, until: Instant::now() + PATIENCE };
    let request = HttpRequest::read(BufReader::new(timely.take(MOST_HEAD)))?;
    let answer = request.answer(served, port);
    let mut out = io::BufWriter::new(stream);
    // One that is replaced meanwhile is sent to its end.
    let page = answer.body.and_then(AnswerBody::page).map(|mut page| {
        page.is_asked_for = true;
        (Arc::clone(&page.bytes), page.number)
    });
    let size = match (answer.body, &page) {
        (Some(AnswerBody::File(_, size)), _) => *size,
        (_, Some((bytes, _))) => bytes.len() as u64,
        _ => 0,
    };
    write!(
        out,
        "HTTP/1.1 {}\r\nContent-Length: {size}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n",
        answer.status
    )?;
    if answer.status == NOT_FOUND {
        // Nothing says what else there may be.
        write!(out, "\r\n")?;
        return out.flush();
    }
    let kind = if served.for_perfetto { "application/octet-stream" } else { "text/html" };
    write!(
        out,
        "Content-Type: {kind}; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
         Content-Security-Policy: frame-ancestors 'none'\r\n"
    )?;
    if served.for_perfetto {
        write!(
            out,
            "Access-Control-Allow-Origin: {}\r\nAccess-Control-Allow-Private-Network: true\r\n\
             Vary: Origin\r\n",
            super::PERFETTO
        )?;
    } else {
        write!(out, "Cross-Origin-Resource-Policy: same-origin\r\n")?;
    }
    if let Some((_, number)) = &page {
        write!(out, "ETag: \"{number}\"\r\n")?;
    }
    write!(out, "\r\n")?;
    match (answer.body, page) {
        _ if answer.is_head => {}
        (Some(AnswerBody::File(file, size)), _) => write_file(file, *size, &mut out)?,
        (_, Some((bytes, _))) => out.write_all(&bytes)?,
        _ => {}
    }
    out.flush()
}

/// A client's bytes, up to a moment. A client that sends one byte now and then keeps no thread.
struct DeadlineReader<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(buffer)
    }
}

/// The contents of a request.
#[derive(Debug, PartialEq, Eq)]
struct HttpRequest {
    method: String,
    target: String,
    /// The only header `Host`, if there is one and not several.
    host: Option<String>,
}

/// The answer to whoever does not know the address.
const NOT_FOUND: &str = "404 Not Found";

/// Whether two texts are the same. How long it takes says nothing of where they differ, only
/// whether they are as long as each other, which is no secret.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let difference = |all, (a, b): (&u8, &u8)| hint::black_box(all | (a ^ b));
    one.len() == other.len() && one.iter().zip(other).fold(0, difference) == 0
}

/// An answer: `None` as body for nothing.
struct HttpAnswer<'a> {
    status: &'static str,
    body: Option<&'a AnswerBody>,
    is_head: bool,
}

impl HttpRequest {
    fn read(mut head: impl BufRead) -> io::Result<Self> {
        let mut line = || -> io::Result<String> {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(line.trim_end_matches(['\r', '\n']).to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (method, target) = (word(), word());
        let mut hosts = Vec::new();
        loop {
            let header = line()?;
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':') {
                if name.eq_ignore_ascii_case("host") {
                    hosts.push(value.trim().to_ascii_lowercase());
                }
            }
        }
        let host = if hosts.len() == 1 { hosts.pop() } else { None };
        Ok(Self { method, target, host })
    }

    fn answer<'a>(&self, served: &'a ServedPage, port: u16) -> HttpAnswer<'a> {
        let refuse = |status| HttpAnswer { status, body: None, is_head: false };
        let is_here = |host: &str| {
            let name = host.strip_suffix(&format!(":{port}")).or((port == 80).then_some(host));
            matches!(name, Some("127.0.0.1" | "localhost"))
        };
        let is_known = is_same(self.target.as_bytes(), served.path.as_bytes());
        if !is_known || !self.host.as_deref().is_some_and(is_here) {
            return refuse(NOT_FOUND);
        }
        match &*self.method {
            "GET" | "HEAD" => {}
            "OPTIONS" if served.for_perfetto => return refuse("204 No Content"),
            _ => return refuse("405 Method Not Allowed"),
        }
        HttpAnswer { status: "200 OK", body: Some(&served.body), is_head: self.method == "HEAD" }
    }
}

impl AnswerBody {
    fn of_page(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(bytes);
        Self::Page(Mutex::new(CurrentPage { bytes, number: 1, is_asked_for: false }))
    }

    fn page(&self) -> Option<MutexGuard<'_, CurrentPage>> {
        match self {
            Self::Page(page) => Some(page.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::File(..) => None,
        }
    }
}

fn write_file(file: &File, size: u64, out: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < size {
        let count = read_at(file, &mut buffer, at)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&buffer[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// Reads at a position, because several threads read.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, buffer, at);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, buffer, at);
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read as _, Write as _},
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    use super::{
        AnswerBody, DeadlineReader, HttpRequest, NOT_FOUND, PATIENCE, ServedPage, is_same,
    };

    fn status(request: &str, for_perfetto: bool) -> Option<&'static str> {
        let path = "/5ec2e7/".to_owned();
        let served = ServedPage { path, body: AnswerBody::of_page(vec![1]), for_perfetto };
        Some(HttpRequest::read(request.as_bytes()).ok()?.answer(&served, 81).status)
    }

    #[test]
    fn only_this_machine_is_served() {
        let ask = |host: &str| status(&format!("GET /5ec2e7/ HTTP/1.1\r\n{host}\r\n"), false);
        let fine = Some("200 OK");
        assert_eq!(ask("Host: 127.0.0.1:81\r\n"), fine);
        assert_eq!(ask("accept: *\r\nHOST: LocalHost:81 \r\n"), fine);
        for host in [
            "",
            "Host: 127.0.0.1\r\n",
            "Host: 127.0.0.1:8\r\n",
            "Host: evil.example:81\r\n",
            "Host: evil.example\r\n",
            "Host: 127.0.0.1.evil.example:81\r\n",
            "Host: localhost:81\r\nHost: evil.example:81\r\n",
            "Host: x@localhost:81\r\n",
        ] {
            assert_eq!(ask(host), Some(NOT_FOUND), "{host}");
        }
        assert_eq!(status("", false), None);
        assert_eq!(status("GET /5ec2e7/ HTTP/1.1\r\nHost: localhost:81\r\n", false), None);
    }

    #[test]
    fn a_request_has_to_come_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET").unwrap();
        let stream = &listener.accept().unwrap().0;
        let mut byte = [0];
        let mut timely = DeadlineReader { stream, until: Instant::now() + PATIENCE };
        assert_eq!(timely.read(&mut byte).unwrap(), 1);
        // More bytes are there, and yet it is too late.
        timely.until = Instant::now();
        assert_eq!(timely.read(&mut byte).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn methods_and_paths() {
        let ask = |first: &str, for_perfetto| {
            status(&format!("{first} HTTP/1.1\r\nHost: localhost:81\r\n\r\n"), for_perfetto)
        };
        assert_eq!(ask("GET /5ec2e7/", false), Some("200 OK"));
        assert_eq!(ask("HEAD /5ec2e7/", false), Some("200 OK"));
        assert_eq!(ask("POST /5ec2e7/", false), Some("405 Method Not Allowed"));
        assert_eq!(ask("OPTIONS /5ec2e7/", false), Some("405 Method Not Allowed"));
        assert_eq!(ask("OPTIONS /5ec2e7/", true), Some("204 No Content"));
        // Who does not know the secret learns nothing, not even of a method.
        for target in ["/", "", "/5ec2e7", "/5ec2e8/", "/5EC2E7/", "/5ec2e7/x", "/etc/passwd"] {
            for method in ["GET", "HEAD", "POST", "OPTIONS", ""] {
                for for_perfetto in [false, true] {
                    let status = ask(&format!("{method} {target}"), for_perfetto);
                    assert_eq!(status, Some(NOT_FOUND), "{method} {target}");
                }
            }
        }
        assert!(is_same(b"", b"") && is_same(b"ab", b"ab"));
        assert!(!is_same(b"ab", b"ac") && !is_same(b"ab", b"bb") && !is_same(b"a", b"ab"));
    }
}
