//! The answers that need neither a session nor a wait.

use std::{
    collections::hash_map::RandomState,
    env,
    ffi::OsString,
    hash::{BuildHasher as _, Hasher as _},
    process,
};

use nettrace_writer::companion::all_variables;

use crate::environment;
use crate::protocol::{self, InfoVersion, Refusal, code, put_text, put_u32, put_u64};

/// The version of .NET whose protocol this is, and what it really is. Tools compare the first part.
const VERSION: &str = concat!("10.0.0-rust.nettrace-diagnostics.", env!("CARGO_PKG_VERSION"));

/// The operating system, as .NET names it.
const OS: &str = if cfg!(target_os = "linux") {
    "Linux"
} else if cfg!(windows) {
    "Windows"
} else if cfg!(target_os = "macos") {
    "macOS"
} else {
    "Unknown"
};

/// The same in identifiers of platforms.
const PORTABLE_OS: &str = if cfg!(all(target_os = "linux", target_env = "musl")) {
    "linux-musl"
} else if cfg!(target_os = "linux") {
    "linux"
} else if cfg!(target_os = "macos") {
    "osx"
} else if cfg!(windows) {
    "win"
} else {
    "unix"
};

const ARCHITECTURE: &str = if cfg!(target_arch = "x86_64") {
    "x64"
} else if cfg!(target_arch = "x86") {
    "x86"
} else if cfg!(target_arch = "aarch64") {
    "arm64"
} else if cfg!(target_arch = "arm") {
    "arm32"
} else {
    "Unknown"
};

/// The most characters of a command line, so that the answer fits into a message.
const LONGEST_COMMAND_LINE: usize = 8_000;

/// Facts that are constant while a process listens.
#[derive(Debug)]
pub(crate) struct ProcessIdentity {
    /// Tells processes apart, also those with the same id.
    pub(crate) cookie: [u8; 16],
    command_line: String,
    program: String,
}

impl ProcessIdentity {
    pub(crate) fn new() -> Self {
        let program = env::current_exe().unwrap_or_default();
        let mut cookie = [0; 16];
        for half in cookie.chunks_exact_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
        Self {
            cookie,
            command_line: command_line(env::args_os()),
            program: program.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// The answer to ProcessInfo.
    pub(crate) fn info(&self, version: InfoVersion) -> Vec<u8> {
        let mut out = Vec::new();
        if version == InfoVersion::Three {
            put_u32(&mut out, 1); // of this payload
        }
        put_u64(&mut out, u64::from(process::id()));
        out.extend(self.cookie);
        put_text(&mut out, &self.command_line);
        put_text(&mut out, OS);
        put_text(&mut out, ARCHITECTURE);
        if version >= InfoVersion::Two {
            put_text(&mut out, &self.program);
            put_text(&mut out, VERSION);
        }
        if version >= InfoVersion::Three {
            put_text(&mut out, &format!("{PORTABLE_OS}-{ARCHITECTURE}"));
        }
        protocol::ok(&out)
    }
}

/// The arguments, with quotes around those that have spaces, as .NET writes them.
fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let mut line = String::new();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        if !line.is_empty() {
            line.push(' ');
        }
        match argument.contains(char::is_whitespace) {
            true => line.extend(["\"", &argument, "\""]),
            false => line.push_str(&argument),
        }
    }
    match line.char_indices().nth(LONGEST_COMMAND_LINE) {
        Some((end, _)) => line[..end].to_owned(),
        None => line,
    }
}

/// The answer to ProcessEnvironment: a message with the size of what follows it.
pub(crate) fn environment() -> Vec<u8> {
    let variables: Vec<_> = all_variables().collect();
    let mut following = Vec::new();
    put_u32(&mut following, variables.len() as u32);
    for (name, value) in &variables {
        put_text(
            &mut following,
            &format!("{}={}", name.to_string_lossy(), value.to_string_lossy()),
        );
    }
    let mut payload = Vec::new();
    put_u32(&mut payload, following.len() as u32);
    payload.extend([0, 0]); // reserved
    let mut answer = protocol::ok(&payload);
    answer.append(&mut following);
    answer
}

/// The answer to SetEnvironmentVariable.
///
/// Changing the environment is unsound in Rust while another thread may read it, and here other
/// threads run. A table of this crate's own was rejected: nothing would read it, so the answer
/// would be a lie.
pub(crate) fn set_environment_variable() -> Refusal {
    Refusal::new(
        code::UNKNOWN_COMMAND,
        "the environment of this process cannot change: other threads may be reading it",
    )
}

/// The answer to ResumeRuntime.
pub(crate) fn resumed() -> Vec<u8> {
    protocol::ok(&[0; 4])
}

/// Changes what the session of the environment records.
pub(crate) fn select(filters: &str) -> Vec<u8> {
    match environment::select(filters) {
        Ok(unmatched) => protocol::text(&unmatched),
        Err(refusal) => refusal.message(),
    }
}

/// The answer to a client that names a session which is not there.
pub(crate) fn no_session(id: u64) -> Vec<u8> {
    Refusal::new(code::INVALID_ARGUMENT, format!("there is no session {id}")).message()
}

pub(crate) fn unknown(set: u8, id: u8) -> Refusal {
    let words = format!("a Rust process does not know the command {set:#04x} {id:#04x}");
    Refusal::new(code::UNKNOWN_COMMAND, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_quoted_and_bounded() {
        let line = |arguments: &[&str]| command_line(arguments.iter().map(OsString::from));
        assert_eq!(
            line(&["/bin/shop", "--name", "two words", ""]),
            "/bin/shop --name \"two words\" "
        );
        let long = "ä".repeat(100_000);
        assert_eq!(line(&["shop", &long]).chars().count(), LONGEST_COMMAND_LINE);
    }
}
