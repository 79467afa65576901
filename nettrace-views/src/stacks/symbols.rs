//! Names of code: what a trace says of the functions and files that addresses are of.
//!
//! | provider | events |
//! |---|---|
//! | `Universal.System` | mappings of files into processes; symbols in them |
//! | `Microsoft-Windows-DotNETRuntime` and its `Rundown` | methods that were compiled (`MethodLoadVerbose`), and those that are there at the start or the end (`MethodDCStart`, `MethodDCEnd`); modules |
//!
//! The rundown is at the end of a trace, behind the samples. So names are looked up as late as
//! possible. If code is replaced by other code at an address, the last name counts.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use nettrace_reader::{Event, Metadata};

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
}

impl Lesson {
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        match (&*metadata.provider, metadata.event_id) {
            ("Microsoft-Windows-DotNETRuntime", 143) => Some(Self::Method),
            ("Microsoft-Windows-DotNETRuntimeRundown", 143 | 144) => Some(Self::Method),
            ("Microsoft-Windows-DotNETRuntime", 152) => Some(Self::Module),
            ("Microsoft-Windows-DotNETRuntimeRundown", 153 | 154) => Some(Self::Module),
            ("Universal.System", 3) => Some(Self::Mapping),
            ("Universal.System", 4) => Some(Self::Symbol),
            _ => None,
        }
    }
}

/// A function in the memory of a process.
#[derive(Clone, Debug)]
struct Function {
    /// The address behind its last byte.
    end: u64,
    name: Rc<str>,
    /// The module of .NET, if it is a method.
    module: Option<u64>,
}

/// A file in the memory of a process.
#[derive(Clone, Debug)]
struct Mapping {
    end: u64,
    file_offset: u64,
    file: Rc<str>,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) function: Option<Rc<str>>,
    /// The name of the file, without folders.
    pub(crate) module: Option<Rc<str>>,
    /// The position in the file, if the mapping is known.
    pub(crate) offset: Option<u64>,
}

/// The names so far. Ranges are found by the process and their first address.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    functions: BTreeMap<(u64, u64), Function>,
    mappings: BTreeMap<(u64, u64), Mapping>,
    modules: HashMap<(u64, u64), Rc<str>>,
    bytes: usize,
    /// Names beyond [`LIMIT`].
    pub(crate) left_out: u64,
}

impl Symbols {
    /// Notes what an event says.
    pub(crate) fn learn(&mut self, lesson: Lesson, event: &Event<'_>, process: Option<u64>) {
        let process = process.unwrap_or(0);
        let payload = Payload(event.payload);
        let noted = match lesson {
            Lesson::Method => self.method(process, payload),
            Lesson::Module => self.module(process, payload),
            Lesson::Mapping => self.mapping(process, payload),
            Lesson::Symbol => self.symbol(process, payload),
        };
        // An event that is cut off says nothing.
        let _ = noted;
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

    fn method(&mut self, process: u64, mut payload: Payload<'_>) -> Option<()> {
        let _id = payload.u64()?;
        let module = payload.u64()?;
        let start = payload.u64()?;
        let size = payload.u32()?;
        let _token = payload.u32()?;
        let _flags = payload.u32()?;
        let class = payload.utf16()?;
        let name = payload.utf16()?;
        let signature = payload.utf16().unwrap_or_default();
        let arguments = signature.find('(').map_or("", |at| &signature[at..]);
        let dot = if class.is_empty() { "" } else { "." };
        let name = format!("{class}{dot}{name}{arguments}");
        if size == 0 || !self.has_room(name.len()) {
            return None;
        }
        let end = start.saturating_add(size.into());
        let function = Function { end, name: name.into(), module: Some(module) };
        self.functions.insert((process, start), function);
        Some(())
    }

    fn module(&mut self, process: u64, mut payload: Payload<'_>) -> Option<()> {
        let id = payload.u64()?;
        let _assembly = payload.u64()?;
        let (_flags, _reserved) = (payload.u32()?, payload.u32()?);
        let il = payload.utf16()?;
        let native = payload.utf16().unwrap_or_default();
        let path = if il.is_empty() { native } else { il };
        let name = file_name(&path);
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        if name.is_empty() || !self.has_room(name.len()) {
            return None;
        }
        self.modules.insert((process, id), name.into());
        Some(())
    }

    fn mapping(&mut self, process: u64, mut payload: Payload<'_>) -> Option<()> {
        let _id = payload.varint()?;
        let (start, end) = (payload.varint()?, payload.varint()?);
        let file_offset = payload.varint()?;
        let path = payload.utf8()?;
        // Memory that .NET maps twice is no file.
        if path.starts_with("/memfd:doublemapper") || !self.has_room(path.len()) {
            return None;
        }
        let mapping = Mapping { end, file_offset, file: file_name(path).into() };
        self.mappings.insert((process, start), mapping);
        Some(())
    }

    fn symbol(&mut self, process: u64, mut payload: Payload<'_>) -> Option<()> {
        let (_id, _mapping) = (payload.varint()?, payload.varint()?);
        let (start, last) = (payload.varint()?, payload.varint()?);
        let name = payload.utf8()?;
        if !self.has_room(name.len()) {
            return None;
        }
        let function = Function { end: last.saturating_add(1), name: name.into(), module: None };
        self.functions.insert((process, start), function);
        Some(())
    }

    /// Where an address is.
    pub(crate) fn find(&self, process: Option<u64>, address: u64) -> Place {
        let process = process.unwrap_or(0);
        let range = (process, 0)..=(process, address);
        let function = self.functions.range(range.clone()).next_back();
        let function = function.filter(|(_, it)| address < it.end).map(|(_, it)| it);
        let mapping = self.mappings.range(range).next_back();
        let mapping = mapping.filter(|(_, it)| address < it.end);
        let module = function.and_then(|it| self.modules.get(&(process, it.module?)));
        Place {
            function: function.map(|it| Rc::clone(&it.name)),
            module: module.cloned().or_else(|| mapping.map(|(_, it)| Rc::clone(&it.file))),
            offset: mapping
                .map(|((_, start), it)| (address - start).saturating_add(it.file_offset)),
        }
    }
}

impl Place {
    /// The name of the frame: `module!function`, `module+0x1f0`, or the address.
    pub(crate) fn name(&self, address: u64) -> String {
        match (&self.module, &self.function, self.offset) {
            (Some(module), Some(function), _) => format!("{module}!{function}"),
            (None, Some(function), _) => function.to_string(),
            (Some(module), None, Some(offset)) => format!("{module}+{offset:#x}"),
            _ => format!("{address:#x}"),
        }
    }
}

/// The last part of a path of Windows or Unix.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The rest of a payload.
#[derive(Clone, Copy, Debug)]
struct Payload<'a>(&'a [u8]);

impl<'a> Payload<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// A text up to a zero, or up to the end.
    fn utf16(&mut self) -> Option<String> {
        let mut units = Vec::new();
        while let Some(unit) = self.take().map(u16::from_le_bytes) {
            if unit == 0 {
                return Some(String::from_utf16_lossy(&units));
            }
            units.push(unit);
        }
        (!units.is_empty()).then(|| String::from_utf16_lossy(&units))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A text that its size in 16 bits precedes.
    fn utf8(&mut self) -> Option<&'a str> {
        let size = self.take().map(u16::from_le_bytes)?;
        let (text, rest) = self.0.split_at_checked(size.into())?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers() {
        let mut payload = Payload(&[0xAC, 2, 2, 0, b'a', b'b', b'x', 0, 0, 0, 7]);
        assert_eq!(payload.varint(), Some(300));
        assert_eq!(payload.utf8(), Some("ab"));
        assert_eq!(payload.utf16().as_deref(), Some("x"));
        assert_eq!(payload.u32(), None);
        assert_eq!(Payload(&[0xFF; 11]).varint(), None);
        assert_eq!(file_name(r"C:\a\b.dll"), "b.dll");
        assert_eq!(file_name("/usr/lib/libc.so.6"), "libc.so.6");
    }

    #[test]
    fn addresses_are_found_in_ranges() {
        let mut symbols = Symbols::default();
        let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        let mapping = [&[1, 100, 120, 8][..], &text("/lib/a.so"), &[0]].concat();
        symbols.mapping(7, Payload(&mapping)).unwrap();
        let symbol = [&[1, 1, 104, 107][..], &text("f")].concat();
        symbols.symbol(7, Payload(&symbol)).unwrap();
        let name = |process, address| symbols.find(process, address).name(address);
        assert_eq!(name(Some(7), 104), "a.so!f");
        assert_eq!(name(Some(7), 107), "a.so!f");
        assert_eq!(name(Some(7), 108), "a.so+0x10");
        assert_eq!(name(Some(7), 120), "0x78");
        assert_eq!(name(Some(8), 104), "0x68");
        assert_eq!(name(None, 104), "0x68");
    }
}
