//! Names of code: what a trace says of the functions and files that addresses are of, and how its
//! processes are called.
//!
//! | provider | events |
//! |---|---|
//! | `Universal.System` | names of processes; mappings of files into processes; symbols in mappings |
//! | `Microsoft-Windows-DotNETRuntime` and its `Rundown` | methods that were compiled (`MethodLoadVerbose`), and those that are there at the start or the end (`MethodDCStart`, `MethodDCEnd`); modules |
//!
//! The rundown is at the end of a trace, behind the samples. So names are looked up as late as
//! possible. If a method is replaced by another one at an address, the last name counts.
//!
//! Symbols belong to a mapping, whose id they state. A process and its child can share a mapping,
//! of which the symbols are then recorded for one of them. Of several symbols that cover an
//! address, the first one counts.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use nettrace_format::Cursor;
use nettrace_reader::{Event, Metadata};

use crate::model::{Observed, process_id};

/// The limit on the memory for names, in bytes.
const LIMIT: usize = 256 << 20;

/// About what a name takes beside its text.
const NAME_BYTES: usize = 96;

/// What an event type says of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// A method of .NET: its code and its name.
    Method,
    /// A module of .NET.
    Module,
    /// A file in the memory of a process.
    Mapping,
    /// A function in a mapping.
    Symbol,
    /// The name of a process.
    Process,
}

impl Lesson {
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        match (&*metadata.provider, metadata.event_id) {
            ("Microsoft-Windows-DotNETRuntime", 143) => Some(Self::Method),
            ("Microsoft-Windows-DotNETRuntimeRundown", 143 | 144) => Some(Self::Method),
            ("Microsoft-Windows-DotNETRuntime", 152) => Some(Self::Module),
            ("Microsoft-Windows-DotNETRuntimeRundown", 153 | 154) => Some(Self::Module),
            ("Universal.System", 0 | 1) => Some(Self::Process),
            ("Universal.System", 3) => Some(Self::Mapping),
            ("Universal.System", 4) => Some(Self::Symbol),
            _ => None,
        }
    }
}

/// A method of .NET in the memory of a process.
#[derive(Clone, Debug)]
struct Method {
    /// The address behind its last byte.
    end: u64,
    name: Rc<str>,
    module: u64,
}

/// The symbols of a mapping.
#[derive(Clone, Debug, Default)]
struct OfMapping {
    /// What symbols cover: from, to.
    covered: BTreeMap<u64, u64>,
    /// By their first address: the address behind the last one, and the name. They do not overlap.
    parts: BTreeMap<u64, (u64, Rc<str>)>,
}

impl OfMapping {
    /// Adds a symbol, where no earlier one is.
    fn add(&mut self, start: u64, end: u64, name: &Rc<str>) {
        let before = self.covered.range(..=start).next_back().filter(|(_, to)| **to >= start);
        let (from, mut at) = before.map_or((start, start), |(from, to)| (*from, *to));
        if at >= end {
            return;
        }
        let inside: Vec<_> = self.covered.range(at..=end).map(|(from, to)| (*from, *to)).collect();
        let mut to = end;
        for (next, behind) in inside {
            if at < next {
                self.parts.insert(at, (next, Rc::clone(name)));
            }
            self.covered.remove(&next);
            at = at.max(behind);
            to = to.max(behind);
        }
        if at < end {
            self.parts.insert(at, (end, Rc::clone(name)));
        }
        self.covered.insert(from, to);
    }

    fn find(&self, address: u64) -> Option<Rc<str>> {
        let (_, (end, name)) = self.parts.range(..=address).next_back()?;
        (address < *end).then(|| Rc::clone(name))
    }
}

/// A file in the memory of a process.
#[derive(Clone, Debug)]
struct Mapping {
    id: u64,
    end: u64,
    file_offset: u64,
    /// `None` for memory that .NET maps twice, which is no file.
    file: Option<Rc<str>>,
}

/// Addresses from here on are of the kernel.
const KERNEL: u64 = 1 << 63;

/// Where an address is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) function: Option<Rc<str>>,
    /// The name of the file, without folders.
    pub(crate) module: Option<Rc<str>>,
    /// The position in the file, if the mapping is known. The kernel is no file: people look its
    /// addresses up as they are.
    pub(crate) offset: Option<u64>,
}

/// What a trace has said of code so far: methods and modules of .NET, mappings and symbols, and
/// the names of processes.
#[derive(Debug, Default)]
pub struct FrameNames {
    /// Ranges are found by the process and their first address.
    methods: BTreeMap<(u64, u64), Method>,
    mappings: BTreeMap<(u64, u64), Mapping>,
    /// Symbols by the ids of mappings.
    symbols: HashMap<u64, OfMapping>,
    modules: HashMap<(u64, u64), Rc<str>>,
    processes: HashMap<u64, Rc<str>>,
    bytes: usize,
    /// Names beyond [`LIMIT`].
    pub(crate) left_out: u64,
}

impl FrameNames {
    /// The innermost frame of a sample of .NET that was in code that is not managed: the thread
    /// worked there, or waited.
    pub const EXTERNAL: &'static str = "(native code or waiting)";

    /// Whether events of a type are samples.
    #[must_use]
    pub fn is_sample(metadata: &Metadata) -> bool {
        Observed::of(metadata) == Some(Observed::Running)
    }

    /// Whether a sample was in code that is not managed.
    #[must_use]
    pub fn is_external(event: &Event<'_>) -> bool {
        let is_dotnet = event.metadata().provider.starts_with("Microsoft-DotNETCore");
        // The payload is the kind of the sample: 1 for code that is not managed.
        is_dotnet && event.payload.first_chunk() == Some(&[1, 0, 0, 0])
    }

    /// Whether events of a type name code.
    #[must_use]
    pub fn is_lesson(metadata: &Metadata) -> bool {
        Lesson::of(metadata).is_some()
    }

    /// Notes what an event says of its process, if it says anything.
    pub fn learn(&mut self, event: &Event<'_>) {
        if let Some(lesson) = Lesson::of(event.metadata()) {
            self.take(lesson, event);
        }
    }

    pub(crate) fn take(&mut self, lesson: Lesson, event: &Event<'_>) {
        let process = process_id(event).unwrap_or(0);
        let payload = Cursor::new(event.payload, 0);
        // An event that is cut off says nothing.
        let _ = match lesson {
            Lesson::Method => self.method(process, payload),
            Lesson::Module => self.module(process, payload),
            Lesson::Mapping => self.mapping(process, payload),
            Lesson::Symbol => self.symbol(payload),
            Lesson::Process => self.process(process, payload),
        };
    }

    fn has_room(&mut self, len: usize) -> bool {
        let has_room = self.bytes + len + NAME_BYTES <= LIMIT;
        if has_room {
            self.bytes += len + NAME_BYTES;
        } else {
            self.left_out += 1;
        }
        has_room
    }

    fn method(&mut self, process: u64, mut payload: Cursor<'_>) -> Option<()> {
        let _id = payload.u64().ok()?;
        let module = payload.u64().ok()?;
        let start = payload.u64().ok()?;
        let size = payload.u32().ok()?;
        let _token = payload.u32().ok()?;
        let _flags = payload.u32().ok()?;
        let class = utf16(&mut payload)?;
        let name = utf16(&mut payload)?;
        let signature = utf16(&mut payload).unwrap_or_default();
        let arguments = signature.find('(').map_or("", |at| &signature[at..]);
        let dot = if class.is_empty() { "" } else { "." };
        let name = format!("{class}{dot}{name}{arguments}");
        if size == 0 || !self.has_room(name.len()) {
            return None;
        }
        let end = start.saturating_add(size.into());
        self.methods.insert((process, start), Method { end, name: name.into(), module });
        Some(())
    }

    fn module(&mut self, process: u64, mut payload: Cursor<'_>) -> Option<()> {
        let id = payload.u64().ok()?;
        let _assembly = payload.u64().ok()?;
        let (_flags, _reserved) = (payload.u32().ok()?, payload.u32().ok()?);
        let il = utf16(&mut payload)?;
        let native = utf16(&mut payload).unwrap_or_default();
        let path = if il.is_empty() { native } else { il };
        let name = file_name(&path);
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        if name.is_empty() || !self.has_room(name.len()) {
            return None;
        }
        self.modules.insert((process, id), name.into());
        Some(())
    }

    fn mapping(&mut self, process: u64, mut payload: Cursor<'_>) -> Option<()> {
        let id = payload.varuint64().ok()?;
        let (start, end) = (payload.varuint64().ok()?, payload.varuint64().ok()?);
        let file_offset = payload.varuint64().ok()?;
        let path = utf8(&mut payload)?;
        if !self.has_room(path.len()) {
            return None;
        }
        let is_file = !path.starts_with("/memfd:doublemapper");
        let file = is_file.then(|| file_name(path).into());
        let mapping = Mapping { id, end, file_offset, file };
        self.mappings.insert((process, start), mapping);
        Some(())
    }

    fn symbol(&mut self, mut payload: Cursor<'_>) -> Option<()> {
        let (_id, mapping) = (payload.varuint64().ok()?, payload.varuint64().ok()?);
        let (start, last) = (payload.varuint64().ok()?, payload.varuint64().ok()?);
        let name = utf8(&mut payload)?;
        if start > last || !self.has_room(name.len()) {
            return None;
        }
        let symbols = self.symbols.entry(mapping).or_default();
        symbols.add(start, last.saturating_add(1), &name.into());
        Some(())
    }

    fn process(&mut self, process: u64, mut payload: Cursor<'_>) -> Option<()> {
        let _namespace_id = payload.varuint64().ok()?;
        let name = utf8(&mut payload)?;
        if name.is_empty() || !self.has_room(name.len()) {
            return None;
        }
        self.processes.insert(process, name.into());
        Some(())
    }

    /// The name of a process.
    #[cfg(feature = "viewers")]
    pub(crate) fn process_name(&self, process: Option<u64>) -> Option<&Rc<str>> {
        self.processes.get(&process?)
    }

    /// Whether anything is known of code. Otherwise all frames are called by their addresses.
    #[must_use]
    pub fn knows_code(&self) -> bool {
        !self.methods.is_empty() || !self.mappings.is_empty()
    }

    /// The name of the frame at an address: `module!function`, `module+0x1f0`,
    /// `vmlinux!0xffffffff81000fd1`, or the address.
    #[must_use]
    pub fn name(&self, process: Option<u64>, address: u64) -> String {
        self.find(process, address).name(address)
    }

    /// Where an address is.
    pub(crate) fn find(&self, process: Option<u64>, address: u64) -> Place {
        let process = process.unwrap_or(0);
        let range = (process, 0)..=(process, address);
        let mapping = self.mappings.range(range.clone()).next_back();
        let mapping = mapping.filter(|(_, it)| address < it.end);
        let method = self.methods.range(range).next_back();
        if let Some((_, method)) = method.filter(|(_, it)| address < it.end) {
            let module = self.modules.get(&(process, method.module)).cloned();
            let file = mapping.and_then(|(_, it)| it.file.clone());
            let function = Some(Rc::clone(&method.name));
            return Place { function, module: module.or(file), offset: None };
        }
        let Some(((_, start), mapping)) = mapping else { return Place::default() };
        let offset = (address - start).saturating_add(mapping.file_offset);
        Place {
            function: self.symbols.get(&mapping.id).and_then(|of| of.find(address)),
            module: mapping.file.clone(),
            offset: (mapping.file.is_some() && address < KERNEL).then_some(offset),
        }
    }
}

impl Place {
    /// As [`FrameNames::name`].
    pub(crate) fn name(&self, address: u64) -> String {
        match (&self.module, &self.function, self.offset) {
            (Some(module), Some(function), _) => format!("{module}!{function}"),
            (None, Some(function), _) => function.to_string(),
            (Some(module), None, Some(offset)) => format!("{module}+{offset:#x}"),
            (Some(module), None, None) => format!("{module}!{address:#x}"),
            _ => format!("{address:#x}"),
        }
    }
}

/// The last part of a path of Windows or Unix.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A text up to a zero, or up to the end.
fn utf16(payload: &mut Cursor<'_>) -> Option<String> {
    let mut units = Vec::new();
    while let Some(unit) = payload.take().map(u16::from_le_bytes) {
        if unit == 0 {
            return Some(String::from_utf16_lossy(&units));
        }
        units.push(unit);
    }
    (!units.is_empty()).then(|| String::from_utf16_lossy(&units))
}

/// A text that its size in 16 bits precedes.
fn utf8<'a>(payload: &mut Cursor<'a>) -> Option<&'a str> {
    let size = payload.u16().ok()?;
    std::str::from_utf8(payload.bytes(size.into()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers() {
        let mut payload = Cursor::new(&[0xAC, 2, 2, 0, b'a', b'b', b'x', 0, 0, 0, 7], 0);
        assert_eq!(payload.varuint64(), Ok(300));
        assert_eq!(utf8(&mut payload), Some("ab"));
        assert_eq!(utf16(&mut payload).as_deref(), Some("x"));
        assert!(payload.u32().is_err());
        assert!(Cursor::new(&[0xFF; 11], 0).varuint64().is_err());
        assert_eq!(file_name(r"C:\a\b.dll"), "b.dll");
        assert_eq!(file_name("/usr/lib/libc.so.6"), "libc.so.6");
    }

    #[test]
    fn addresses_are_found_in_ranges() {
        let mut symbols = FrameNames::default();
        let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        let mapping = [&[1, 100, 120, 8][..], &text("/lib/a.so"), &[0]].concat();
        symbols.mapping(7, Cursor::new(&mapping, 0)).unwrap();
        let symbol = |mapping: u8, first: u8, last: u8, name: &str| {
            [&[1, mapping, first, last][..], &text(name)].concat()
        };
        symbols.symbol(Cursor::new(&symbol(1, 104, 107, "f"), 0)).unwrap();
        // The first one counts where it is; another one around it counts elsewhere.
        symbols.symbol(Cursor::new(&symbol(1, 106, 109, "g"), 0)).unwrap();
        symbols.symbol(Cursor::new(&symbol(1, 102, 112, "h"), 0)).unwrap();
        symbols.symbol(Cursor::new(&symbol(2, 100, 119, "of another mapping"), 0)).unwrap();
        // A child shares the mapping.
        symbols.mapping(9, Cursor::new(&mapping, 0)).unwrap();
        let name = |process, address| symbols.find(process, address).name(address);
        for process in [Some(7), Some(9)] {
            assert_eq!(name(process, 104), "a.so!f");
            assert_eq!(name(process, 107), "a.so!f");
            assert_eq!(name(process, 108), "a.so!g");
            assert_eq!(
                (name(process, 103), name(process, 112)),
                ("a.so!h".into(), "a.so!h".into())
            );
            assert_eq!(name(process, 113), "a.so+0x15");
        }
        assert_eq!(name(Some(7), 120), "0x78");
        assert_eq!(name(Some(8), 104), "0x68");
        assert_eq!(name(None, 104), "0x68");
    }

    #[test]
    fn addresses_of_the_kernel_are_shown_as_they_are() {
        let mut symbols = FrameNames::default();
        let (start, end) = (0xFFFF_8000_0000_0000_u64, u64::MAX);
        let file = Some("vmlinux".into());
        symbols.mappings.insert((7, start), Mapping { id: 1, end, file_offset: 0, file });
        let address = 0xFFFF_FFFF_8100_0FD1;
        assert_eq!(symbols.find(Some(7), address).name(address), "vmlinux!0xffffffff81000fd1");
    }
}
