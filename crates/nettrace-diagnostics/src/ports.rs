//! The diagnostics ports that the environment names: sockets that this process connects to, where
//! a tool listens, or makes in addition to its own.
//!
//! A connection that this process has opened begins with a message of 34 bytes, which says whose it
//! is. Then it is like any other: the tool sends a command, or nothing for as long as it likes. As
//! soon as it has begun to, this process opens the next one.

use std::{path::PathBuf, process, time::Duration};

use nettrace_writer::companion::variable;

use crate::{
    protocol,
    standard_error::say,
    sync::{Mutex, lock},
};

/// Pauses between attempts to connect, at first and at most. .NET waits for half a second at most.
/// On Linux a watch tells of a tool in nearly all cases, and at once.
pub(crate) const DELAYS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// The first bytes of an advertisement.
const MAGIC: [u8; 8] = *b"ADVR_V1\0";

/// A port of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) path: PathBuf,
    /// Whether this process listens there. Otherwise it connects.
    pub(crate) listens: bool,
    /// Whether [`listen`](crate::listen) waits until somebody resumes the process here.
    pub(crate) suspends: bool,
}

/// The ports that the environment names, and whether the process's own socket suspends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) ports: Vec<Port>,
    pub(crate) own_suspends: bool,
}

/// The ports of the environment. The first listener of a process gets them, and any other none.
pub(crate) fn take() -> Ports {
    static TAKEN_BY: Mutex<Option<u32>> = Mutex::new(None);
    if lock(&TAKEN_BY).replace(process::id()) == Some(process::id()) {
        return Ports::default();
    }
    let variable = |name: &str| Some(variable(name)?.to_string_lossy().into_owned());
    let mut ports = Ports::default();
    if let Some(text) = variable("DOTNET_DiagnosticPorts") {
        ports.ports = parse(&text, &mut |problem| {
            say(format_args!("DOTNET_DiagnosticPorts={text}: {problem}"));
        });
    }
    match variable("DOTNET_DefaultDiagnosticPortSuspend").as_deref().map(str::trim) {
        None | Some("" | "0") => {}
        Some("1") => ports.own_suspends = true,
        Some(value) => {
            say(format_args!("DOTNET_DefaultDiagnosticPortSuspend={value}: write 0 or 1"));
        }
    }
    ports
}

/// Reads `PATH[,connect|,listen][,suspend|,nosuspend];…`. Ports connect and suspend by default, as
/// in .NET.
fn parse(text: &str, problem: &mut dyn FnMut(String)) -> Vec<Port> {
    let mut ports = Vec::new();
    for text in text.split(';').map(str::trim).filter(|text| !text.is_empty()) {
        let mut words = text.split(',').map(str::trim);
        let path = PathBuf::from(words.next().unwrap_or_default());
        if path.as_os_str().is_empty() {
            problem(format!("`{text}` has no path, and is left out"));
            continue;
        }
        let mut port = Port { path, listens: false, suspends: true };
        for word in words {
            match word {
                "" => {}
                _ if word.eq_ignore_ascii_case("connect") => port.listens = false,
                _ if word.eq_ignore_ascii_case("listen") => port.listens = true,
                _ if word.eq_ignore_ascii_case("suspend") => port.suspends = true,
                _ if word.eq_ignore_ascii_case("nosuspend") => port.suspends = false,
                _ => problem(format!(
                    "`{word}` is ignored; write connect, listen, suspend or nosuspend"
                )),
            }
        }
        ports.push(port);
    }
    ports
}

/// Checks the properties of any text as a list of ports.
#[cfg(feature = "__fuzzing")]
pub(crate) fn check(text: &str) {
    for port in parse(text, &mut |problem| assert!(!problem.is_empty())) {
        assert!(text.contains(&*port.path.to_string_lossy()));
    }
}

/// The pause before the next attempt to connect. It is longer each time.
#[derive(Debug)]
pub(crate) struct Delay(Duration);

impl Delay {
    pub(crate) fn new() -> Self {
        Self(DELAYS.0)
    }

    pub(crate) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 5 / 4).min(DELAYS.1);
        now
    }
}

/// The first bytes of a connection that this process has opened.
pub(crate) fn advertisement(cookie: [u8; 16], pid: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(34);
    out.extend(MAGIC);
    out.extend(cookie);
    protocol::put_u64(&mut out, u64::from(pid));
    out.extend([0; 2]); // reserved
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_connect_and_suspend_by_default() {
        let mut problems = Vec::new();
        let text = "/a;/b,nosuspend; /c , LISTEN , suspend ;;/d,listen,nosuspend,connect;,suspend;\
                    /e,nosupend";
        let ports = parse(text, &mut |problem| problems.push(problem));
        let port = |path: &str, listens, suspends| Port { path: path.into(), listens, suspends };
        let expected = [
            port("/a", false, true),
            port("/b", false, false),
            port("/c", true, true),
            port("/d", false, false),
            port("/e", false, true),
        ];
        assert_eq!(ports, expected);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("`,suspend` has no path"), "{problems:?}");
        assert!(problems[1].contains("`nosupend` is ignored"), "{problems:?}");
    }

    #[test]
    fn an_advertisement_has_34_bytes() {
        let bytes = advertisement([7; 16], 0x0102);
        assert_eq!(bytes.len(), 34);
        assert_eq!(bytes[..8], *b"ADVR_V1\0");
        assert_eq!(bytes[8..24], [7; 16]);
        assert_eq!(bytes[24..], [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
