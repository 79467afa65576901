//! [`EventBuilder`]: events whose names and fields are known only at run time.

use nettrace_event::{
    FieldFormat, FieldType, PayloadEncoder as _, TraceField,
    check::{self, MAX_NESTING},
};

use crate::{
    buffer::HeapBuffer,
    emit::{self, Context},
    encoder::EventHeaderEncoder,
    error::Error,
    header,
    layout::{Header, encoding, format},
    metadata::{self, Arity},
    runtime::Tracepoint,
};

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
    payload: HeapBuffer,
    /// For each open struct: the position of its number of fields, and that number.
    structs: Vec<(usize, usize)>,
    /// Whether there are fields: attributes must come before them.
    has_fields: bool,
    error: Option<Error>,
}

impl EventBuilder {
    /// An event with this name, without fields. The name has 1 to 255 bytes, without NUL and `;`.
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, EventBuilder, Level, counters};
    ///
    /// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
    /// let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// EventBuilder::new("Crashed").write(&point)?;
    /// assert_eq!(counters().written, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut builder = Self {
            name: String::new(),
            header: Header::default(),
            metadata: Vec::with_capacity(256),
            payload: HeapBuffer::new(),
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
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// use eventheader_writer::layout::Header;
    ///
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // Version 2, because "plugin" was added since version 1.
    /// EventBuilder::new("Crashed").id(17, 2).add("plugin", "spellcheck").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets: a write index of four bytes, the header, and so on.
    /// let header = Header::from_bytes(written[4..12].try_into()?);
    /// assert_eq!((header.id, header.version), (17, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&mut self, id: u16, version: u8) -> &mut Self {
        (self.header.id, self.header.version) = (id, version);
        self
    }

    /// Sets a tag: a number with a meaning of your own.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// use eventheader_writer::layout::Header;
    ///
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// /// This provider marks what must not leave the machine.
    /// const PRIVATE: u16 = 0x1;
    ///
    /// EventBuilder::new("SignedIn").tag(PRIVATE).add("user", "jo").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets: a write index of four bytes, the header, and so on.
    /// let header = Header::from_bytes(written[4..12].try_into()?);
    /// assert_eq!(header.tag, PRIVATE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tag(&mut self, tag: u16) -> &mut Self {
        self.header.tag = tag;
        self
    }

    /// Sets the opcode, the event's part in an activity: 0 none, 1 start, 2 end.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// use eventheader_writer::Context;
    ///
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// let load = [7; 16];
    /// let context = Context::new().activity(&load);
    /// EventBuilder::new("Load").opcode(1).write_with(&point, &context)?;
    /// EventBuilder::new("Load").opcode(2).write_with(&point, &context)?;
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub fn opcode(&mut self, opcode: u8) -> &mut Self {
        self.header.opcode = opcode;
        self
    }

    /// Adds an attribute to the event's name. Call it before adding the first field.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// let mut event = EventBuilder::new("Crashed");
    /// event.attribute("team", "editor").add("code", &11_u32).write(&point)?;
    ///
    /// // After a field it is too late.
    /// let mut late = EventBuilder::new("Crashed");
    /// assert!(late.add("code", &11_u32).attribute("team", "editor").write(&point).is_err());
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// EventBuilder::new("Loaded")
    ///     .add("plugin", "spellcheck")
    ///     .add("languages", &["de", "fr"][..])
    ///     .add("bytes", &Some(4_096_u64))
    ///     .write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.windows(9).any(|name| name == b"languages"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add<T: TraceField + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.add_as(name, value, FieldFormat::Default)
    }

    /// Like [`add`](Self::add), with a format, which must fit the type.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// use eventheader_writer::FieldFormat;
    ///
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// EventBuilder::new("Connected").add_as("port", &443_u16, FieldFormat::Port).write(&point)?;
    ///
    /// // A text is no port.
    /// let mut wrong = EventBuilder::new("Connected");
    /// assert!(wrong.add_as("port", "https", FieldFormat::Port).write(&point).is_err());
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub fn add_as<T: TraceField + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        format: FieldFormat,
    ) -> &mut Self {
        self.add_tagged(name, value, format, 0)
    }

    /// Like [`add_as`](Self::add_as), with a tag: a number with a meaning of your own, 0 for none.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// use eventheader_writer::FieldFormat;
    ///
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// /// This provider marks the fields that identify a person.
    /// const PERSONAL: u16 = 0x1;
    ///
    /// let mut event = EventBuilder::new("SignedIn");
    /// event.add_tagged("user", "jo", FieldFormat::Default, PERSONAL).write(&point)?;
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
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
        self.payload.append(|payload| {
            let mut encoder = EventHeaderEncoder::new(payload, usize::MAX);
            encoder.begin_format(format);
            value.encode_field(&mut encoder);
            encoder.end_format();
        });
        self
    }

    /// Adds text as UTF-16 code units, at most 65,535. They are not checked and may be invalid.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // As another program's interface gave it.
    /// let folder: Vec<u16> = "C:\\plugins".encode_utf16().collect();
    /// EventBuilder::new("Loaded").add_utf16("folder", &folder).write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.ends_with(&u16::from(b's').to_ne_bytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_utf16(&mut self, name: &str, units: &[u16]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR16, format::UTF, units.len());
        self.payload.append(|payload| payload.put_all(units, u16::to_ne_bytes));
        self
    }

    /// Adds text as UTF-32; at most 65,535 characters.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// EventBuilder::new("Typed").add_utf32("keys", &['ß', '→']).write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.ends_with(&u32::from('→').to_ne_bytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_utf32(&mut self, name: &str, text: &[char]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR32, format::UTF, text.len());
        self.payload.append(|payload| payload.put_all(text, |c| u32::from(c).to_ne_bytes()));
        self
    }

    /// Adds text as Latin-1 bytes, at most 65,535.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // "café" in Latin-1.
    /// EventBuilder::new("Header").add_latin1("value", b"caf\xE9").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.ends_with(b"caf\xE9"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_latin1(&mut self, name: &str, text: &[u8]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR8, format::LATIN1, text.len());
        self.payload.append(|payload| payload.put(text));
        self
    }

    /// Adds text whose encoding a byte order mark at its start states; UTF-8 without one. At most
    /// 65,535 bytes.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // The first bytes of a file: UTF-16, as its byte order mark says.
    /// EventBuilder::new("Opened").add_text_with_bom("head", b"\xFF\xFEh\0i\0").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.ends_with(b"\xFF\xFEh\0i\0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_text_with_bom(&mut self, name: &str, text: &[u8]) -> &mut Self {
        self.add_raw(name, encoding::STRING_LENGTH16_CHAR8, format::UTF_BOM, text.len());
        self.payload.append(|payload| payload.put(text));
        self
    }

    /// Adds text as UTF-8 up to a NUL; a NUL within becomes U+FFFD.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // For a decoder that expects C strings.
    /// EventBuilder::new("Loaded").add_utf8_nul("plugin", "spellcheck").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets.
    /// assert!(written.ends_with(b"spellcheck\0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_utf8_nul(&mut self, name: &str, text: &str) -> &mut Self {
        self.add_unit_strings(name, encoding::Z_STRING_CHAR8);
        let mut pieces = text.split('\0');
        self.payload.append(|payload| {
            payload.put(pieces.next().unwrap_or_default().as_bytes());
            for piece in pieces {
                payload.put("\u{FFFD}".as_bytes());
                payload.put(piece.as_bytes());
            }
            payload.put(&[0]);
        });
        self
    }

    /// Adds text as UTF-32 up to a NUL; a NUL within becomes U+FFFD.
    ///
    /// ```
    /// # use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    /// # let path = std::env::temp_dir().join(format!("eventheader-docs-{}", std::process::id()));
    /// # eventheader_writer::redirect(std::fs::File::create(&path)?)?;
    /// # let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // A `wchar_t *` of Linux.
    /// EventBuilder::new("Loaded").add_utf32_nul("plugin", "spellcheck").write(&point)?;
    /// # let written = std::fs::read(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// // `written` is what the kernel gets. It ends with the last character and the NUL.
    /// assert!(written.ends_with(&[u32::from('k').to_ne_bytes(), [0; 4]].concat()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_utf32_nul(&mut self, name: &str, text: &str) -> &mut Self {
        self.add_unit_strings(name, encoding::Z_STRING_CHAR32);
        self.payload.append(|payload| {
            for c in text.chars() {
                let c = if c == '\0' { '\u{FFFD}' } else { c };
                payload.put(&u32::from(c).to_ne_bytes());
            }
            payload.put(&[0; 4]);
        });
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
        self.payload.append(|payload| payload.put(bytes));
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
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, Error, EventBuilder, Level};
    ///
    /// let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// // A mistake is an error also while nobody listens.
    /// let error = EventBuilder::new("Moved").add_struct("to", |_| {}).write(&point).unwrap_err();
    /// assert_eq!(error, Error::EmptyStruct { field: "to".into() });
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub fn write(&mut self, tracepoint: &Tracepoint) -> Result<(), Error> {
        self.write_with(tracepoint, &Context::new())
    }

    /// Like [`write`](Self::write), with the event's activity.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    ///
    /// ```
    /// use eventheader_writer::{Context, DynamicProvider, EventBuilder, Level, counters};
    ///
    /// # eventheader_writer::redirect(std::fs::File::create("/dev/null")?)?;
    /// let point = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
    /// let load = [7; 16];
    /// let mut event = EventBuilder::new("Missing");
    /// event.add("symbol", "init").write_with(&point, &Context::new().activity(&load))?;
    /// assert_eq!(counters().written, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        let Some(payload) = self.payload.bytes() else {
            crate::counters::count_too_large();
            return Err(too_large());
        };
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
        self.payload.append(|payload| match u16::try_from(len) {
            Ok(len) => payload.put(&len.to_ne_bytes()),
            Err(_) => payload.fail(),
        });
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
