//! `#[traced]` on functions that are not futures: what the trace says of their calls, and that the
//! functions are otherwise what they were.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]

mod span_support;

use std::{
    borrow::Cow,
    cell::Cell,
    fmt::{self, Display},
    io,
    panic::{self, AssertUnwindSafe},
    path::Path,
};

use nettrace_writer::{Context, traced};

use crate::span_support::{inside, seen, texts, unheard};

/// An argument that is recorded needs a type that a trace can hold; others do not.
#[traced(provider = "Calls", level = Verbose, keywords = 0x4, fields = [path, size, names])]
fn load<'a>(
    path: &Path,
    size: usize,
    names: Vec<Cow<'a, str>>,
    _: &mut u8,
) -> Option<Cow<'a, str>> {
    let first = names.into_iter().next()?;
    drop(path.to_owned());
    (size > 0).then_some(first)
}

#[test]
fn both_ends_are_recorded_on_every_way_out() {
    let events = seen(|| {
        let names = vec![Cow::Borrowed("n")];
        assert_eq!(load(Path::new("/p"), 1, names, &mut 0).as_deref(), Some("n"));
        assert_eq!(load(Path::new(""), 2, vec![], &mut 0), None);
    });
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    assert_eq!(
        texts,
        [
            "loadStart(path=/p, size=1, names=[n])",
            "loadStop(outcome=ok)",
            "loadStart(path=, size=2, names=[])",
            "loadStop(outcome=ok)",
        ]
    );
    let opcodes: Vec<_> = events.iter().map(|event| event.opcode).collect();
    assert_eq!(opcodes, [1, 2, 1, 2]);
    assert!(events.iter().all(|event| (event.level, event.keywords) == (5, 4)));
}

#[traced(provider = "Calls", name = "Outer")]
fn outer(inner: impl FnOnce()) {
    inside(1);
    inner();
    inside(3);
}

#[traced(provider = "Calls", name = "Inner")]
fn inner() {
    inside(2);
}

#[test]
fn events_carry_the_ids_of_the_call_that_they_are_in() {
    let events = seen(|| {
        inside(0);
        outer(inner);
        inside(4);
    });
    let names: Vec<_> = events.iter().map(|event| &*event.name).collect();
    let expected = ["Inside", "OuterStart", "Inside", "InnerStart", "Inside", "InnerStop"];
    assert_eq!(names[..6], expected);
    assert_eq!(names[6..], ["Inside", "OuterStop", "Inside"]);
    let ids: Vec<_> = events.iter().map(|event| event.span).collect();
    let (outer, inner) = (ids[1], ids[3]);
    assert!(outer.is_some() && inner.is_some() && outer != inner);
    assert_eq!(ids, [None, outer, outer, inner, inner, inner, outer, outer, None]);
    assert_eq!(events[3].related, events[1].activity);
    assert_eq!(events[1].related, None);
    assert_eq!(events[3].trace, events[1].trace);
}

#[traced(provider = "Calls", parent = none)]
fn root() {}

#[traced(provider = "Calls", parent = context)]
fn child(context: &Context) {}

#[test]
fn the_parent_can_be_none_or_a_context() {
    let events = seen(|| {
        outer(root);
        let mut context = Context::none();
        outer(|| context = Context::current());
        outer(|| child(&context));
    });
    let starts: Vec<_> = events.iter().filter(|event| event.opcode == 1).collect();
    let [_, root, first, second, child] = starts[..] else { panic!("{starts:?}") };
    assert_eq!((&*root.name, root.related), ("rootStart", None));
    assert_eq!(
        (&*child.name, child.related, child.trace),
        ("childStart", first.activity, first.trace)
    );
    assert_ne!(second.trace, first.trace);
}

#[traced(provider = "Calls", follows_from = context)]
fn follower(context: &Context) {}

/// A message with the context of whoever sent it.
struct Message {
    context: Context,
}

#[traced(provider = "Calls", mode = single, follows_from = &message.context)]
fn handle(message: Message) {
    drop(message);
}

#[test]
fn a_call_can_follow_from_a_span_of_another_trace() {
    let events = seen(|| {
        let mut context = Context::none();
        outer(|| context = Context::current());
        outer(|| follower(&context));
        outer(|| handle(Message { context }));
        // What has no span is followed by nobody.
        follower(&Context::none());
    });
    let named = |name| events.iter().filter(move |event| event.name == name).collect::<Vec<_>>();
    let (sender, followers, handled) = (&events[0], named("followerStart"), named("handle"));
    assert!(sender.activity.is_some());
    for follower in [followers[0], handled[0]] {
        assert_eq!(follower.related, sender.activity);
        assert_ne!(follower.trace, sender.trace);
        assert!(named("OuterStart").iter().all(|outer| outer.trace != follower.trace));
    }
    assert_eq!((followers.len(), followers[1].related), (2, None));
}

struct Temporary(u32);

impl Drop for Temporary {
    fn drop(&mut self) {
        inside(self.0);
    }
}

#[traced(provider = "Calls")]
fn drops(_argument: &Temporary) -> u32 {
    let _local = Temporary(1);
    Temporary(2).0
}

#[traced(provider = "Calls")]
fn drops_and_fails(argument: Temporary) -> Result<u32, Temporary> {
    let _local = Temporary(1);
    if argument.0 > 0 { Err(argument) } else { Ok(0) }
}

#[test]
fn a_call_ends_after_its_locals_are_dropped() {
    let argument = Temporary(9);
    let expected =
        ["dropsStart()", "Inside(number=2)", "Inside(number=1)", "dropsStop(outcome=ok)"];
    assert_eq!(texts(|| assert_eq!(drops(&argument), 2)), expected);
    let call = || drop(drops_and_fails(Temporary(7)));
    assert_eq!(
        texts(call),
        [
            "drops_and_failsStart()",
            "Inside(number=1)",
            "drops_and_failsStop(outcome=err)",
            "Inside(number=7)",
        ]
    );
}

#[traced(provider = "Calls", name = "Fall", key_values = [("a", "b")])]
fn fall(message: &str) -> ! {
    panic!("{message}")
}

#[traced(provider = "Calls")]
fn fall_or_fail(is_error: bool) -> Result<(), String> {
    if is_error {
        return Err("on purpose".to_owned());
    }
    fall("on purpose")
}

fn catch(f: impl FnOnce()) {
    panic::catch_unwind(AssertUnwindSafe(f)).unwrap_err();
}

#[test]
fn the_outcome_is_known() {
    let expected = ["FallStart()", "FallStop(outcome=panicked)"];
    assert_eq!(texts(|| catch(|| fall("on purpose"))), expected);
    let call = || {
        assert!(fall_or_fail(true).is_err());
        catch(|| drop(fall_or_fail(false)));
    };
    assert_eq!(
        texts(call),
        [
            "fall_or_failStart()",
            "fall_or_failStop(outcome=err)",
            "fall_or_failStart()",
            "FallStart()",
            "FallStop(outcome=panicked)",
            "fall_or_failStop(outcome=panicked)",
        ]
    );
}

#[derive(Debug)]
struct Broken;

impl Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it broke")
    }
}

type Outcome<T> = Result<T, Broken>;

#[traced(provider = "Calls", ret, err, fields = [number])]
fn both(number: i32) -> Result<u32, Broken> {
    u32::try_from(number).map_err(|_| Broken)
}

#[traced(provider = "Calls", ret = display, err = debug)]
fn other(number: i32) -> Outcome<u32> {
    Ok(both(number)? + 1)
}

#[traced(provider = "Calls", err)]
fn error_alone(number: i32) -> Outcome<u32> {
    if number < 0 { Err(Broken) } else { Ok(0) }
}

#[traced(provider = "Calls", ret)]
fn value_alone(number: i32) -> (i32, &'static str) {
    assert!(number >= 0, "on purpose");
    (number, "x")
}

#[traced(provider = "Calls", ret)]
fn value_of_result(number: i32) -> Result<i32, ()> {
    if number < 0 { Err(()) } else { Ok(number) }
}

#[test]
fn results_are_recorded_if_asked_for() {
    let calls = || {
        other(1).unwrap();
        other(-1).unwrap_err();
    };
    assert_eq!(
        texts(calls),
        [
            "otherStart()",
            "bothStart(number=1)",
            "bothStop(outcome=ok, ret=[1], err=[])",
            "otherStop(outcome=ok, ret=[2], err=[])",
            "otherStart()",
            "bothStart(number=-1)",
            "bothStop(outcome=err, ret=[], err=[it broke])",
            "otherStop(outcome=err, ret=[], err=[Broken])",
        ]
    );
    let calls = || {
        error_alone(-1).unwrap_err();
        error_alone(1).unwrap();
        value_alone(3);
        catch(|| assert_eq!(value_alone(-3).0, 0));
        value_of_result(4).unwrap();
        value_of_result(-4).unwrap_err();
    };
    let stops = texts(calls).into_iter().filter(|text| text.contains("Stop"));
    assert_eq!(
        stops.collect::<Vec<_>>(),
        [
            "error_aloneStop(outcome=err, err=[it broke])",
            "error_aloneStop(outcome=ok, err=[])",
            "value_aloneStop(outcome=ok, ret=[(3, \"x\")])",
            "value_aloneStop(outcome=panicked, ret=[])",
            "value_of_resultStop(outcome=ok, ret=[4])",
            "value_of_resultStop(outcome=err, ret=[])",
        ]
    );
}

thread_local! {
    static EVALUATED: Cell<u32> = const { Cell::new(0) };
}

fn evaluated() -> u32 {
    EVALUATED.set(EVALUATED.get() + 1);
    EVALUATED.get()
}

struct Items {
    items: Vec<u32>,
    owner: String,
}

impl Items {
    #[traced(provider = "Calls", fields = [
        more,
        size = self.items.len(),
        owner: &str = &self.owner,
        is_first = self.items.is_empty() && more,
        number: u32 = evaluated(),
        cast = u8::from(more),
        word = "text",
        any = display(value),
        debugged = debug(&self.items),
        renamed = more,
        error(failure),
        path = as_ref(owner),
    ])]
    fn push<T: Display>(
        &mut self,
        more: bool,
        value: T,
        failure: &io::Error,
        owner: &str,
    ) -> usize {
        drop((value.to_string(), failure.to_string(), owner.len()));
        self.items.push(u32::from(more));
        self.items.len()
    }

    #[traced(
        provider = "Calls",
        enabled_if = self.items.len() > 1,
        fields = [number: u32 = evaluated()],
    )]
    fn len(&self) -> usize {
        self.items.len()
    }
}

#[test]
fn fields_are_arguments_and_expressions() {
    let mut items = Items { items: vec![], owner: "someone".to_owned() };
    EVALUATED.set(0);
    let error = io::Error::other("disk");
    unheard(|| assert_eq!(items.push(true, 'x', &error, "me"), 1));
    assert_eq!(EVALUATED.get(), 0);
    let events = texts(|| assert_eq!(items.push(true, 2.5, &error, "me"), 2));
    assert_eq!(
        events,
        [
            "pushStart(more=true, size=1, owner=someone, is_first=false, number=1, cast=1, \
         word=text, any=2.5, debugged=[1], renamed=true, failure=disk, path=me)",
            "pushStop(outcome=ok)",
        ]
    );
    assert_eq!(EVALUATED.get(), 1);
    let expected = ["lenStart(number=2)", "lenStop(outcome=ok)"];
    assert_eq!(texts(|| assert_eq!(items.len(), 2)), expected);
    items.items.clear();
    assert_eq!(texts(|| assert_eq!(items.len(), 0)), [""; 0]);
}

/// Functions that must compile as if the attribute were not there.
mod shapes {
    use std::{
        cell::{Ref, RefCell},
        fmt::Debug,
        rc::Rc,
    };

    use nettrace_writer::traced;

    pub(super) struct Store {
        pub(super) items: Vec<String>,
    }

    impl Store {
        #[traced(provider = "Calls")]
        pub(super) fn first(&mut self) -> Result<&mut String, String> {
            let first = self.items.first_mut().ok_or("empty")?;
            first.push('!');
            Ok(first)
        }

        #[traced(provider = "Calls", ret)]
        pub(super) fn longer<'a>(&'a self, other: &'a str) -> &'a str {
            self.items
                .iter()
                .map(String::as_str)
                .find(|item| item.len() > other.len())
                .unwrap_or(other)
        }

        #[traced(provider = "Calls")]
        pub(super) fn iterate(&self) -> impl Iterator<Item = &str> + '_ {
            self.items.iter().map(String::as_str)
        }

        #[traced(provider = "Calls")]
        pub(super) fn try_iterate(
            &self,
        ) -> Result<impl Iterator<Item = &String> + '_, std::fmt::Error> {
            const NONE: usize = 0;
            if self.items.len() == NONE {
                Err(std::fmt::Error)?;
            }
            Ok(self.items.iter())
        }

        #[traced(provider = "Calls")]
        pub(super) fn into_items(mut self) -> Vec<String> {
            self.items.push(String::new());
            self.items
        }

        #[traced(provider = "Calls")]
        pub(super) fn count(self: Rc<Self>) -> Result<usize, ()> {
            match self.items.len() {
                0 => Err(()),
                len => Ok(len),
            }
        }

        #[traced(provider = "Calls")]
        pub(super) fn grow(&mut self, item: String) -> &mut Self {
            self.items.push(item);
            self
        }
    }

    #[traced(provider = "Calls")]
    pub(super) fn adder(by: u32) -> impl Fn(u32) -> u32 {
        move |number| number + by
    }

    type Adder = dyn Fn(u32) -> u32;

    #[traced(provider = "Calls")]
    pub(super) fn boxed(by: Option<u32>) -> Result<Box<Adder>, Box<dyn Debug>> {
        let by = by.ok_or_else(|| Box::new("none") as Box<dyn Debug>)?;
        Ok(Box::new(move |number| number + by))
    }

    #[traced(provider = "Calls", fields = [number])]
    pub(super) fn patterns(
        (a, b): (u8, u8),
        _: (),
        mut number: u16,
        [c, ..]: [u8; 2],
    ) -> Result<u16, u8> {
        number += u16::from(a);
        'outer: for turn in 0..a {
            for step in 0..c {
                if step == b + turn {
                    continue 'outer;
                }
                number += 1;
            }
        }
        if number == 0 { Err(b) } else { Ok(number) }
    }

    #[traced(provider = "Calls")]
    pub(super) fn sized<T, const N: usize>(values: [T; N], more: &[T; N]) -> Result<[T; N], T>
    where
        T: Copy + PartialEq,
    {
        if values == *more { Ok(values) } else { Err(more[0]) }
    }

    /// # Safety
    ///
    /// The pointer is of a number.
    #[traced(provider = "Calls")]
    #[allow(unsafe_code, reason = "the shape")]
    pub(super) unsafe fn read(pointer: *const u32) -> Result<u32, ()> {
        // SAFETY: by the contract of this function.
        Ok(unsafe { *pointer })
    }

    #[traced(provider = "Calls", name = "twice")]
    pub(super) extern "C" fn twice_in_c(number: u32) -> u32 {
        number * 2
    }

    #[must_use]
    #[inline]
    #[traced(provider = "Calls")]
    pub(crate) fn documented(cell: &RefCell<u8>) -> Ref<'_, u8> {
        #![allow(unused_variables, reason = "an inner attribute")]
        let unused = 1;
        cell.borrow()
    }

    #[traced(provider = "Calls")]
    #[track_caller]
    pub(super) fn caller() -> u32 {
        std::panic::Location::caller().line()
    }

    #[traced(provider = "Calls", fields = [depth])]
    pub(super) fn recurse(depth: u32) -> Result<u32, String> {
        if depth == 0 { Ok(0) } else { Ok(recurse(depth - 1)? + 1) }
    }

    pub(super) trait Shape {
        #[traced(provider = "Calls", name = "area")]
        fn area(&self, scale: u32) -> u32 {
            self.side() * self.side() * scale
        }

        fn side(&self) -> u32;
    }

    pub(super) struct Square;

    impl Shape for Square {
        #[traced(provider = "Calls")]
        fn side(&self) -> u32 {
            #[traced(provider = "Calls", fields = [r#type])]
            fn nested(r#type: u32) -> u32 {
                r#type
            }
            nested(3)
        }
    }

    macro_rules! function {
        ($name:ident, $level:ident, $field:ident: $ty:ty, $value:expr) => {
            #[traced(provider = "Calls", level = $level, fields = [$field, more: u8 = $value])]
            pub(super) fn $name($field: $ty) -> Result<$ty, ()> {
                Ok($field)
            }
        };
    }

    function!(by_macro, Error, field: u16, 1 + 1);
}

#[test]
fn functions_of_every_shape_work() {
    use shapes::Shape as _;
    let seven = 7;
    let mut store = shapes::Store { items: vec!["a".to_owned()] };
    let starts = seen(|| {
        store.first().unwrap().push('?');
        assert_eq!(store.longer("x"), "a!?");
        assert_eq!(store.iterate().count(), 1);
        assert_eq!(store.try_iterate().map(Iterator::count), Ok(1));
        assert_eq!(store.grow("b".to_owned()).items.len(), 2);
        let items = store.into_items();
        assert_eq!(std::rc::Rc::new(shapes::Store { items }).count(), Ok(3));
        assert_eq!(shapes::adder(1)(2), 3);
        assert_eq!(shapes::boxed(Some(1)).ok().map(|add| add(2)), Some(3));
        assert!(shapes::boxed(None).is_err());
        assert_eq!(shapes::patterns((1, 2), (), 3, [4, 5]), Ok(6));
        assert_eq!(shapes::sized([1], &[2]), Err(2));
        #[allow(unsafe_code, reason = "the shape")]
        // SAFETY: it is the address of a number.
        let read = unsafe { shapes::read(&raw const seven) };
        assert_eq!(read, Ok(7));
        assert_eq!(shapes::twice_in_c(4), 8);
        assert_eq!(*shapes::documented(&5.into()), 5);
        assert_eq!(shapes::caller(), line!());
        assert_eq!(shapes::recurse(2), Ok(2));
        assert_eq!(shapes::Square.area(2), 18);
        assert_eq!(shapes::by_macro(7), Ok(7));
    });
    let starts = starts.iter().filter(|event| event.opcode == 1);
    assert_eq!(
        starts.map(|event| &*event.text).collect::<Vec<_>>(),
        [
            "firstStart()",
            "longerStart()",
            "iterateStart()",
            "try_iterateStart()",
            "growStart()",
            "into_itemsStart()",
            "countStart()",
            "adderStart()",
            "boxedStart()",
            "boxedStart()",
            "patternsStart(number=3)",
            "sizedStart()",
            "readStart()",
            "twiceStart()",
            "documentedStart()",
            "callerStart()",
            "recurseStart(depth=2)",
            "recurseStart(depth=1)",
            "recurseStart(depth=0)",
            "areaStart()",
            "sideStart()",
            "nestedStart(type=3)",
            "sideStart()",
            "nestedStart(type=3)",
            "by_macroStart(field=7, more=2)",
        ]
    );
}

/// Names that written code must not use, and a crate with another name.
mod bare {
    #![no_implicit_prelude]
    #![allow(
        non_upper_case_globals,
        non_camel_case_types,
        dead_code,
        reason = "names that written code might use"
    )]
    #![deny(unused_qualifications)]

    pub(crate) mod inner {
        pub(crate) use ::nettrace_writer as tracing;
    }

    pub(crate) struct Option;
    pub(crate) struct Result;
    pub(crate) struct Ok;
    pub(crate) struct Some;
    pub(crate) struct str;
    pub(crate) const duration: () = ();
    pub(crate) const outcome: () = ();
    pub(crate) const ret: () = ();
    pub(crate) mod std {}
    pub(crate) mod core {}

    #[inner::tracing::traced(
        crate = inner::tracing, provider = "Calls", ret, fields = [end, output]
    )]
    pub(crate) fn names(
        mut end: ::core::primitive::u8,
        output: &::core::primitive::bool,
    ) -> ::core::primitive::u8 {
        let _ = Option;
        let (span, events) = (1, 2);
        end += <::core::primitive::u8 as ::core::convert::From<_>>::from(*output);
        end + span + events
    }

    #[inner::tracing::traced(crate = inner::tracing, provider = "Calls", ret, err = debug, polls)]
    pub(crate) async fn awaited(
        future: ::core::primitive::u8,
    ) -> ::core::result::Result<::core::primitive::u8, ()> {
        ::core::future::ready(()).await;
        ::core::result::Result::Ok(future)
    }
}

#[test]
fn locals_are_not_confused_with_arguments() {
    let expected = ["namesStart(end=1, output=true)", "namesStop(outcome=ok, ret=[5])"];
    assert_eq!(texts(|| assert_eq!(bare::names(1, &true), 5)), expected);
    assert_eq!(
        texts(|| assert_eq!(span_support::block_on(bare::awaited(3)), Ok(3))),
        [
            "awaitedStart()",
            "awaitedResume()",
            "awaitedSuspend()",
            "awaitedStop(outcome=ok, polls=1, ret=[3], err=[])",
        ]
    );
}
