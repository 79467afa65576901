//! An allocator that emits, within a capture. A program of its own, because a program has one
//! allocator.
#![allow(unsafe_code, reason = "an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use nettrace_writer::{Emit, TraceEvent, testing};

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Allocator")]
struct Allocated {
    bytes: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Allocator")]
struct Sold {
    cents: u64,
}

thread_local! {
    static EMITS: Cell<bool> = const { Cell::new(false) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static DEEPEST: Cell<u32> = const { Cell::new(0) };
}

struct Emitting;

fn tell(layout: Layout) {
    if EMITS.get() {
        DEPTH.set(DEPTH.get() + 1);
        DEEPEST.set(DEEPEST.get().max(DEPTH.get()));
        Allocated { bytes: layout.size() as u64 }.emit();
        DEPTH.set(DEPTH.get() - 1);
    }
}

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Emitting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        tell(layout);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        tell(layout);
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Emitting = Emitting;

#[test]
fn an_allocator_may_emit() {
    // Registers the types.
    Allocated { bytes: 0 }.emit();
    Sold { cents: 0 }.emit();
    let events = testing::capture();
    EMITS.set(true);
    Sold { cents: 7 }.emit();
    drop(std::hint::black_box(vec![0_u8; 12_345]));
    let captured = events.events().len();
    EMITS.set(false);
    assert!(captured >= 3, "{captured}");
    assert!(DEEPEST.get() <= 3, "{}", DEEPEST.get());
    assert_eq!(events.of::<Sold>().len(), 1);
    let of_vec = events.of::<Allocated>().into_iter().filter(|it| it.get::<u64>("bytes") == 12_345);
    assert_eq!(of_vec.count(), 2);
}
