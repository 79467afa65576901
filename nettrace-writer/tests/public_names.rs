//! Whatever appears in a public signature of this crate can be named from it, so that an
//! application needs no second crate.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use nettrace_writer::{
    BlockKind, Clock, Drops, Emit, Error, FileNameError, Format, FormatError, Ids, Label,
    LabelError, LabelScope, LeftOut, Level, MAX_LABEL_BYTES, OnFull, Origin, ProviderFilter,
    RegisterError, Session, SessionBuilder, SinkError, Stats, ThreadKeyValueError, ThreadRef,
    TraceEvent, TraceField, enter_labels,
    event::{
        ArrayLayout, EventSchema, EventType, FieldAs, FieldFormat, FieldRole, FieldSchema,
        FieldType, LocatedField, PayloadEncoder, Place, ProviderSchema, Storage, StrEncoding,
        encoding,
    },
    set_thread_key_value,
    sink::{
        Batch, FileOptions, FileSink, MemorySink, Padding, RotatingFiles, RotationOptions, Sink,
        StreamEnd, StreamSink, WriteError,
    },
};

/// An encoder of an application's own, with nothing but this crate: the calls as text.
#[derive(Default)]
struct Calls(Vec<String>);

macro_rules! calls {
    ($($name:ident: $ty:ty),* $(,)?) => {
        $(fn $name(&mut self, value: $ty) {
            self.0.push(format!("{} {value}", stringify!($name)));
        })*
    };
}

impl PayloadEncoder for Calls {
    type Mark = usize;

    calls! {
        bool: bool, u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i8: i8, i16: i16, i32: i32,
        i64: i64, i128: i128, f32: f32, f64: f64, var_uint: u64, var_int: i64,
    }

    fn str(&mut self, value: &str, encoding: StrEncoding) {
        self.0.push(format!("{encoding:?} {value}"));
    }

    fn guid(&mut self, value: &[u8; 16]) {
        self.0.push(format!("guid {value:?}"));
    }

    fn begin_array(&mut self, len: usize, layout: ArrayLayout) -> usize {
        self.0.push(format!("{layout:?} array of {len}"));
        self.0.len()
    }

    fn end_array(&mut self, mark: usize) {
        self.0.push(format!("end of {mark}"));
    }

    fn begin_option(&mut self, present: bool, ty: &'static FieldType) -> usize {
        self.0.push(format!("{ty:?} present: {present}"));
        self.0.len()
    }

    fn end_option(&mut self, mark: usize) {
        self.0.push(format!("end of {mark}"));
    }

    fn begin_location(&mut self, ty: &'static FieldType) -> usize {
        self.0.push(format!("location of {ty:?}"));
        self.0.len()
    }

    fn begin_location_data(&mut self, mark: usize, _: &'static FieldType) {
        self.0.push(format!("data of {mark}"));
    }

    fn location_str(&mut self, value: &str, encoding: StrEncoding) {
        self.str(value, encoding);
    }

    fn end_location_data(&mut self, mark: usize, _: &'static FieldType) {
        self.0.push(format!("end of data of {mark}"));
    }
}

/// A field of an application's own.
struct Percent(f64);

impl TraceField for Percent {
    const TYPE: FieldType = FieldType::U8;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u8(self.0 as u8);
    }
}

/// An event that no derive has written.
struct Load {
    percent: Percent,
    address: IpAddr,
}

static SCHEMA: EventSchema = EventSchema {
    provider: ProviderSchema { name: "Public-Names", guid: None, group: None },
    name: "Load",
    id: 1,
    place: Place::UNKNOWN,
    id_is_explicit: true,
    version: 0,
    level: Level::Informational,
    keywords: 0,
    opcode: None,
    tag: 0,
    message: None,
    description: None,
    key_values: &[],
    fields: &[
        FieldSchema::new("percent", <Percent as TraceField>::TYPE),
        FieldSchema::new("address", FieldType::IpAddr),
    ],
};
static LOAD: EventType = EventType::new(&SCHEMA);

impl TraceEvent for Load {
    fn event_types() -> &'static [&'static EventType] {
        static TYPES: [&EventType; 1] = [&LOAD];
        &TYPES
    }

    fn event_type(&self) -> &'static EventType {
        &LOAD
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        self.percent.encode_field(encoder);
        self.address.encode_field(encoder);
    }
}

/// A sink of an application's own, around another.
struct Around(MemorySink);

impl Sink for Around {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let _: Option<Padding> = end.padding();
        self.0.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.0.write(batch)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
}

#[test]
fn an_event_a_field_an_encoder_and_a_sink_take_no_second_crate() {
    let load = Load { percent: Percent(42.5), address: Ipv4Addr::LOCALHOST.into() };
    let mut calls = Calls::default();
    load.encode(&mut calls);
    assert_eq!(calls.0, ["u8 42", "Utf16 127.0.0.1"]);

    let memory = MemorySink::new();
    let builder: SessionBuilder = Session::builder().sink(Around(memory.clone()));
    let session: Session = builder.provider(ProviderFilter::new("Public-Names")).start().unwrap();
    load.emit();
    let stats: Stats = session.finish().unwrap();
    let (drops, left_out): (Drops, LeftOut) = (stats.drops, stats.left_out);
    let _: Option<SinkError> = stats.last_sink_error;
    assert_eq!((stats.written, drops.total(), left_out.labels), (1, 0, 0));
    let report = nettrace_reader::verify(&*memory.bytes()).unwrap();
    assert!(report.is_sound() && report.events == 1, "{report:?}");
}

/// Compiles if every error, and all that it has in it, has a name here.
#[test]
fn errors_and_what_is_in_them_have_names() {
    fn parts(error: &Error) -> String {
        match error {
            Error::Register(RegisterError::IdClash { refused, holder }) => {
                let (refused, holder): (&EventSchema, &EventSchema) = (refused, holder);
                format!("{} {}", refused.name, holder.name)
            }
            Error::Format(FormatError::BlockTooLarge { kind, size }) => {
                let (kind, size): (&BlockKind, &usize) = (kind, size);
                format!("{kind:?} {size}")
            }
            Error::FileName(FileNameError::Unknown { placeholder, .. }) => placeholder.clone(),
            Error::Sink(cause) => cause.kind().to_string(),
            Error::FinishTimeout { after } => {
                let after: Duration = *after;
                format!("{after:?}")
            }
            other => other.to_string(),
        }
    }
    assert_eq!(parts(&Error::Sink(io::ErrorKind::BrokenPipe.into())), "broken pipe");
    let too_large = FormatError::BlockTooLarge { kind: BlockKind::Event, size: 7 };
    assert_eq!(parts(&too_large.into()), "Event 7");

    // While nobody listens, labels are not looked at.
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    let entered: Result<LabelScope, LabelError> = enter_labels(&[Label::Str("key", "value")]);
    assert!(entered.is_ok());
    let long = "x".repeat(MAX_LABEL_BYTES);
    let entered = enter_labels(&[Label::Str("key", &long)]);
    assert_eq!(entered.unwrap_err(), LabelError::TooLong);
    session.finish().unwrap();
    let set: Result<(), ThreadKeyValueError> = set_thread_key_value("", "value");
    assert_eq!(set, Err(ThreadKeyValueError::EmptyKey));
}

/// Compiles if the types have names here.
#[allow(dead_code, reason = "it is enough that it compiles")]
fn types_have_names(
    _: (Clock, Format, Ids, OnFull, Origin<'_>, ThreadRef),
    _: (ArrayLayout, FieldFormat, FieldRole, FieldSchema, Storage, SocketAddr),
    _: (FileOptions, FileSink, RotationOptions, RotatingFiles, StreamSink<io::Sink>),
    _: impl FieldAs<encoding::VarInt> + LocatedField<encoding::RelLoc>,
) {
}
