//! Providers and events that are known only at run time.

use nettrace_event::{
    FieldFormat, FieldType, Level, PayloadEncoder as _, TraceField,
    check::{self, MAX_NESTING},
};

use crate::{
    buffer::Buffer,
    emit::{self, Context},
    encoder::EventHeaderEncoder,
    error::Error,
    header,
    layout::{Header, encoding, format},
    metadata::{self, Arity},
    state::{self, KERNEL, RuntimePoint},
    sync::Ordering,
};

/// A provider whose name is known only at run time. It registers [`Tracepoint`]s.
///
/// ```
/// use eventheader_writer::{DynamicProvider, Level};
///
/// let provider = DynamicProvider::new("Contoso_Plugins")?.group("plugins")?;
/// let loaded = provider.tracepoint(Level::Informational, 0x1);
/// assert_eq!(loaded.name(), "Contoso_Plugins_L4K1Gplugins");
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicProvider {
    name: String,
    group: Option<String>,
}

impl DynamicProvider {
    /// A provider with this name: 1 to 233 bytes, without white space, control characters, `,`, `:`
    /// and `;`. In tracepoint names, each character except ASCII letters, digits and `_` becomes
    /// `_`.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn new(name: &str) -> Result<Self, Error> {
        if !check::is_provider_name(name, None) {
            let problem =
                "must have 1 to 233 bytes without white space, control characters, `,`, `:` or `;`";
            return Err(Error::Name { what: "provider", name: name.to_owned(), problem });
        }
        Ok(Self { name: name.to_owned(), group: None })
    }

    /// Puts the provider into a group: lower-case letters and digits. Provider and group together
    /// have at most 233 bytes.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn group(mut self, group: &str) -> Result<Self, Error> {
        let plain = group.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9'));
        let problem = if group.is_empty() || !plain {
            "has characters other than lower-case letters and digits"
        } else if !check::is_provider_name(&self.name, Some(group)) {
            "exceeds the 233 bytes that provider and group may have together"
        } else {
            self.group = Some(group.to_owned());
            return Ok(self);
        };
        Err(Error::Name { what: "group", name: group.to_owned(), problem })
    }

    /// Registers the tracepoint for events with this level and these keywords. It stays registered
    /// until the returned value is dropped. If the kernel cannot take it, it waits: see
    /// [`retry`](crate::retry).
    #[must_use]
    pub fn tracepoint(&self, level: Level, keywords: u64) -> Tracepoint {
        let level = header::level(level);
        let name = header::name_of(&self.name, self.group.as_deref(), level, keywords);
        Tracepoint { point: state::register_runtime(name.clone()), name, level }
    }
}

/// A registered tracepoint for events that are built at run time. Dropping it unregisters it.
///
/// ```
/// use eventheader_writer::{DynamicProvider, EventBuilder, Level};
///
/// let failed = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
/// if failed.is_enabled() {
///     EventBuilder::new("Failed").add("plugin", "spellcheck").write(&failed)?;
/// }
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[derive(Debug)]
pub struct Tracepoint {
    point: &'static RuntimePoint,
    name: String,
    level: u8,
}

impl Tracepoint {
    /// Whether somebody listens. This is one load.
    #[inline(always)]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        // Relaxed: an event may miss a listener that has just come, or meet one that has just gone.
        self.point.word.load(Ordering::Relaxed) & KERNEL != 0
    }

    /// The tracepoint's name, as `perf record -e user_events:NAME` takes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Tracepoint {
    fn drop(&mut self) {
        state::unregister_runtime(self.point);
    }
}

/// An event whose name and fields are known only at run time. It can be reused after
/// [`clear`](Self::clear), and then allocates nothing.
///
/// The builder keeps the first mistake, and [`write`](Self::write) returns it.
///
/// ```
/// use eventheader_writer::{DynamicProvider, EventBuilder, FieldFormat, Level};
///
/// let provider = DynamicProvider::new("Contoso_Plugins")?;
/// let loaded = provider.tracepoint(Level::Informational, 0x1);
/// if loaded.is_enabled() {
///     EventBuilder::new("Loaded")
///         .add("plugin", "spellcheck")
///         .add_as("flags", &0x21_u32, FieldFormat::Hex)
///         .add("sizes", &[1_u64, 2, 3][..])
///         .write(&loaded)?;
/// }
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[derive(Debug)]
pub struct EventBuilder {
    name: String,
    header: Header,
    /// Header and metadata. The header is filled in last.
    metadata: Vec<u8>,
    payload: Box<Buffer>,
    /// For each open struct: the position of its number of fields, and that number.
    structs: Vec<(usize, usize)>,
    /// Whether there are fields: attributes must come before them.
    has_fields: bool,
    error: Option<Error>,
}

impl EventBuilder {
    /// An event with this name, without fields. The name has 1 to 255 bytes, without NUL and `;`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut builder = Self {
            name: String::new(),
            header: Header::default(),
            metadata: Vec::with_capacity(256),
            payload: Box::new(Buffer::new()),
            structs: Vec::new(),
            has_fields: false,
            error: None,
        };
        builder.clear(name);
        builder
    }

    /// Starts another event in the memory of this one.
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    ///
    /// let read = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Verbose, 0x1);
    /// let mut event = EventBuilder::new("");
    /// for size in [512_u64, 4_096] {
    ///     event.clear("Read").add("bytes", &size).write(&read)?;
    /// }
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub fn clear(&mut self, name: &str) -> &mut Self {
        self.name.clear();
        self.name.push_str(name);
        self.header = Header::default();
        self.metadata.clear();
        self.metadata.resize(header::BEFORE_METADATA, 0);
        self.payload.clear();
        self.structs.clear();
        self.has_fields = false;
        self.error = metadata::name("event", name, &mut self.metadata).err();
        self
    }

    /// Sets the id, which must stand for this event for ever (not 0), and the version of its
    /// layout.
    pub fn id(&mut self, id: u16, version: u8) -> &mut Self {
        (self.header.id, self.header.version) = (id, version);
        self
    }

    /// Sets a tag: a number with a meaning of your own.
    pub fn tag(&mut self, tag: u16) -> &mut Self {
        self.header.tag = tag;
        self
    }

    /// Sets the opcode, the event's part in an activity: 0 none, 1 start, 2 end.
    pub fn opcode(&mut self, opcode: u8) -> &mut Self {
        self.header.opcode = opcode;
        self
    }

    /// Adds an attribute to the event's name. Call it before adding the first field.
    pub fn attribute(&mut self, key: &str, value: &str) -> &mut Self {
        let problem = "comes after the first field, but attributes must come before it";
        let result = if self.has_fields {
            Err(Error::Name { what: "attribute", name: key.to_owned(), problem })
        } else {
            metadata::attribute(key, value, &mut self.metadata)
        };
        self.keep(result);
        self
    }

    /// Adds a field of any type that an event's field can have.
    pub fn add<T: TraceField + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.add_as(name, value, FieldFormat::Default)
    }

    /// Like [`add`](Self::add), with a format, which must fit the type.
    pub fn add_as<T: TraceField + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        format: FieldFormat,
    ) -> &mut Self {
        self.add_tagged(name, value, format, 0)
    }

    /// Like [`add_as`](Self::add_as), with a tag: a number with a meaning of your own, 0 for none.
    pub fn add_tagged<T: TraceField + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        format: FieldFormat,
        tag: u16,
    ) -> &mut Self {
        let ty: &'static FieldType = const { &T::TYPE };
        self.begin_field();
        let room = MAX_NESTING.saturating_sub(self.structs.len());
        let result = if check::format_fits(format, ty) {
            metadata::field(name, ty, format, tag, room, &mut self.metadata)
        } else {
            Err(Error::Format { field: name.to_owned() })
        };
        self.keep(result);
        let mut encoder = EventHeaderEncoder::new(&mut self.payload, usize::MAX);
        encoder.begin_format(format);
        value.encode_field(&mut encoder);
        encoder.end_format();
        self
    }

    /// Adds text as UTF-16 code units, at most 65,535. They are not checked and may be invalid.
    pub fn add_utf16(&mut self, name: &str, units: &[u16]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR16, format::UTF, units.len());
        units.iter().for_each(|unit| self.payload.put(&unit.to_ne_bytes()));
        self
    }

    /// Adds text as UTF-32; at most 65,535 characters.
    pub fn add_utf32(&mut self, name: &str, text: &[char]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR32, format::UTF, text.len());
        text.iter().for_each(|&c| self.payload.put(&u32::from(c).to_ne_bytes()));
        self
    }

    /// Adds text as Latin-1 bytes, at most 65,535.
    pub fn add_latin1(&mut self, name: &str, text: &[u8]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR8, format::LATIN1, text.len());
        self.payload.put(text);
        self
    }

    /// Adds text whose encoding a byte order mark at its start states; UTF-8 without one. At most
    /// 65,535 bytes.
    pub fn add_text_with_bom(&mut self, name: &str, text: &[u8]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR8, format::UTF_BOM, text.len());
        self.payload.put(text);
        self
    }

    /// Adds text as UTF-8 up to a NUL; a NUL within becomes U+FFFD.
    pub fn add_utf8_nul(&mut self, name: &str, text: &str) -> &mut Self {
        self.add_unit_strings(name, encoding::Z_STRING_CHAR8);
        let mut pieces = text.split('\0');
        self.payload.put(pieces.next().unwrap_or_default().as_bytes());
        for piece in pieces {
            self.payload.put("\u{FFFD}".as_bytes());
            self.payload.put(piece.as_bytes());
        }
        self.payload.put(&[0]);
        self
    }

    /// Adds text as UTF-32 up to a NUL; a NUL within becomes U+FFFD.
    pub fn add_utf32_nul(&mut self, name: &str, text: &str) -> &mut Self {
        self.add_unit_strings(name, encoding::Z_STRING_CHAR32);
        for c in text.chars() {
            let c = if c == '\0' { '\u{FFFD}' } else { c };
            self.payload.put(&u32::from(c).to_ne_bytes());
        }
        self.payload.put(&[0; 4]);
        self
    }

    /// Adds bytes, shown in hexadecimal, at most 65,535.
    ///
    /// ```
    /// use eventheader_writer::EventBuilder;
    ///
    /// EventBuilder::new("Received").add_bytes("head", &[0xDE, 0xAD]);
    /// ```
    pub fn add_bytes(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        self.add_raw(name, encoding::BINARY_LENGTH16_CHAR8, format::HEX_BYTES, bytes.len());
        self.payload.put(bytes);
        self
    }

    /// Adds a struct. `fields` adds its fields: 1 to 127. Structs can be nested 8 deep.
    ///
    /// ```
    /// use eventheader_writer::EventBuilder;
    ///
    /// let mut event = EventBuilder::new("Moved");
    /// event.add_struct("to", |to| {
    ///     to.add("x", &3_i32).add("y", &-5_i32);
    /// });
    /// ```
    pub fn add_struct(&mut self, name: &str, fields: impl FnOnce(&mut Self)) -> &mut Self {
        self.begin_field();
        let result = if self.structs.len() >= MAX_NESTING {
            Err(Error::TooDeep { field: name.to_owned() })
        } else {
            // The number of fields, patched below; the 1 reserves its byte.
            metadata::entry(name, encoding::STRUCT, 1, 0, Arity::One, &mut self.metadata)
        };
        self.keep(result);
        self.structs.push((self.metadata.len().wrapping_sub(1), 0));
        fields(self);
        let Some((at, count)) = self.structs.pop() else { return self };
        let field = || name.to_owned();
        let result = match u8::try_from(count) {
            Ok(0) => Err(Error::EmptyStruct { field: field() }),
            Ok(count) if usize::from(count) <= check::MAX_STRUCT_FIELDS => {
                if let Some(byte) = self.metadata.get_mut(at) {
                    *byte = count;
                }
                Ok(())
            }
            _ => Err(Error::TooManyFields { field: field(), count }),
        };
        self.keep(result);
        self
    }

    /// Writes the event if somebody listens. Failures of the system are [counted](crate::counters).
    ///
    /// # Errors
    /// The first mistake since [`new`](Self::new) or [`clear`](Self::clear), or
    /// [`Error::TooLarge`]. The texts of events built at run time are never cut.
    pub fn write(&mut self, tracepoint: &Tracepoint) -> Result<(), Error> {
        self.write_with(tracepoint, &Context::new())
    }

    /// Like [`write`](Self::write), with the event's activity.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_with(
        &mut self,
        tracepoint: &Tracepoint,
        context: &Context<'_>,
    ) -> Result<(), Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let too_large = || Error::TooLarge { event: self.name.clone() };
        if !self.has_fields {
            self.metadata.push(0);
            self.has_fields = true;
        }
        let header = Header { level: tracepoint.level, ..self.header };
        header::complete(header, &mut self.metadata, &self.name)?;
        if !tracepoint.is_enabled() {
            return Ok(());
        }
        let payload = self.payload.bytes();
        if self.payload.overflowed() {
            crate::counters::count_too_large();
            return Err(too_large());
        }
        if emit::write_runtime(&tracepoint.point.channel, &self.metadata, payload, context) {
            Ok(())
        } else {
            Err(too_large())
        }
    }

    fn add_raw(&mut self, name: &str, encoding: u8, format: u8, len: usize) {
        self.begin_field();
        let result = metadata::entry(name, encoding, format, 0, Arity::One, &mut self.metadata);
        self.keep(result);
        match u16::try_from(len) {
            Ok(len) => self.payload.put(&len.to_ne_bytes()),
            Err(_) => self.payload.fail(),
        }
    }

    fn add_unit_strings(&mut self, name: &str, encoding: u8) {
        self.begin_field();
        let result =
            metadata::entry(name, encoding, format::UTF, 0, Arity::One, &mut self.metadata);
        self.keep(result);
    }

    fn begin_field(&mut self) {
        if !self.has_fields {
            self.metadata.push(0);
            self.has_fields = true;
        }
        if let Some((_, count)) = self.structs.last_mut() {
            *count += 1;
        }
    }

    fn keep(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}
