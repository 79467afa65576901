//! The command CollectTracing, in its six versions.

use super::{Malformed, Reader, put_text, put_u32, put_u64};

/// A client's request for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collect {
    pub(crate) session: SessionType,
    pub(crate) buffer_mb: u32,
    pub(crate) format: Format,
    /// Keywords of the rundown. 0: none is wanted.
    pub(crate) rundown: u64,
    /// Whether events should have stacks.
    pub(crate) stacks: bool,
    pub(crate) providers: Vec<Provider>,
    pub(crate) buffering: Buffering,
}

/// Where the events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionType {
    /// To the connection.
    Stream,
    /// To the kernel's tracepoints.
    UserEvents,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    NetPerf,
    NetTrace,
}

/// The handling of events while the memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffering {
    Drop,
    Block,
}

/// A provider, and which of its events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) keywords: u64,
    pub(crate) level: u32,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) events: EventFilter,
}

/// Ids of events: those that are wanted, or those that are not.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct EventFilter {
    pub(crate) wanted: bool,
    pub(crate) ids: Vec<u32>,
}

/// The rundown of a version that has a flag in place of keywords.
pub(crate) const RUNDOWN: u64 = 0x8002_0139;

impl Collect {
    /// Reads version 1 to 6 of the command.
    pub(super) fn read(version: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let session = match version {
            5.. => match from.u32()? {
                0 => SessionType::Stream,
                1 => SessionType::UserEvents,
                number => {
                    return Err(Malformed::Undefined { what: "the type of the session", number });
                }
            },
            _ => SessionType::Stream,
        };
        if session == SessionType::UserEvents {
            // It goes on differently. The answer is the same, whatever follows.
            return Ok(Self { session, ..Self::default() });
        }
        let buffer_mb = from.u32()?;
        let format = match from.u32()? {
            0 => Format::NetPerf,
            1 => Format::NetTrace,
            number => return Err(Malformed::Undefined { what: "the format", number }),
        };
        let rundown = match version {
            1 => RUNDOWN,
            2 | 3 => u64::from(from.flag()?) * RUNDOWN,
            _ => from.u64()?,
        };
        let stacks = if version < 3 { true } else { from.flag()? };
        let least = if version < 5 { 20 } else { 25 };
        let providers = from.list(least, |from| Provider::read(version, from))?;
        let buffering = match version {
            6.. => match from.u32()? {
                0 => Buffering::Drop,
                1 => Buffering::Block,
                number => return Err(Malformed::Undefined { what: "the buffering mode", number }),
            },
            _ => Buffering::Drop,
        };
        Ok(Self { session, buffer_mb, format, rundown, stacks, providers, buffering })
    }

    /// The payload of a version of the command. What the version does not have is left out.
    pub(crate) fn payload(&self, version: u8) -> Vec<u8> {
        let mut out = Vec::new();
        if version >= 5 {
            put_u32(&mut out, u32::from(self.session == SessionType::UserEvents));
        }
        put_u32(&mut out, self.buffer_mb);
        put_u32(&mut out, u32::from(self.format == Format::NetTrace));
        match version {
            1 => {}
            2 | 3 => out.push(u8::from(self.rundown != 0)),
            _ => put_u64(&mut out, self.rundown),
        }
        if version >= 3 {
            out.push(u8::from(self.stacks));
        }
        put_u32(&mut out, self.providers.len() as u32);
        for provider in &self.providers {
            put_u64(&mut out, provider.keywords);
            put_u32(&mut out, provider.level);
            put_text(&mut out, &provider.name);
            put_text(&mut out, &provider.arguments);
            if version >= 5 {
                out.push(u8::from(provider.events.wanted));
                put_u32(&mut out, provider.events.ids.len() as u32);
                provider.events.ids.iter().for_each(|id| put_u32(&mut out, *id));
            }
        }
        if version >= 6 {
            put_u32(&mut out, u32::from(self.buffering == Buffering::Block));
        }
        out
    }
}

impl Default for Collect {
    /// Nothing, with 256 MB of buffers: as `dotnet-trace` asks for, without rundown and stacks.
    fn default() -> Self {
        Self {
            session: SessionType::Stream,
            buffer_mb: 256,
            format: Format::NetTrace,
            rundown: 0,
            stacks: false,
            providers: Vec::new(),
            buffering: Buffering::Drop,
        }
    }
}

impl Provider {
    fn read(version: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (keywords, level) = (from.u64()?, from.u32()?);
        let (name, arguments) = (from.text()?, from.text()?);
        if name.is_empty() {
            return Err(Malformed::NoName);
        }
        let events = match version {
            5.. => EventFilter { wanted: from.flag()?, ids: from.list(4, Reader::u32)? },
            _ => EventFilter::default(),
        };
        Ok(Self { keywords, level, name, arguments, events })
    }
}
