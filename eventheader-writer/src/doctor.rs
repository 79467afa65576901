//! Finds out whether this machine can take tracepoints, why not if it cannot, and who listens.

use std::{fmt, fs, io, path::PathBuf};

use crate::tracefs::{self, Availability, STATUS};

/// The command that shows the fields of events; `perf script` cannot.
const DECODE: &str = "eventheader decode perf.data";

/// The result of [`doctor`].
///
/// ```
/// let diagnosis = eventheader_writer::doctor();
/// for tracepoint in &diagnosis.tracepoints {
///     println!("{} has {} listeners", tracepoint.name, tracepoint.listeners.len());
/// }
/// // As text it has the whole diagnosis, and what to do.
/// let text = diagnosis.to_string();
/// assert!(text.starts_with("Can this machine take tracepoints from this user?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The version that the kernel reports.
    pub kernel: Option<String>,
    /// Whether the running kernel has `CONFIG_USER_EVENTS`; `None` if unknown.
    pub config: Option<bool>,
    /// The folders where tracefs is mounted, or would be.
    pub folders: Vec<PathBuf>,
    /// Whether this process can register tracepoints.
    pub availability: Availability,
    /// Every tracepoint of the machine that is registered through `user_events`.
    pub tracepoints: Vec<Listed>,
    /// Why the tracepoints could not be listed, if so.
    pub not_listed: Option<String>,
}

/// A tracepoint of any process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its name, without `user_events:`.
    pub name: String,
    /// Its listeners, as the kernel names them: `perf`, `ftrace`. Empty if nobody listens.
    pub listeners: Vec<String>,
}

/// Examines the machine. It opens and reads files, and registers nothing.
///
/// ```
/// let diagnosis = eventheader_writer::doctor();
/// if !diagnosis.is_ready() {
///     println!("{diagnosis}");
/// }
/// ```
#[must_use]
pub fn doctor() -> Diagnosis {
    let availability = match tracefs::open() {
        Ok((_, path)) => Availability::Ready { path },
        Err(problem) => problem,
    };
    let is_linux = cfg!(target_os = "linux");
    let folders = if is_linux { tracefs::folders() } else { Vec::new() };
    let (tracepoints, not_listed) = match list(&folders) {
        Ok(tracepoints) => (tracepoints, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let kernel = kernel.map(|version| version.trim().to_owned());
    let config = configured(&availability, kernel.as_deref());
    Diagnosis { kernel, config, folders, availability, tracepoints, not_listed }
}

impl Diagnosis {
    /// Whether this process can write tracepoints.
    ///
    /// ```
    /// use eventheader_writer::{Availability, doctor};
    ///
    /// let diagnosis = doctor();
    /// let ready = matches!(diagnosis.availability, Availability::Ready { .. });
    /// assert_eq!(diagnosis.is_ready(), ready);
    /// ```
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.availability, Availability::Ready { .. })
    }

    /// The command that records every registered tracepoint; `None` if none is registered. Another
    /// process may have registered a name that means something to a shell: such are left out.
    ///
    /// ```
    /// if let Some(command) = eventheader_writer::doctor().command() {
    ///     println!("To record everything: {command}");
    /// }
    /// ```
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let is_plain = |name: &str| name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        let names = self.tracepoints.iter().map(|one| &*one.name).filter(|name| is_plain(name));
        let events: Vec<String> = names.map(|name| format!("-e user_events:{name}")).collect();
        (!events.is_empty()).then(|| format!("perf record -a {}", events.join(" ")))
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = if self.is_ready() { "yes" } else { "no" };
        writeln!(f, "Can this machine take tracepoints from this user?  {yes}")?;
        writeln!(f, "  {}", self.availability.explanation())?;
        match &self.kernel {
            Some(kernel) => writeln!(f, "kernel:              {kernel} (6.4 or later is needed)")?,
            None => writeln!(f, "kernel:              not Linux")?,
        }
        let config = match self.config {
            Some(true) => "yes",
            Some(false) => "no: another kernel is needed",
            None => "not known: the kernel does not show its configuration to this user",
        };
        writeln!(f, "CONFIG_USER_EVENTS:  {config}")?;
        if let Some(reason) = &self.not_listed {
            return writeln!(f, "tracepoints:         not known: {reason}");
        }
        writeln!(f, "tracepoints:         {}", self.tracepoints.len())?;
        for one in &self.tracepoints {
            let who = match one.listeners.as_slice() {
                [] => "nobody listens".to_owned(),
                who => format!("{} listens", who.join(" and ")),
            };
            writeln!(f, "  {}  ({})", one.name.escape_debug(), who.escape_debug())?;
        }
        match self.command() {
            Some(command) => writeln!(f, "record them:         {command}")?,
            None if !self.tracepoints.is_empty() => {}
            None => writeln!(
                f,
                "No tracepoint is registered: they appear when a program registers them, at its \
                 start or with the first event of a type."
            )?,
        }
        writeln!(f, "look at them:        perf script; with all fields: {DECODE}")
    }
}

fn list(folders: &[PathBuf]) -> Result<Vec<Listed>, String> {
    let mut reason = "there is no user_events_status".to_owned();
    for folder in folders {
        let path = folder.join(STATUS);
        match fs::read(&path) {
            Ok(text) => return Ok(listed(&String::from_utf8_lossy(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => reason = format!("{}: {error}", path.display()),
        }
    }
    Err(reason)
}

/// Parses the lines of the kernel's file: `name`, or `name # Used by who who`, up to the blank line
/// before the counts.
fn listed(text: &str) -> Vec<Listed> {
    let of_line = |line: &str| {
        let (name, comment) = line.split_once('#').unwrap_or((line, ""));
        let listeners = comment.trim().strip_prefix("Used by").unwrap_or_default();
        Listed {
            name: name.trim().to_owned(),
            listeners: listeners.split_whitespace().map(str::to_owned).collect(),
        }
    };
    text.lines().take_while(|line| !line.trim().is_empty()).map(of_line).collect()
}

/// Whether the kernel has user_events, as far as files show: the mounted tracefs, or a copy of the
/// configuration in the usual places. (`/proc/config.gz` is compressed and not read; if it says
/// yes, tracefs shows that too once it is mounted.)
fn configured(availability: &Availability, kernel: Option<&str>) -> Option<bool> {
    match availability {
        Availability::Ready { .. } => return Some(true),
        Availability::NoTracing | Availability::NoUserEvents { .. } | Availability::Unsupported => {
            return Some(false);
        }
        _ => {}
    }
    let kernel = kernel?;
    let text = [format!("/boot/config-{kernel}"), format!("/lib/modules/{kernel}/config")]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    Some(text.lines().any(|line| line == "CONFIG_USER_EVENTS=y"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let text = "Contoso_L4K1 # Used by perf ftrace\nContoso_L5K0\n\nActive: 2\nBusy: 1\n";
        let expected = [("Contoso_L4K1", &["perf", "ftrace"][..]), ("Contoso_L5K0", &[])];
        let found = listed(text);
        let found: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.listeners.as_slice())).collect();
        for ((name, listeners), (found_name, found_listeners)) in expected.iter().zip(&found) {
            assert_eq!(name, found_name);
            assert_eq!(listeners, found_listeners);
        }
        assert_eq!(found.len(), 2);
        assert!(listed("\nActive: 0\nBusy: 0\n").is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        let diagnosis = Diagnosis {
            kernel: Some("6.1.0".to_owned()),
            config: None,
            folders: Vec::new(),
            availability: Availability::NoTracefs,
            tracepoints: vec![Listed { name: "A_L1K0".to_owned(), listeners: Vec::new() }],
            not_listed: None,
        };
        let text = diagnosis.to_string();
        assert!(text.contains("mount -t tracefs"), "{text}");
        assert!(text.contains("A_L1K0  (nobody listens)"), "{text}");
        assert!(text.contains("perf record -a -e user_events:A_L1K0"), "{text}");
        assert!(text.contains(DECODE), "{text}");
    }

    #[test]
    fn names_of_other_processes_are_harmless() {
        let text = "A_L1K0\n\u{1b}]0;x\u{7}\u{202e} # Used by \u{9b}2J\n;reboot;\n$(reboot)\n";
        let diagnosis = Diagnosis {
            kernel: None,
            config: None,
            folders: Vec::new(),
            availability: Availability::NoTracefs,
            tracepoints: listed(text),
            not_listed: None,
        };
        let text = diagnosis.to_string();
        let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(hidden) && text.contains("\\u{1b}]0;x"), "{text:?}");
        assert_eq!(diagnosis.command().unwrap(), "perf record -a -e user_events:A_L1K0");
    }
}
