//! `#[traced]` on functions that are not futures: what the trace says of their calls, and that the
//! functions are otherwise what they were.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]

mod span_support;

use std::{
    borrow::Cow,
    cell::Cell,
    fmt::{self, Display},
    io,
    mem::ManuallyDrop,
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
    // Dropped here, it would emit into the session of another test.
    let argument = ManuallyDrop::new(Temporary(9));
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

/// A type that is no `core::result::Result`, but has its name.
mod verdict {
    #[derive(Debug)]
    pub(crate) struct Result<T>(pub(crate) T);
}

#[traced(provider = "Calls", ret = debug)]
fn own_result(number: i32) -> verdict::Result<i32> {
    verdict::Result(number)
}

#[traced(provider = "Calls", ret = debug)]
async fn own_result_later(number: i32) -> verdict::Result<i32> {
    verdict::Result(number)
}

#[test]
fn a_type_of_the_user_that_is_named_result_is_a_value() {
    let calls = || {
        assert_eq!(own_result(7).0, 7);
        let mut later = Box::pin(own_result_later(8));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(later.as_mut().poll(&mut context).is_ready());
    };
    let stops: Vec<_> = texts(calls).into_iter().filter(|text| text.contains("Stop")).collect();
    assert_eq!(stops[0], "own_resultStop(outcome=ok, ret=[Result(7)])");
    assert!(stops[1].contains("outcome=ok") && stops[1].contains("ret=[Result(8)]"), "{stops:?}");
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

/// The type decides, whatever its name is.
mod aliases {
    use super::Broken;

    pub(super) type Fallible<T> = Result<T, Broken>;
    pub(super) type Flagged = Fallible<bool>;

    pub(super) trait Answers {
        type Answer;

        fn answer(self) -> Self::Answer;
    }
}

#[traced(provider = "Calls")]
fn aliased(number: u32) -> aliases::Fallible<String> {
    if number > 0 { Ok(number.to_string()) } else { Err(Broken) }
}

#[traced(provider = "Calls", ret)]
fn flagged(number: u32) -> aliases::Flagged {
    if number > 0 { Ok(true) } else { Err(Broken) }
}

#[traced(provider = "Calls", ret, err)]
fn counted(number: u32) -> aliases::Fallible<u64> {
    if number > 0 { Ok(number.into()) } else { Err(Broken) }
}

#[traced(provider = "Calls", mode = single, ret)]
fn halved(number: f64) -> f64 {
    number / 2.0
}

#[traced(provider = "Calls", ret)]
async fn counted_later(number: u32) -> aliases::Fallible<u64> {
    counted(number)
}

impl aliases::Answers for u32 {
    type Answer = Result<Self, Broken>;

    #[traced(provider = "Calls")]
    fn answer(self) -> Self::Answer {
        if self > 0 { Ok(self) } else { Err(Broken) }
    }
}

impl aliases::Answers for Result<u32, Broken> {
    type Answer = Self;

    #[traced(provider = "Calls")]
    fn answer(self) -> Self {
        self
    }
}

#[test]
fn the_type_of_a_result_decides_and_not_its_name() {
    use aliases::Answers;

    let calls = || {
        aliased(1).unwrap();
        aliased(0).unwrap_err();
        flagged(1).unwrap();
        flagged(0).unwrap_err();
        counted(7).unwrap();
        counted(0).unwrap_err();
        halved(3.0);
        span_support::block_on(counted_later(8)).unwrap();
        span_support::block_on(counted_later(0)).unwrap_err();
        1.answer().unwrap();
        0.answer().unwrap_err();
        Ok::<u32, Broken>(1).answer().unwrap();
        Err::<u32, Broken>(Broken).answer().unwrap_err();
    };
    let stops = texts(calls).into_iter().filter(|text| text.contains("outcome"));
    assert_eq!(
        stops.collect::<Vec<_>>(),
        [
            "aliasedStop(outcome=ok)",
            "aliasedStop(outcome=err)",
            "flaggedStop(outcome=ok, ret=[true])",
            "flaggedStop(outcome=err, ret=[])",
            "countedStop(outcome=ok, ret=[7], err=[])",
            "countedStop(outcome=err, ret=[], err=[it broke])",
            "halved(outcome=ok, ret=[1.5])",
            "countedStop(outcome=ok, ret=[8], err=[])",
            "counted_laterStop(outcome=ok, polls=1, ret=[8])",
            "countedStop(outcome=err, ret=[], err=[it broke])",
            "counted_laterStop(outcome=err, polls=1, ret=[])",
            "answerStop(outcome=ok)",
            "answerStop(outcome=err)",
            "answerStop(outcome=ok)",
            "answerStop(outcome=err)",
        ]
    );
}

/// A number that is returned is no text, unless its text is asked for.
#[test]
fn a_returned_number_keeps_its_type() {
    #[traced(provider = "Calls", ret = display)]
    fn shown(number: u32) -> u32 {
        number
    }

    let calls = || {
        counted(7).unwrap();
        halved(3.0);
        flagged(1).unwrap();
        shown(4);
    };
    let values: Vec<_> = seen(calls).into_iter().filter_map(|event| event.ret).collect();
    let expected = ["[U64(7)]", "[F64(1.5)]", "[Text(\"true\")]", "[Text(\"4\")]"];
    assert_eq!(values, expected.map(|value| format!("Array({value})")));
}

/// As axum has it.
struct Extracted<T>(T);

struct Credentials {
    user: String,
    #[allow(dead_code, reason = "the part that is not recorded")]
    password: String,
}

#[traced(
    provider = "Calls",
    fields = [id, shop, item, first, depth, user = user.as_str(), debug(rest)]
)]
#[allow(clippy::trivially_copy_pass_by_ref, reason = "a reference to record")]
fn destructured(
    Extracted(id): Extracted<String>,
    Extracted((shop, item)): Extracted<(u32, &str)>,
    [first, rest @ ..]: [u8; 3],
    &depth: &u8,
    Credentials { user, .. }: Credentials,
) -> usize {
    drop(user);
    id.len() + shop as usize + item.len() + usize::from(first) + rest.len() + usize::from(depth)
}

#[test]
fn parts_of_arguments_are_fields() {
    let credentials = Credentials { user: "ann".to_owned(), password: String::new() };
    let call = || {
        let of_item = Extracted((7, "tea"));
        destructured(Extracted("x".to_owned()), of_item, [1, 2, 3], &4, credentials);
    };
    assert_eq!(
        texts(call)[0],
        "destructuredStart(id=x, shop=7, item=tea, first=1, depth=4, user=ann, rest=[2, 3])"
    );
}
