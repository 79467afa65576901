//! Writing an event allocates nothing: for events of any size, with or without activities, cut or
//! refused, and for run-time events that reuse a builder's memory.
#![cfg(target_os = "linux")]

use std::{fs::File, hint};

use eventheader_writer::{
    Context, DynamicProvider, Emit, EventBuilder, Level, OnTooLarge, TraceEvent, counters,
    emit_lazy, on_too_large, redirect, register,
};
use testkit::allocations::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(TraceEvent)]
#[trace_event(provider = "Allocations")]
struct Event<'a> {
    number: u64,
    maybe: Option<u32>,
    list: &'a [u16],
    texts: &'a [&'a str],
}

#[test]
fn nothing_is_allocated() {
    redirect(File::options().write(true).open("/dev/null").unwrap()).unwrap();
    register!(Event<'_>).unwrap();
    assert!(allocations::of(|| drop(hint::black_box(Box::new(1)))) > 0, "the count counts");
    let long = "x".repeat(3_000);
    let (id, related) = ([1; 16], [2; 16]);
    let context = Context::new().activity(&id).related(&related);
    fn of<'a>(texts: &'a [&'a str]) -> Event<'a> {
        Event { number: 1, maybe: Some(2), list: &[3, 4], texts }
    }
    let made = allocations::of(|| {
        let three = [long.as_str(); 3];
        for texts in [&[][..], &["a", "b"], &three[..1], &three[..2], &three] {
            (&of(texts)).emit();
            of(texts).emit_with(&context);
            emit_lazy(|| of(texts));
        }
        on_too_large(OnTooLarge::Cut);
        of(&three).emit();
    });
    assert_eq!(made, 0);
    let counts = counters();
    assert_eq!((counts.written, counts.too_large, counts.cut), (13, 3, 1));
    assert_eq!(counts.failed_in_all(), 0);

    let provider = DynamicProvider::new("Allocations").unwrap();
    let tracepoint = provider.tracepoint(Level::Informational, 1);
    let mut builder = EventBuilder::new("First");
    let write = |builder: &mut EventBuilder, name: &str| {
        builder.clear(name).id(1, 2).attribute("key", "value");
        builder.add("number", &7_u64).add("text", long.as_str()).add("maybe", &None::<u8>);
        builder.add_struct("inner", |inner| {
            inner.add("list", &[1_u8, 2][..]);
        });
        builder.write_with(&tracepoint, &context).unwrap();
    };
    write(&mut builder, "First");
    assert_eq!(allocations::of(|| write(&mut builder, "Later")), 0);
    assert_eq!(counters().written, 15);
}
