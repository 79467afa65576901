//! Generated code in a crate that forbids lints, and lints of functions under the attribute.
//! Clippy's are checked where Clippy runs.
#![deny(unfulfilled_lint_expectations)]

use nettrace_writer::{Emit as _, TraceSpan as _, traced};

/// Code that allows a lint does not compile here (E0453).
mod forbidden {
    #![forbid(
        dead_code,
        deprecated,
        elided_lifetimes_in_paths,
        let_underscore_drop,
        missing_debug_implementations,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        single_use_lifetimes,
        trivial_casts,
        trivial_numeric_casts,
        unreachable_code,
        unreachable_pub,
        unsafe_code,
        unused_assignments,
        unused_braces,
        unused_imports,
        unused_lifetimes,
        unused_must_use,
        unused_mut,
        unused_parens,
        unused_qualifications,
        unused_results,
        unused_variables
    )]

    use std::convert::Infallible;

    use nettrace_writer::{TraceEvent, TraceField, TraceSpan, traced};

    #[derive(Debug, TraceEvent)]
    pub(crate) struct Answered<'a> {
        pub(crate) url: &'a str,
        pub(crate) size: Size,
    }

    #[derive(Debug, TraceField)]
    pub(crate) struct Size {
        pub(crate) width: u32,
        pub(crate) color: Color,
    }

    #[derive(Debug, TraceField)]
    pub(crate) enum Color {
        Red,
    }

    #[derive(Debug, TraceField)]
    #[trace_event(transparent)]
    pub(crate) struct Account(pub(crate) u64);

    #[derive(Debug, TraceSpan)]
    #[trace_event(later = [receipt: u32])]
    pub(crate) struct Pay<'a> {
        pub(crate) account: Account,
        pub(crate) note: Option<&'a str>,
    }

    #[derive(Debug, TraceSpan)]
    #[trace_event(mode = single, later = [receipt: u32])]
    pub(crate) struct PayAtOnce {
        pub(crate) cents: u32,
    }

    #[rustfmt::skip]
    #[traced(fields = [number])]
    pub(crate) fn plain(number: u8) -> u8 { number }

    #[rustfmt::skip]
    #[traced]
    pub(crate) fn result(number: u8) -> Result<u8, String> { Ok(number) }

    #[traced(ret, err, fields = [texts = debug(texts)])]
    pub(crate) fn texts(texts: &[String]) -> Result<usize, String> {
        if texts.is_empty() { Err("none".to_owned()) } else { Ok(texts.len()) }
    }

    #[traced(mode = single, fields = [text, number])]
    pub(crate) fn single(text: &Option<&str>, number: u8) -> u8 {
        number + u8::from(text.is_some())
    }

    #[traced]
    pub(crate) fn never() -> Result<Infallible, String> {
        Err("as always".to_owned())
    }

    #[traced(ret, err)]
    pub(crate) async fn future(text: String, _: String) -> Result<String, String> {
        std::future::ready(()).await;
        Ok(text)
    }

    #[traced]
    pub(crate) async fn future_of_nothing() {
        std::future::ready(()).await;
    }

    #[traced]
    pub(crate) async fn future_of_never() -> Infallible {
        std::future::pending().await
    }

    #[traced]
    pub(crate) fn boxed() -> std::pin::Pin<Box<dyn Future<Output = u8>>> {
        Box::pin(async { 1 })
    }
}

/// What is allowed where a type is written, its derive does not tell again.
mod allowed {
    #![deny(deprecated, unused_qualifications)]

    use nettrace_writer::{TraceEvent, TraceField, TraceSpan};

    #[deprecated]
    #[derive(TraceField)]
    pub(crate) struct Old(pub(crate) u8);

    #[allow(deprecated, reason = "it is for old callers")]
    #[derive(TraceEvent)]
    pub(crate) struct OfOld {
        pub(crate) old: Old,
        #[deprecated]
        pub(crate) older: u8,
    }

    #[allow(deprecated, unused_qualifications, reason = "it is for old callers")]
    #[derive(TraceSpan)]
    #[trace_event(later = [receipt: u32])]
    pub(crate) struct SpanOfOld {
        pub(crate) old: self::Old,
    }
}

mod expected {
    use nettrace_writer::traced;

    #[traced]
    #[expect(dead_code, reason = "to see that it is told")]
    fn unused() {}

    #[traced]
    #[expect(dead_code, reason = "to see that it is told")]
    async fn unused_future() {}
}

#[traced]
#[expect(unused_variables, reason = "to see that it is told")]
fn variable(text: String, other: String) -> Result<String, ()> {
    Ok(other)
}

#[traced]
#[expect(clippy::needless_pass_by_value, reason = "to see that it is told")]
fn by_value(text: String) -> usize {
    text.len()
}

#[traced]
#[expect(clippy::ptr_arg, reason = "to see that it is told")]
fn by_reference(text: &String) -> Result<usize, ()> {
    Ok(text.len())
}

#[traced]
#[expect(clippy::needless_return, reason = "to see that it is told")]
fn returns(number: u8) -> u8 {
    return number;
}

#[traced]
#[expect(clippy::needless_return, reason = "to see that it is told")]
fn returns_result(number: u8) -> Result<u8, ()> {
    return Ok(number);
}

#[test]
#[allow(deprecated, reason = "to see that it compiles")]
fn the_code_runs() {
    use allowed::{OfOld, Old, SpanOfOld};
    use forbidden::{Account, Answered, Color, Pay, PayAtOnce, Size};

    Answered { url: "/", size: Size { width: 1, color: Color::Red } }.emit();
    let mut pay = Pay { account: Account(1), note: None }.enter();
    pay.record_receipt(1);
    drop(pay);
    PayAtOnce { cents: 1 }.enter().record_receipt(1);
    assert_eq!((forbidden::plain(1), forbidden::result(2)), (1, Ok(2)));
    assert_eq!((forbidden::texts(&[]).is_err(), forbidden::single(&None, 2)), (true, 2));
    forbidden::never().unwrap_err();
    drop((forbidden::future(String::new(), String::new()), forbidden::future_of_nothing()));
    drop((forbidden::future_of_never(), forbidden::boxed()));
    OfOld { old: Old(1), older: 2 }.emit();
    drop(SpanOfOld { old: Old(1) }.enter());
    assert_eq!(variable("a".to_owned(), String::new()), Ok(String::new()));
    assert_eq!((by_value("a".to_owned()), by_reference(&"a".to_owned())), (1, Ok(1)));
    assert_eq!((returns(1), returns_result(1)), (1, Ok(1)));
}
