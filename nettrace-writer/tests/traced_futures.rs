//! `#[traced]` on futures: what the trace says of their calls.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]

mod span_support;

use std::{
    cell::Cell,
    future::{Ready, ready},
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    rc::Rc,
};

use nettrace_reader::{Reader, Value};
use nettrace_writer::{Context, Session, sink::MemorySink, traced};

use crate::span_support::{block_on, inside, pending, poll_and_drop, seen, texts};

#[traced(provider = "Calls", fields = [turns, twice: u32 = turns * 2])]
async fn wait(turns: u32) -> u32 {
    inside(turns);
    pending(turns).await;
    turns
}

#[test]
fn a_call_begins_at_the_first_poll_and_ends_when_its_future_is_ready() {
    let events = texts(|| {
        let future = wait(2);
        inside(7);
        assert_eq!(block_on(future), 2);
        drop(wait(3));
    });
    assert_eq!(
        events,
        [
            "Inside(number=7)",
            "waitStart(turns=2, twice=4)",
            "Inside(number=2)",
            "waitStop(outcome=ok, polls=3)",
        ]
    );
}

#[test]
fn a_dropped_future_is_cancelled() {
    let events = seen(|| poll_and_drop(wait(3), 2));
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    let expected = ["waitStart(turns=3, twice=6)", "Inside(number=3)"];
    assert_eq!(texts[..2], expected);
    assert_eq!(texts[2..], ["waitStop(outcome=cancelled, polls=2)"]);
    assert!(events[0].span.is_some() && events.iter().all(|event| event.span == events[0].span));
}

#[traced(provider = "Calls", err, ret)]
async fn fail(number: i32) -> Result<u32, std::num::TryFromIntError> {
    pending(1).await;
    assert!(number < 9, "on purpose");
    let number = u32::try_from(number)?;
    Ok(number)
}

type Alias = Result<(), ()>;

#[traced(provider = "Calls")]
async fn fails_by_another_name() -> Alias {
    pending(1).await;
    Err(())
}

#[test]
fn the_outcome_is_known() {
    let events = texts(|| {
        block_on(fail(1)).unwrap();
        block_on(fail(-1)).unwrap_err();
        panic::catch_unwind(AssertUnwindSafe(|| block_on(fail(9)))).unwrap_err();
        block_on(fails_by_another_name()).unwrap_err();
    });
    assert_eq!(
        events,
        [
            "failStart()",
            "failStop(outcome=ok, polls=2, ret=[1], err=[])",
            "failStart()",
            "failStop(outcome=err, polls=2, ret=[], \
             err=[out of range integral type conversion attempted])",
            "failStart()",
            "failStop(outcome=panicked, polls=2, ret=[], err=[])",
            "fails_by_another_nameStart()",
            "fails_by_another_nameStop(outcome=err, polls=2)",
        ]
    );
}

#[traced(provider = "Timed")]
async fn at_once() {}

/// Also of events that take the slow path: the first of a type, and the first in a chunk.
#[test]
fn a_future_that_is_ready_at_once_is_busy_all_the_time() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Timed").start().unwrap();
    for _ in 0..10_000 {
        block_on(at_once());
    }
    let stats = session.finish().unwrap();
    let bytes = memory.bytes();
    let mut events = Reader::new(&bytes[..]).unwrap().sorted();
    let mut stops = 0;
    while let Some(event) = events.next_event().unwrap() {
        let fields: Vec<_> = event.fields().map(Result::unwrap).collect();
        if let [("duration", duration), _, ("polls", Value::U32(1)), ("busy", busy)] = &fields[..] {
            assert_eq!(busy, duration, "Stop {stops}");
            stops += 1;
        }
    }
    assert_eq!((stats.dropped(), stops * 2), (0, stats.written));
}

#[traced(provider = "Calls", polls)]
async fn polled() {
    pending(1).await;
    inside(1);
}

#[test]
fn polls_have_events_if_asked_for() {
    let events = seen(|| block_on(polled()));
    let opcodes: Vec<_> = events.iter().map(|event| (&*event.text, event.opcode)).collect();
    assert_eq!(
        opcodes,
        [
            ("polledStart()", 1),
            ("polledResume()", 7),
            ("polledSuspend()", 8),
            ("polledResume()", 7),
            ("Inside(number=1)", 0),
            ("polledSuspend()", 8),
            ("polledStop(outcome=ok, polls=2)", 2),
        ]
    );
    assert!(events.iter().all(|event| event.span == events[0].span));
}

#[traced(provider = "Calls")]
async fn outer() {
    inside(1);
    wait(1).await;
    inside(2);
}

#[traced(provider = "Calls", parent = context.as_ref().unwrap_or(&Context::none()))]
async fn child(context: Option<Context>) -> Context {
    pending(1).await;
    drop(context);
    Context::current()
}

#[test]
fn spans_follow_their_futures() {
    let events = seen(|| {
        let mut calls = [Box::pin(outer()), Box::pin(outer())];
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for call in &mut calls {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        inside(0);
        for call in &mut calls {
            assert!(call.as_mut().poll(&mut context).is_ready());
        }
        let of_first = block_on(child(None));
        block_on(child(Some(of_first)));
    });
    let (starts, others): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.opcode == 1);
    let names: Vec<_> = starts.iter().map(|event| &*event.name).collect();
    let [a, b, c, d, root, child] = starts[..] else { panic!("{starts:?}") };
    assert_eq!(names[..2], ["outerStart", "waitStart"]);
    assert_eq!((b.related, d.related), (a.activity, c.activity));
    assert_eq!((b.trace, d.trace), (a.trace, c.trace));
    assert_ne!(a.trace, c.trace);
    assert_eq!((a.related, root.related, child.related), (None, None, root.activity));
    let others: Vec<_> = others.iter().map(|event| (&*event.text, event.span)).collect();
    let (stop, outer_stop) = ("waitStop(outcome=ok, polls=2)", "outerStop(outcome=ok, polls=2)");
    assert_eq!(
        others[..5],
        [
            ("Inside(number=1)", a.span),
            ("Inside(number=1)", b.span),
            ("Inside(number=1)", c.span),
            ("Inside(number=1)", d.span),
            ("Inside(number=0)", None),
        ]
    );
    assert_eq!(others[5..8], [(stop, b.span), ("Inside(number=2)", a.span), (outer_stop, a.span)]);
}

/// Emits when it is dropped, and unwinds then if it is to.
struct Held {
    unwinds: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        inside(8);
        assert!(!self.unwinds, "on purpose");
    }
}

#[traced(provider = "Calls")]
async fn hold(held: Held) {
    let _held = &held;
    pending(1).await;
}

/// Whether it is ready, unwinds then, or is dropped.
#[test]
fn what_a_future_holds_is_dropped_within_its_span() {
    let ends: [(fn(), &str); 3] = [
        (|| block_on(hold(Held { unwinds: false })), "holdStop(outcome=ok, polls=2)"),
        (
            || {
                let unwinds = AssertUnwindSafe(|| block_on(hold(Held { unwinds: true })));
                panic::catch_unwind(unwinds).unwrap_err();
            },
            "holdStop(outcome=panicked, polls=2)",
        ),
        (
            || poll_and_drop(hold(Held { unwinds: false }), 1),
            "holdStop(outcome=cancelled, polls=1)",
        ),
    ];
    for (call, stop) in ends {
        let events = seen(call);
        let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
        assert_eq!(texts, ["holdStart()", "Inside(number=8)", stop]);
        assert!(events[0].span.is_some());
        assert!(events.iter().all(|event| event.span == events[0].span));
    }
}

#[traced(provider = "Calls", fields = [depth])]
async fn recurse(depth: u32) -> u32 {
    if depth == 0 {
        return 0;
    }
    Box::pin(recurse(depth - 1)).await + 1
}

/// Functions that return futures, and what a call of each says.
mod shapes {
    use std::{future::Future, pin::Pin};

    use nettrace_writer::traced;

    use super::{inside, pending};

    #[allow(clippy::manual_async_fn, reason = "the shape")]
    #[traced(provider = "Calls", name = "block", fields = [text])]
    pub(super) fn block(text: &str) -> impl Future<Output = Result<usize, ()>> + '_ {
        async move {
            pending(1).await;
            let text = Some(text).filter(|text| !text.is_empty()).ok_or(())?;
            Ok(text.len())
        }
    }

    #[traced(provider = "Calls", name = "before", fields = [number])]
    pub(super) fn before(number: u32) -> impl Future<Output = u32> + Send {
        inside(number);
        let more = number + 1;
        async move {
            pending(1).await;
            more
        }
    }

    #[traced(provider = "Calls", name = "other", fields = [number])]
    pub(super) fn other(number: u32) -> impl Future<Output = ()> {
        inside(number);
        pending(number)
    }

    #[traced(provider = "Calls", name = "boxed", fields = [text])]
    pub(super) fn boxed(text: &str) -> Pin<Box<dyn Future<Output = usize> + Send + '_>> {
        let len = text.len();
        Box::pin(async move {
            pending(1).await;
            len
        })
    }

    #[traced(provider = "Calls", name = "boxes", polls)]
    pub(super) fn boxes(number: u32) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(pending(number)) as Pin<Box<dyn Future<Output = ()>>>
    }

    pub(super) trait Store: Sync {
        fn load<'a, 'b>(
            &'a self,
            key: &'a str,
        ) -> Pin<Box<dyn Future<Output = Result<String, ()>> + Send + 'b>>
        where
            'a: 'b,
            Self: 'b;
    }

    pub(super) struct Memory {
        pub(super) prefix: String,
    }

    impl Store for Memory {
        // What the crate `async-trait` makes of an async method.
        #[traced(
            provider = "Calls",
            name = "load",
            ret,
            fields = [key, prefix: &str = &self.prefix],
        )]
        #[allow(clippy::all, clippy::pedantic, reason = "as the crate writes it")]
        fn load<'life0, 'async_trait>(
            &'life0 self,
            key: &'life0 str,
        ) -> ::core::pin::Pin<
            Box<
                dyn ::core::future::Future<Output = Result<String, ()>>
                    + ::core::marker::Send
                    + 'async_trait,
            >,
        >
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async move {
                if let ::core::option::Option::Some(__ret) =
                    ::core::option::Option::None::<Result<String, ()>>
                {
                    #[allow(unreachable_code)]
                    return __ret;
                }
                let __self = self;
                let key = key;
                let __ret: Result<String, ()> = {
                    pending(1).await;
                    if key.is_empty() {
                        return Err(());
                    }
                    Ok(format!("{}{key}", __self.prefix))
                };
                #[allow(unreachable_code)]
                __ret
            })
        }
    }

    pub(super) struct Counter(pub(super) u32);

    impl Counter {
        #[traced(provider = "Calls", name = "add", fields = [by, before = u64::from(self.0)])]
        pub(super) async fn add<T>(&mut self, by: u32, mut more: T) -> &mut Self
        where
            T: Default + Into<u32> + Send,
        {
            const ONE: u32 = 1;
            let more = std::mem::take(&mut more).into();
            pending(ONE).await;
            self.0 += by + more;
            self
        }

        #[traced(provider = "Calls", name = "take")]
        pub(super) async fn take(self) -> Result<impl Iterator<Item = u32>, String> {
            pending(1).await;
            (0..9).find(|number| *number > self.0).ok_or("none")?;
            Ok(0..self.0)
        }
    }

    #[traced(provider = "Calls", name = "patterns", fields = [c])]
    pub(super) async fn patterns((a, b): (u8, u8), _: u8, mut c: u8) -> u8 {
        c += 1;
        pending(1).await;
        a + b + c
    }

    #[traced(provider = "Calls", name = "never")]
    pub(super) async fn never() -> ! {
        pending(1).await;
        panic!("on purpose")
    }

    #[traced(provider = "Calls", name = "sized", enabled_if = N > 1)]
    pub(super) async fn sized<const N: usize>(values: &[u8; N]) -> usize {
        pending(1).await;
        values.len()
    }

    /// # Safety
    ///
    /// The pointer is of a number.
    #[traced(provider = "Calls", name = "read")]
    #[allow(unsafe_code, reason = "the shape")]
    pub(super) async unsafe fn read(pointer: &*const u32) -> u32 {
        // SAFETY: by the contract of this function.
        unsafe { **pointer }
    }
}

#[test]
fn functions_of_every_shape_work() {
    use shapes::Store as _;
    let memory = shapes::Memory { prefix: "p/".to_owned() };
    let seven = 7;
    let mut counter = shapes::Counter(1);
    let events = texts(|| {
        assert_eq!(block_on(shapes::block("four")), Ok(4));
        assert_eq!(block_on(shapes::block("")), Err(()));
        assert_eq!(block_on(shapes::before(1)), 2);
        block_on(shapes::other(1));
        assert_eq!(block_on(shapes::boxed("two")), 3);
        block_on(shapes::boxes(0));
        assert_eq!(block_on(memory.load("key")), Ok("p/key".to_owned()));
        assert_eq!(block_on(memory.load("")), Err(()));
        assert_eq!(block_on(counter.add(2, 0_u8)).0, 3);
        assert_eq!(block_on(counter.take()).map(Iterator::count), Ok(3));
        assert_eq!(block_on(shapes::patterns((1, 2), 0, 3)), 7);
        panic::catch_unwind(|| block_on(shapes::never())).unwrap_err();
        assert_eq!(block_on(shapes::sized(&[0])), 1);
        assert_eq!(block_on(shapes::sized(&[0, 1])), 2);
        #[allow(unsafe_code, reason = "the shape")]
        // SAFETY: it is the address of a number.
        let read = unsafe { block_on(shapes::read(&(&raw const seven))) };
        assert_eq!(read, 7);
        assert_eq!(block_on(recurse(2)), 2);
    });
    assert_eq!(
        events,
        [
            "blockStart(text=four)",
            "blockStop(outcome=ok, polls=2)",
            "blockStart(text=)",
            "blockStop(outcome=err, polls=2)",
            "Inside(number=1)",
            "beforeStart(number=1)",
            "beforeStop(outcome=ok, polls=2)",
            "otherStart(number=1)",
            "Inside(number=1)",
            "otherStop(outcome=ok, polls=2)",
            "boxedStart(text=two)",
            "boxedStop(outcome=ok, polls=2)",
            "boxesStart()",
            "boxesResume()",
            "boxesSuspend()",
            "boxesStop(outcome=ok, polls=1)",
            "loadStart(key=key, prefix=p/)",
            "loadStop(outcome=ok, polls=2, ret=[\"p/key\"])",
            "loadStart(key=, prefix=p/)",
            "loadStop(outcome=err, polls=2, ret=[])",
            "addStart(by=2, before=1)",
            "addStop(outcome=ok, polls=2)",
            "takeStart()",
            "takeStop(outcome=ok, polls=2)",
            "patternsStart(c=3)",
            "patternsStop(outcome=ok, polls=2)",
            "neverStart()",
            "neverStop(outcome=panicked, polls=2)",
            "sizedStart()",
            "sizedStop(outcome=ok, polls=2)",
            "readStart()",
            "readStop(outcome=ok, polls=1)",
            "recurseStart(depth=2)",
            "recurseStart(depth=1)",
            "recurseStart(depth=0)",
            "recurseStop(outcome=ok, polls=1)",
            "recurseStop(outcome=ok, polls=1)",
            "recurseStop(outcome=ok, polls=1)",
        ]
    );
}

#[traced(provider = "Calls", fields = [debug(numbers)], ret)]
async fn not_sync(numbers: Cell<u32>, dynamic: Box<dyn Fn() -> u32 + Send>) -> Cell<u32> {
    numbers.set(dynamic());
    pending(1).await;
    numbers
}

#[traced(provider = "Calls", err)]
async fn not_send(shared: Rc<u32>) -> Result<u32, Rc<u32>> {
    pending(1).await;
    if *shared > 1 { Err(shared) } else { Ok(*shared) }
}

#[traced(provider = "Calls")]
async fn yields() -> Ready<u32> {
    pending(1).await;
    ready(3)
}

/// The type says that the future is `Send`.
fn sent<F>(future: F) -> Pin<Box<dyn Future<Output = F::Output> + Send>>
where
    F: Future + Send + 'static,
{
    Box::pin(future)
}

#[test]
fn a_future_is_send_if_it_was() {
    let events = texts(|| {
        let future = sent(not_sync(Cell::new(1), Box::new(|| 2)));
        assert_eq!(block_on(future).get(), 2);
        block_on(sent(recurse(0)));
        block_on(sent(wait(0)));
        block_on(sent(fail(0))).unwrap();
        assert_eq!(block_on(not_send(Rc::new(2))).unwrap_err(), Rc::new(2));
        assert_eq!(block_on(block_on(yields())), 3);
    });
    assert_eq!(events[0], "not_syncStart(numbers=Cell { value: 1 })");
    assert_eq!(events[1], "not_syncStop(outcome=ok, polls=2, ret=[Cell { value: 2 }])");
    assert_eq!(events[10], "not_sendStop(outcome=err, polls=2, err=[2])");
}

/// The sizes are of 64-bit machines.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_future_grows_by_its_span_and_arguments() {
    /// The same functions without and with the attribute.
    macro_rules! plain_and_traced {
        ($($function:item)*) => {
            mod plain {
                use super::pending;
                $($function)*
            }

            mod with_spans {
                use super::{pending, traced};
                $(#[traced(provider = "Calls")] $function)*
            }
        };
    }

    plain_and_traced! {
        pub(super) async fn keeps<T>(argument: T) -> T {
            pending(1).await;
            argument
        }

        pub(super) async fn moves<T>(argument: T) -> T {
            let moved = argument;
            pending(1).await;
            moved
        }

        pub(super) async fn passes_on<T>(argument: T) -> T {
            keeps(argument).await
        }

        pub(super) fn returns_block<T>(argument: T) -> impl Future<Output = T> {
            let times = 1;
            async move {
                pending(times).await;
                argument
            }
        }
    }

    macro_rules! growth {
        ($function:ident, $argument:expr) => {
            size_of_val(&with_spans::$function($argument))
                - size_of_val(&plain::$function($argument))
        };
    }

    fn check<T: Copy>(argument: T) {
        const SPAN: usize = 144;
        let keeps = growth!(keeps, argument);
        assert!(keeps <= SPAN, "{keeps}");
        // Both functions are traced.
        let passes_on = growth!(passes_on, argument);
        assert!(passes_on <= 2 * SPAN + size_of::<T>(), "{passes_on}");
        for once_more in [growth!(moves, argument), growth!(returns_block, argument)] {
            assert!(once_more <= SPAN + size_of::<T>(), "{once_more}");
        }
    }

    check(());
    check([0_u8; 64]);
    check([0_u8; 1024]);
}
