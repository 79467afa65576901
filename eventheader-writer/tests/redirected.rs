//! Checks events from the emit to the write, through a descriptor of the test that gets every write
//! that the kernel would get. The process has one descriptor, so the tests run as one.
#![cfg(target_os = "linux")]

mod decoder;

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    panic::catch_unwind,
    sync::atomic::Ordering,
};

use decoder::{Decoded, decode};
use eventheader_writer::{
    Availability, Context, Counters, DynamicProvider, Emit, Error, EventBuilder, FieldFormat,
    Level, MAX_EVENT_BYTES, OnTooLarge, TraceEvent, TraceField, backend::write_if_enabled,
    counters, emit, encoded, on_too_large, redirect, register, status,
};
use nettrace_event::{FieldType, KERNEL_BIT, NOT_REGISTERED, PayloadEncoder};
use serde_json::{Value, json};
use testkit::process::{Alone, one_at_a_time};

/// The other end of the descriptor that events are written to.
struct Kernel {
    events: UnixDatagram,
    before: Counters,
    _alone: Alone,
}

impl Kernel {
    fn new() -> Self {
        let alone = one_at_a_time();
        let (near, events) = UnixDatagram::pair().unwrap();
        events.set_nonblocking(true).unwrap();
        redirect(File::from(OwnedFd::from(near))).unwrap();
        on_too_large(OnTooLarge::Refuse);
        Self { events, before: counters(), _alone: alone }
    }

    /// The tracepoint's name and the event.
    fn next(&self) -> Option<(String, Decoded)> {
        let mut bytes = [0; 70_000];
        let len = self.events.recv(&mut bytes).ok()?;
        let (index, event) = bytes[..len].split_first_chunk().expect("a write index");
        let index = Some(u32::from_ne_bytes(*index));
        let name = status().tracepoints.into_iter().find(|one| one.write_index == index)?.name;
        let decoded = decode(&name, event);
        Some((name, decoded))
    }

    fn event(&self) -> Decoded {
        self.next().expect("an event").1
    }

    /// The counts of written, disabled, too large and failed events since the start.
    fn counted(&self) -> [u64; 4] {
        let of = |c: &Counters| [c.written, c.disabled, c.too_large, c.failed_in_all()];
        let (now, before) = (of(&counters()), of(&self.before));
        std::array::from_fn(|at| now[at] - before[at])
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Redirected-Tests", keywords = 0x1F, level = Verbose, group = "tests")]
struct Answered<'a> {
    url: &'a str,
    micros: u64,
}

#[test]
fn an_event_is_one_write() {
    let kernel = Kernel::new();
    Answered { url: "/cart", micros: 7 }.emit();
    (&Answered { url: "/", micros: 8 }).emit();
    emit!(Answered { url: "/lazy", micros: 9 });
    let (name, event) = kernel.next().unwrap();
    assert_eq!(name, "Redirected_Tests_L5K1fGtests");
    assert_eq!((event.provider.as_str(), event.keyword), ("Redirected_Tests", 0x1F));
    assert_eq!(Value::from(event.fields), json!({"url": "/cart", "micros": 7}));
    assert_eq!(kernel.event().fields["micros"], 8);
    assert_eq!(kernel.event().fields["micros"], 9);
    assert!(kernel.next().is_none());
    assert_eq!(kernel.counted(), [3, 0, 0, 0]);
    assert_eq!(status().availability, Availability::Redirected);
}

#[test]
fn activities_stand_in_the_header() {
    let kernel = Kernel::new();
    let (id, related) = ([1; 16], [2; 16]);
    Answered { url: "", micros: 0 }.emit_with(&Context::new().activity(&id).related(&related));
    let event = kernel.event();
    assert_eq!((event.activity, event.related), (Some(id), Some(related)));
}

#[test]
fn types_with_the_same_attributes_share_a_tracepoint() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Sharing", keywords = 1)]
    enum Shared {
        A(u8),
        B,
        #[trace_event(level = Error)]
        C,
    }
    mod elsewhere {
        #[derive(eventheader_writer::TraceEvent)]
        #[trace_event(provider = "Sharing", keywords = 1)]
        pub(super) struct Another;
    }
    let kernel = Kernel::new();
    let now = register!(Shared, elsewhere::Another).unwrap();
    let again = register!(Shared).unwrap();
    assert_eq!(now, again);
    let types = |name: &str| {
        let found = now.tracepoints.iter().find(|one| one.name == name)?;
        assert!(found.enabled);
        Some(found.types)
    };
    assert_eq!(types("Sharing_L4K1"), Some(3));
    assert_eq!(types("Sharing_L2K1"), Some(1));
    [Shared::A(1), Shared::B, Shared::C].into_iter().for_each(Emit::emit);
    elsewhere::Another.emit();
    let names = std::iter::from_fn(|| kernel.next()).map(|(name, event)| (name, event.name));
    let expected = [
        ("Sharing_L4K1", "SharedA"),
        ("Sharing_L4K1", "SharedB"),
        ("Sharing_L2K1", "SharedC"),
        ("Sharing_L4K1", "Another"),
    ];
    let expected = expected.map(|(name, event)| (name.to_owned(), event.to_owned()));
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// `Clash-1` and `Clash_1` differ in characters that a tracepoint's name cannot have.
#[test]
fn providers_whose_names_become_one_have_tracepoints_of_their_own() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Clash-1", keywords = 1)]
    struct Dash(u8);
    #[derive(TraceEvent)]
    #[trace_event(provider = "Clash_1", keywords = 1)]
    struct Line(u8);
    #[derive(TraceEvent)]
    #[trace_event(provider = "Clash_1", keywords = 1)]
    struct Another(u8);
    let kernel = Kernel::new();
    let status = register!(Dash, Line, Another).unwrap();
    let runtime = DynamicProvider::new("Clash.1").unwrap().tracepoint(Level::Informational, 1);
    let same = DynamicProvider::new("Clash_1").unwrap().tracepoint(Level::Informational, 1);
    Dash(1).emit();
    Line(2).emit();
    Another(3).emit();
    EventBuilder::new("Built").write(&runtime).unwrap();
    EventBuilder::new("Built").write(&same).unwrap();
    let names: Vec<_> = std::iter::from_fn(|| kernel.next()).map(|(name, _)| name).collect();
    let [dash, line, another, built, built_there] = &names[..] else { panic!("{names:?}") };
    assert_eq!(dash, "Clash_1_L4K1");
    assert!(line.starts_with("Clash_1_x") && line.ends_with("_L4K1"), "{line}");
    assert_eq!([another, built_there], [line, line]);
    assert!(built != line && built != dash, "{built}");
    assert_eq!([runtime.name(), same.name()], [built, line]);
    // Registration says so, with both providers and both names.
    let told: Vec<_> = status.renamed.iter().filter(|text| text.contains("Clash")).collect();
    let expected = format!(
        "the tracepoint of provider `Clash_1` is `{line}`, because `Clash_1_L4K1` is that of \
         provider `Clash-1`; to choose a name, rename the provider"
    );
    assert_eq!(told, [&expected]);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Redirected-Tests")]
struct Large {
    before: u8,
    text: String,
    #[trace_event(encoding = utf16_nul)]
    wide: String,
    after: u8,
}

impl Large {
    fn new(text: &str, wide: &str) -> Self {
        Self { before: 1, text: text.to_owned(), wide: wide.to_owned(), after: 2 }
    }
}

#[test]
fn what_is_too_large_is_refused_and_counted() {
    let kernel = Kernel::new();
    Large::new("", "").emit();
    let mut bytes = [0; 70_000];
    let room = MAX_EVENT_BYTES - (kernel.events.recv(&mut bytes).unwrap() - 4);
    Large::new(&"x".repeat(room), "").emit();
    assert_eq!(kernel.events.recv(&mut bytes).unwrap(), 4 + MAX_EVENT_BYTES);
    Large::new(&"x".repeat(room + 1), "").emit();
    Large::new("", &"x".repeat(70_000)).emit();
    assert!(kernel.next().is_none());
    assert_eq!(kernel.counted(), [2, 0, 2, 0]);
}

#[test]
fn texts_are_cut_where_that_is_wanted() {
    let kernel = Kernel::new();
    on_too_large(OnTooLarge::Cut);
    Large::new(&"é".repeat(4_096), "short").emit();
    let event = kernel.event();
    let text = event.fields["text"].as_str().unwrap();
    // 2,048 bytes, of which the ellipsis takes three. One byte is left over, because the next
    // character does not fit.
    assert_eq!(text, format!("{}…", "é".repeat(1_022)));
    assert_eq!(event.fields["wide"], "short");
    assert_eq!((&event.fields["before"], &event.fields["after"]), (&json!(1), &json!(2)));

    #[derive(TraceEvent)]
    struct Many {
        texts: Vec<String>,
        numbers: Vec<u64>,
    }
    let text = "0123456789".repeat(10);
    Many { texts: vec![text.clone(); 200], numbers: vec![1, 2] }.emit();
    let event = kernel.event();
    let texts = event.fields["texts"].as_array().unwrap();
    assert_eq!((texts.len(), &texts[0]), (200, &json!(format!("{}…", &text[..29]))));
    Many { texts: Vec::new(), numbers: vec![0; 2_000] }.emit();
    assert!(kernel.next().is_none());
    assert_eq!(kernel.counted(), [2, 0, 1, 0]);
    assert_eq!(counters().cut - kernel.before.cut, 2);
}

#[test]
fn a_listener_that_went_is_no_error() {
    let kernel = Kernel::new();
    // Not open for writing: the kernel reports the same error when nobody listens.
    redirect(File::open("/dev/null").unwrap()).unwrap();
    Answered { url: "", micros: 0 }.emit();
    assert_eq!(kernel.counted(), [0, 1, 0, 0]);
    // No space left on it.
    redirect(File::options().write(true).open("/dev/full").unwrap()).unwrap();
    Answered { url: "", micros: 0 }.emit();
    assert_eq!(kernel.counted(), [0, 1, 0, 1]);
    let no_space = counters().failed.into_iter().find(|(errno, _)| *errno == 28);
    assert_eq!(no_space, Some((28, 1)));
}

#[test]
fn a_text_that_was_cut_in_vain_is_not_counted_as_cut() {
    let kernel = Kernel::new();
    on_too_large(OnTooLarge::Cut);
    redirect(File::open("/dev/null").unwrap()).unwrap();
    Large::new(&"x".repeat(9_000), "").emit();
    assert_eq!(kernel.counted(), [0, 1, 0, 0]);
    assert_eq!(counters().cut, kernel.before.cut);
}

#[test]
fn an_event_that_panics_is_counted() {
    struct Panics;
    impl TraceField for Panics {
        const TYPE: FieldType = FieldType::U8;

        fn encode_field<E: PayloadEncoder>(&self, _: &mut E) {
            panic!("as this test wants it");
        }
    }
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redirected-Tests")]
    struct Panicking(String, Panics);

    let kernel = Kernel::new();
    on_too_large(OnTooLarge::Cut);
    for len in [1, 9_000] {
        let emitted = catch_unwind(|| Panicking("x".repeat(len), Panics).emit());
        assert!(emitted.is_err());
    }
    assert!(kernel.next().is_none());
    assert_eq!(kernel.counted(), [0; 4]);
    assert_eq!(counters().panicked - kernel.before.panicked, 2);
    let _ = catch_unwind(|| encoded(&Panicking(String::new(), Panics), &Context::new()));
    assert_eq!(counters().panicked - kernel.before.panicked, 2, "nobody emitted it");
}

/// A thread that read a type's word just before another thread registered the type finds it
/// registered with a value that belongs to no listener.
#[test]
fn an_event_that_meets_a_registration_is_none_without_a_listener() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redirected-Tests")]
    struct Met;
    let kernel = Kernel::new();
    let status = register!(Met).unwrap();
    assert!(status.tracepoints.iter().all(|one| one.enabled));
    let ty = Met::event_types()[0];
    ty.enabled_word().fetch_and(!(1 << KERNEL_BIT), Ordering::Relaxed);
    write_if_enabled(&Met, ty, NOT_REGISTERED, &Context::new());
    assert!(kernel.next().is_none());
    assert_eq!(kernel.counted(), [0; 4]);
}

#[test]
fn many_threads() {
    const EACH: u64 = 2_000;
    let kernel = Kernel::new();
    let near = File::options().write(true).open("/dev/null").unwrap();
    redirect(near).unwrap();
    #[allow(clippy::disallowed_methods, reason = "threads that emit at once")]
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for micros in 0..EACH {
                    Answered { url: "/", micros }.emit();
                }
            });
        }
    });
    assert_eq!(kernel.counted(), [4 * EACH, 0, 0, 0]);
}

#[test]
fn events_made_at_run_time() {
    let kernel = Kernel::new();
    let provider = DynamicProvider::new("Run-Time").unwrap().group("g1").unwrap();
    let tracepoint = provider.tracepoint(Level::Warning, 0x2);
    assert_eq!(tracepoint.name(), "Run_Time_L3K2Gg1");
    assert!(tracepoint.is_enabled());
    let mut builder = EventBuilder::new("First");
    builder
        .id(9, 2)
        .tag(3)
        .opcode(1)
        .attribute("unit", "s;m")
        .add("number", &7_u32)
        .add("text", "é")
        .add("maybe", &None::<i16>)
        .add("list", &[1_u8, 2][..])
        .add_as("flags", &0xAB_u16, FieldFormat::Hex)
        .add_tagged("port", &443_u16, FieldFormat::Port, 5)
        .add_utf16("utf16", &[0x61, 0xDF])
        .add_utf32("utf32", &['b', 'ß'])
        .add_latin1("latin1", &[0x63, 0xDF])
        .add_text_with_bom("bom", &[0xEF, 0xBB, 0xBF, b'd'])
        .add_utf8_nul("z8", "e\0é")
        .add_utf32_nul("z32", "f\0")
        .add_bytes("bytes", &[1, 0xFF])
        .add_struct("outer", |outer| {
            outer.add("a", &1_u8).add_struct("inner", |inner| {
                inner.add("b", &2_u8);
            });
        })
        .add("last", &true);
    let id = [9; 16];
    builder.write_with(&tracepoint, &Context::new().activity(&id)).unwrap();
    let (name, event) = kernel.next().unwrap();
    assert_eq!(name, tracepoint.name());
    assert_eq!(event.name, "First;unit=s;;m");
    assert_eq!((event.id, event.version, event.tag, event.opcode, event.level), (9, 2, 3, 1, 3));
    assert_eq!(event.activity, Some(id));
    assert_eq!(
        Value::from(event.fields),
        json!({
            "number": 7, "text": "é", "maybe": null, "list": [1, 2], "flags": "0xAB",
            "port;tag=0x5": 443, "utf16": "aß", "utf32": "bß", "latin1": "cß", "bom": "d",
            "z8": "e\u{FFFD}é", "z32": "f\u{FFFD}", "bytes": "01 FF",
            "outer": {"a": 1, "inner": {"b": 2}}, "last": true,
        })
    );
    builder.clear("Second").write(&tracepoint).unwrap();
    builder.write(&tracepoint).unwrap();
    for _ in 0..2 {
        let event = kernel.event();
        assert_eq!((event.name.as_str(), event.fields.len(), event.id), ("Second", 0, 0));
    }

    // The word is reused without the state of the earlier tracepoint.
    drop(tracepoint);
    assert!(status().tracepoints.iter().all(|one| one.name != "Run_Time_L3K2Gg1"));
    let other = provider.tracepoint(Level::Error, 0);
    EventBuilder::new("Third").write(&other).unwrap();
    assert_eq!(kernel.next().unwrap().0, "Run_Time_L2K0Gg1");
}

#[test]
fn mistakes_at_run_time_are_errors() {
    let kernel = Kernel::new();
    for name in ["", "a b", "a:b", &"x".repeat(234)] {
        assert!(matches!(DynamicProvider::new(name), Err(Error::Name { .. })), "{name:?}");
    }
    let provider = DynamicProvider::new("Mistakes").unwrap();
    for group in ["", "Upper", "a_b", &"x".repeat(226)] {
        assert!(matches!(provider.clone().group(group), Err(Error::Name { .. })), "{group:?}");
    }
    let tracepoint = provider.tracepoint(Level::Informational, 0);
    let fails = |make: fn(&mut EventBuilder)| {
        let mut builder = EventBuilder::new("Event");
        make(&mut builder);
        builder.write(&tracepoint).unwrap_err()
    };
    assert!(matches!(fails(|b| done(b.clear("a;b"))), Error::Name { what: "event", .. }));
    assert!(matches!(fails(|b| done(b.add("", &1_u8))), Error::Name { what: "field", .. }));
    assert!(matches!(fails(|b| done(b.add("a\0", &1_u8))), Error::Name { what: "field", .. }));
    assert!(matches!(
        fails(|b| done(b.attribute("a=", ""))),
        Error::Name { what: "attribute", .. }
    ));
    assert!(matches!(
        fails(|b| done(b.add("a", &1_u8).attribute("b", ""))),
        Error::Name { what: "attribute", .. }
    ));
    let port = |b: &mut EventBuilder| done(b.add_as("a", &1_u8, FieldFormat::Port));
    assert_eq!(fails(port), Error::Format { field: "a".to_owned() });
    assert!(matches!(fails(|b| done(b.add_struct("a", |_| {}))), Error::EmptyStruct { .. }));
    let wide = |b: &mut EventBuilder| {
        b.add_struct("a", |b| (0..128).for_each(|_| done(b.add("b", &1_u8))));
    };
    assert!(matches!(fails(wide), Error::TooManyFields { count: 128, .. }));
    fn nest(builder: &mut EventBuilder, levels: usize) {
        builder.add_struct("a", |inner| match levels {
            1 => done(inner.add("b", &1_u8)),
            _ => nest(inner, levels - 1),
        });
    }
    assert!(matches!(fails(|b| nest(b, 9)), Error::TooDeep { .. }));
    assert!(matches!(
        fails(|b| (0..40).for_each(|_| done(b.add(&"n".repeat(250), &1_u8)))),
        Error::Metadata { .. }
    ));
    assert!(matches!(fails(|b| done(b.add("a", &"x".repeat(9_000)))), Error::TooLarge { .. }));
    assert!(matches!(fails(|b| done(b.add_bytes("a", &[0; 70_000]))), Error::TooLarge { .. }));
    assert!(kernel.next().is_none());
    let mut deepest = EventBuilder::new("Deepest");
    nest(&mut deepest, 8);
    deepest.write(&tracepoint).unwrap();
    assert_eq!(kernel.event().name, "Deepest");
}

#[test]
fn a_type_that_cannot_be_described_is_refused() {
    macro_rules! talkative {
        ($text:literal) => {
            #[derive(TraceEvent)]
            #[trace_event(key_values = [
                ("a", $text), ("b", $text), ("c", $text), ("d", $text), ("e", $text), ("f", $text),
                ("g", $text), ("h", $text), ("i", $text), ("j", $text), ("k", $text), ("l", $text),
            ])]
            struct Talkative;
        };
    }
    talkative!(
        "01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789\
         01234567890123456789012345678901234567890123456789012345678901234567890123456789"
    );
    let kernel = Kernel::new();
    assert!(matches!(register!(Talkative), Err(Error::Metadata { .. })));
    Talkative.emit();
    assert!(kernel.next().is_none());
    let refused = status().refused;
    assert!(refused.iter().any(|words| words.contains("Talkative")), "{refused:?}");
}

fn done(_: &mut EventBuilder) {}
