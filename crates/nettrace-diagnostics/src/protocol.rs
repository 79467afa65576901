//! The messages of the .NET diagnostics IPC protocol: bytes to requests, answers to bytes. There is
//! no input or output here.
//!
//! A message is a header of 20 bytes and a payload. The header has a magic text, the size of the
//! whole message in 16 bits, and two bytes that name the command. So a message has at most 65,535
//! bytes. Numbers are little-endian. A text is the number of its UTF-16 units, with a zero at the
//! end, and then these units.

mod collect;
mod read;

pub(crate) use self::{
    collect::{Buffering, Collect, EventFilter, Format, Provider, RUNDOWN, SessionType},
    read::{Malformed, Reader},
};

/// The first bytes of every message.
pub(crate) const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";
/// The number of bytes in a header.
pub(crate) const HEADER: usize = 20;

/// The first of the two bytes that name a command.
pub(crate) mod set {
    pub(crate) const EVENT_PIPE: u8 = 2;
    pub(crate) const PROCESS: u8 = 4;
    /// The set of commands that only processes of this crate understand. No runtime of .NET has
    /// this set.
    pub(crate) const OWN: u8 = 0xe0;
    pub(crate) const SERVER: u8 = 0xff;
}

/// The second byte of commands with [`set::OWN`].
pub(crate) mod own {
    /// Its payload is a text.
    pub(crate) const SELECT: u8 = 1;
    /// Its payload is the id of a session.
    pub(crate) const UNMATCHED: u8 = 2;
}

/// The second byte of commands with [`set::EVENT_PIPE`].
pub(crate) mod event_pipe {
    pub(crate) const STOP_TRACING: u8 = 1;
    /// The first version of this command. The others follow.
    pub(crate) const COLLECT_TRACING: u8 = 2;
    pub(crate) const COLLECT_TRACING_6: u8 = 7;
}

/// The second byte of commands with [`set::PROCESS`].
pub(crate) mod process {
    pub(crate) const INFO: u8 = 0;
    pub(crate) const RESUME_RUNTIME: u8 = 1;
    pub(crate) const ENVIRONMENT: u8 = 2;
    pub(crate) const SET_ENVIRONMENT_VARIABLE: u8 = 3;
    pub(crate) const INFO_2: u8 = 4;
    pub(crate) const INFO_3: u8 = 8;
}

/// The second byte of answers, whose first is [`set::SERVER`].
pub(crate) mod server {
    pub(crate) const OK: u8 = 0;
    pub(crate) const ERROR: u8 = 0xff;
}

/// The codes of errors, which clients know.
pub(crate) mod code {
    pub(crate) const BAD_ENCODING: u32 = 0x8013_1384;
    pub(crate) const UNKNOWN_COMMAND: u32 = 0x8013_1385;
    pub(crate) const UNKNOWN_MAGIC: u32 = 0x8013_1386;
    pub(crate) const INVALID_ARGUMENT: u32 = 0x8007_0057;
    pub(crate) const FAIL: u32 = 0x8000_4005;
    pub(crate) const ACCESS_DENIED: u32 = 0x8007_0005;
    pub(crate) const NOT_SUPPORTED: u32 = 0x8013_1515;
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Asks for facts about this process. The version of the command decides what the answer has.
    ProcessInfo(InfoVersion),
    Collect(Collect),
    /// Ends the session with this id.
    Stop(u64),
    Environment,
    SetEnvironmentVariable,
    Resume,
    /// Changes the events that the session of the environment records from now on.
    Select(String),
    /// Asks for the filters of the session with this id that select nothing.
    Unmatched(u64),
    /// A command that this crate does not know.
    Unknown {
        set: u8,
        id: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InfoVersion {
    One,
    Two,
    Three,
}

/// An error as the client gets it: a code, and words. The tools of .NET show the code alone,
/// because the protocol has a text only in the answers to some commands. Ours show the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u32,
    pub(crate) words: String,
}

impl Refusal {
    pub(crate) fn new(code: u32, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }

    /// The answer.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        put_u32(&mut payload, self.code);
        // Far below the bound on messages.
        let words: String = self.words.chars().take(2_000).collect();
        put_text(&mut payload, &words);
        message(set::SERVER, server::ERROR, &payload)
    }
}

impl From<Malformed> for Refusal {
    fn from(error: Malformed) -> Self {
        Self::new(code::BAD_ENCODING, error.to_string())
    }
}

/// The size of the message that begins with `bytes`, as far as they are there. `None`: too few are
/// there to tell.
pub(crate) fn size(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(Refusal::new(
            code::UNKNOWN_MAGIC,
            "a message begins with `DOTNET_IPC_V1` and a zero byte",
        ));
    }
    let Some(&[low, high]) = bytes.get(MAGIC.len()..MAGIC.len() + 2) else { return Ok(None) };
    let size = usize::from(u16::from_le_bytes([low, high]));
    if size < HEADER {
        let words = format!("a message of {size} bytes is shorter than its header of {HEADER}");
        return Err(Refusal::new(code::BAD_ENCODING, words));
    }
    Ok(Some(size))
}

/// Reads a whole message, of the [`size`] that its header states.
pub(crate) fn parse(message: &[u8]) -> Result<Request, Refusal> {
    let (Some(&set), Some(&id)) = (message.get(16), message.get(17)) else {
        return Err(Malformed::Short.into());
    };
    let mut reader = Reader::new(message.get(HEADER..).unwrap_or_default());
    Ok(match (set, id) {
        (set::EVENT_PIPE, event_pipe::STOP_TRACING) => Request::Stop(reader.u64()?),
        (set::EVENT_PIPE, event_pipe::COLLECT_TRACING..=event_pipe::COLLECT_TRACING_6) => {
            Request::Collect(Collect::read(id - event_pipe::COLLECT_TRACING + 1, &mut reader)?)
        }
        (set::PROCESS, process::INFO) => Request::ProcessInfo(InfoVersion::One),
        (set::PROCESS, process::INFO_2) => Request::ProcessInfo(InfoVersion::Two),
        (set::PROCESS, process::INFO_3) => Request::ProcessInfo(InfoVersion::Three),
        (set::PROCESS, process::RESUME_RUNTIME) => Request::Resume,
        (set::PROCESS, process::ENVIRONMENT) => Request::Environment,
        (set::PROCESS, process::SET_ENVIRONMENT_VARIABLE) => Request::SetEnvironmentVariable,
        (set::OWN, own::SELECT) => Request::Select(reader.text()?),
        (set::OWN, own::UNMATCHED) => Request::Unmatched(reader.u64()?),
        _ => Request::Unknown { set, id },
    })
}

/// A message. The payload must fit: callers bound what they put there.
pub(crate) fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(HEADER + payload.len()).unwrap_or(u16::MAX);
    let payload = &payload[..usize::from(size) - HEADER];
    let mut bytes = Vec::with_capacity(usize::from(size));
    bytes.extend(MAGIC);
    bytes.extend(size.to_le_bytes());
    bytes.extend([set, id, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// The answer that all is well.
pub(crate) fn ok(payload: &[u8]) -> Vec<u8> {
    message(set::SERVER, server::OK, payload)
}

/// The answer that is a text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    put_text(&mut payload, text);
    ok(&payload)
}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let units = text.encode_utf16().count() + 1;
    put_u32(out, u32::try_from(units).unwrap_or(u32::MAX));
    text.encode_utf16().chain([0]).for_each(|unit| out.extend(unit.to_le_bytes()));
}
#[cfg(test)]
mod tests;
