//! dial9-trace-format: a derived event, written into an encoder of the thread.

use std::{cell::RefCell, hint::black_box};

use dial9_trace_format::{TraceEvent, decoder::Decoder, encoder::Encoder};

use crate::{
    clock::ticks,
    harness::{Peer, numbers},
};

thread_local! {
    static ENCODER: RefCell<Encoder<Vec<u8>>> = RefCell::new(Encoder::new());
}

/// The event.
#[derive(TraceEvent)]
#[traceevent(wire_slot)]
struct Work {
    /// Raw ticks, although the format asks for nanoseconds, so that scaling is not measured.
    #[traceevent(timestamp)]
    timestamp_ns: u64,
    a: u64,
    b: u64,
}

/// The library has no recorder outside tokio. This one is the obvious way to use its encoder.
pub(crate) struct Dial9;

impl Peer for Dial9 {
    fn name(&self) -> &'static str {
        "dial9_trace_format"
    }

    fn what(&self) -> &'static str {
        "derived event, thread-local encoder, rdtsc"
    }

    fn prepare(&mut self, events: u64) {
        ENCODER.with_borrow_mut(|encoder| {
            // More than the events can take: each has a header of 6 bytes and two varints of at
            // most 10.
            let room = Vec::with_capacity(events as usize * 32 + 4096);
            encoder.reset_to(touched(room)).expect("a Vec takes everything");
        });
    }

    fn pass(&mut self, first: u64, events: u64) {
        for index in first..first + events {
            let (a, b) = numbers(index);
            ENCODER.with_borrow_mut(|encoder| {
                let work = Work { timestamp_ns: ticks(), a, b };
                encoder.write(&work).expect("a Vec takes everything");
            });
        }
        ENCODER.with_borrow(|encoder| {
            black_box(encoder.as_inner());
        });
    }

    fn collect(&mut self) -> u64 {
        ENCODER.with_borrow(|encoder| {
            let mut events = 0;
            let mut decoder = Decoder::new(encoder.as_inner()).expect("a header was written");
            decoder.for_each_event(|_| events += 1).expect("what was written can be read");
            events
        })
    }
}

/// The same buffer after every page has been touched.
fn touched(mut room: Vec<u8>) -> Vec<u8> {
    room.resize(room.capacity(), 1);
    black_box(&mut room).clear();
    room
}
