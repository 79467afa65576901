//! The rules of W3C Trace Context, one by one, and what holds for any text.

use nettrace_event::trace_context::{
    MAX_MEMBERS, SpanId, TraceContext, TraceFlags, TraceId, TraceParentError, TraceState,
    TraceStateError,
};
use proptest::prelude::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A `traceparent` of these parts.
fn header(version: &str, trace: &str, span: &str, flags: &str) -> String {
    format!("{version}-{trace}-{span}-{flags}")
}

fn error(header: &str) -> TraceParentError {
    TraceContext::from_traceparent(header).expect_err(header)
}

#[test]
fn a_header_reads_back() {
    for (flags, sampled, random) in
        [("00", false, false), ("01", true, false), ("02", false, true), ("03", true, true)]
    {
        let text = header("00", TRACE, SPAN, flags);
        let context = TraceContext::from_traceparent(&text).unwrap();
        assert_eq!(context.trace_id().to_string(), TRACE);
        assert_eq!(context.span_id().to_string(), SPAN);
        assert_eq!((context.flags().is_sampled(), context.flags().is_random()), (sampled, random));
        assert_eq!(context.to_traceparent().as_str(), text);
        assert_eq!(context.to_traceparent().to_string(), text);
    }
}

#[test]
fn unknown_flags_are_not_passed_on() {
    let context = TraceContext::from_traceparent(header("00", TRACE, SPAN, "fd")).unwrap();
    assert_eq!(context.to_traceparent().as_str(), header("00", TRACE, SPAN, "01"));
}

#[test]
fn later_versions_are_read_as_version_00() {
    for (version, end) in [("01", ""), ("cc", "-"), ("fe", "-what the future holds")] {
        let text = header(version, TRACE, SPAN, "01") + end;
        let context = TraceContext::from_traceparent(&text).unwrap();
        assert_eq!(context.to_traceparent().as_str(), header("00", TRACE, SPAN, "01"));
    }
    assert_eq!(error(&(header("01", TRACE, SPAN, "01") + ".")), TraceParentError::Form);
    assert_eq!(error(&(header("00", TRACE, SPAN, "01") + "-")), TraceParentError::Form);
    assert_eq!(error(&(header("00", TRACE, SPAN, "01") + " ")), TraceParentError::Form);
    assert_eq!(error(&header("ff", TRACE, SPAN, "01")), TraceParentError::Version);
}

#[test]
fn a_header_need_not_be_text() {
    let mut bytes = header("01", TRACE, SPAN, "01").into_bytes();
    assert!(TraceContext::from_traceparent(&bytes).is_ok());
    bytes.extend(b"-more");
    assert!(TraceContext::from_traceparent(&bytes).is_ok());
    bytes.push(0xff);
    assert_eq!(TraceContext::from_traceparent(&bytes), Err(TraceParentError::Form));
    bytes[10] = 0xff;
    bytes.pop();
    assert_eq!(TraceContext::from_traceparent(&bytes), Err(TraceParentError::Digit));
}

#[test]
fn ids_of_zeros_are_refused() {
    assert_eq!(error(&header("00", &"0".repeat(32), SPAN, "01")), TraceParentError::ZeroTrace);
    assert_eq!(error(&header("00", TRACE, &"0".repeat(16), "01")), TraceParentError::ZeroSpan);
}

#[test]
fn each_digit_counts() {
    let good = header("00", TRACE, SPAN, "01");
    for at in 0..good.len() {
        let with = |byte: &str| {
            let mut text = good.clone();
            text.replace_range(at..=at, byte);
            text
        };
        if good.as_bytes()[at] == b'-' {
            assert_eq!(error(&with("0")), TraceParentError::Form, "byte {at}");
            continue;
        }
        for wrong in ["F", "g", "-", " ", "+", "\0"] {
            let error = error(&with(wrong));
            assert_eq!(error, TraceParentError::Digit, "byte {at}, {wrong:?}");
        }
        assert_eq!(error(&good[..at]), TraceParentError::Form, "only {at} bytes");
    }
    assert_eq!(error(""), TraceParentError::Form);
    assert_eq!(error(&good.to_uppercase()), TraceParentError::Digit);
}

#[test]
fn a_child_keeps_all_but_the_span() {
    let parent = TraceContext::from_headers(header("00", TRACE, SPAN, "03"), ["a=1"]).unwrap();
    let child = parent.child(SpanId::from_u64(7).unwrap());
    assert_eq!(child.trace_id(), parent.trace_id());
    assert_eq!((child.flags(), child.state()), (parent.flags(), parent.state()));
    assert_eq!(child.span_id().to_string(), "0000000000000007");
    let kept = parent.clone().with_flags(TraceFlags::NONE).with_state(TraceState::new());
    assert_eq!(kept.to_traceparent().as_str(), header("00", TRACE, SPAN, "00"));
    assert_eq!(kept.state(), None);
}

fn state(headers: &[&str]) -> Result<String, TraceStateError> {
    TraceState::from_headers(headers.iter().copied()).map(|state| state.to_string())
}

#[test]
fn members_are_read_by_the_rules() {
    for (headers, expected) in [
        (&["a=1"][..], "a=1"),
        (&["a=1,b=2"], "a=1,b=2"),
        (&["a=1", "b=2"], "a=1,b=2"),
        (&[" a=1 ,\tb=2\t"], "a=1,b=2"),
        (&["a=1,,b=2,", "", ","], "a=1,b=2"),
        (&["a= 1 2"], "a= 1 2"),
        (&["a_-*/0=!~"], "a_-*/0=!~"),
        (&["0tenant@system=x"], "0tenant@system=x"),
        (&[""], ""),
        (&[], ""),
    ] {
        assert_eq!(state(headers).as_deref(), Ok(expected), "{headers:?}");
    }
    use TraceStateError::{Duplicate, Key, Member, TooMany, Value};
    for (header, expected) in [
        ("a", Member),
        ("a=1,b", Member),
        ("=1", Key),
        ("A=1", Key),
        ("0a=1", Key),
        ("a b=1", Key),
        ("a =1", Key),
        ("a@=1", Key),
        ("@a=1", Key),
        ("a@0=1", Key),
        ("a@b@c=1", Key),
        ("é=1", Key),
        ("a=", Value),
        ("a=1=2", Value),
        ("a=\t1", Value),
        ("a=é", Value),
        ("a=\u{7f}", Value),
        ("a=1,b=2,a=3", Duplicate),
    ] {
        assert_eq!(state(&[header]), Err(expected), "{header:?}");
    }
    let many = |count: usize| (0..count).map(|i| format!("k{i}=v,")).collect::<String>();
    assert!(state(&[&many(MAX_MEMBERS)]).is_ok());
    assert_eq!(state(&[&many(MAX_MEMBERS + 1)]), Err(TooMany));
}

#[test]
fn keys_and_values_have_a_longest() {
    let (a, at) = (
        |count| "a".repeat(count),
        |tenant, system| format!("{}@{}=1", "a".repeat(tenant), "a".repeat(system)),
    );
    assert!(state(&[&format!("{}=1", a(256))]).is_ok());
    assert_eq!(state(&[&format!("{}=1", a(257))]), Err(TraceStateError::Key));
    assert!(state(&[&at(241, 14)]).is_ok());
    assert_eq!(state(&[&at(242, 14)]), Err(TraceStateError::Key));
    assert_eq!(state(&[&at(241, 15)]), Err(TraceStateError::Key));
    assert!(state(&[&format!("a={}", a(256))]).is_ok());
    assert_eq!(state(&[&format!("a={}", a(257))]), Err(TraceStateError::Value));
}

#[test]
fn the_newest_member_comes_first_and_the_last_one_goes() {
    let all: String = (0..MAX_MEMBERS).map(|i| format!("k{i}=v,")).collect();
    let mut state = TraceState::from_headers([&*all]).unwrap();
    state.insert("k5", "new").unwrap();
    assert_eq!(state.iter().count(), MAX_MEMBERS);
    assert_eq!(state.iter().next(), Some(("k5", "new")));
    state.insert("other", "x").unwrap();
    assert_eq!(state.iter().count(), MAX_MEMBERS);
    assert_eq!(state.get(&format!("k{}", MAX_MEMBERS - 1)), None);
    let before = state.clone();
    assert_eq!(state.insert("Key", "v"), Err(TraceStateError::Key));
    assert_eq!(state.insert("key", "v "), Err(TraceStateError::Value));
    assert_eq!(state, before);
}

#[test]
fn a_state_that_breaks_a_rule_costs_the_state_only() {
    let parent = header("00", TRACE, SPAN, "01");
    let context = TraceContext::from_headers(&parent, ["a=1", "a=2"]).unwrap();
    assert_eq!((context.state(), context.to_traceparent().as_str()), (None, &*parent));
    assert!(TraceContext::from_headers("00-bad", ["a=1"]).is_err());
}

/// Texts that are often almost headers.
fn almost() -> impl Strategy<Value = String> {
    let part = |len| proptest::string::string_regex(&format!("[0-9a-f]{{{len}}}")).unwrap();
    let good = (part(2), part(32), part(16), part(2), "(-.*)?").prop_map(
        |(version, trace, span, flags, end)| header(&version, &trace, &span, &flags) + &end,
    );
    prop_oneof![good, "[0-9a-fA-F-]{50,60}", ".*"]
}

/// Headers that are mostly good, and texts that mostly are not.
fn states() -> impl Strategy<Value = Vec<String>> {
    let member = ("[ \t]?", "[a-e]([0-9_*/-]|@a)?", "[!-+.-<>-~][ -+.-<>-~]{0,2}[!-+]", "[ ,]?");
    let member = member.prop_map(|(blank, key, value, end)| format!("{blank}{key}={value}{end}"));
    let good = prop::collection::vec(member, 0..5).prop_map(|members| members.join(","));
    prop::collection::vec(prop_oneof![4 => good, 1 => "[a-c@]{0,2}=?[ -~]{0,4},?"], 0..3)
}

proptest! {
    #[test]
    fn any_context_reads_back(trace in any::<[u8; 16]>(), span: u64, bits: u8) {
        let (Some(trace), Some(span)) = (TraceId::from_bytes(trace), SpanId::from_u64(span)) else {
            return Ok(());
        };
        let context = TraceContext::new(trace, span, TraceFlags::from_bits(bits));
        let text = context.to_traceparent();
        prop_assert_eq!(TraceContext::from_traceparent(text), Ok(context));
        prop_assert_eq!(trace.to_string().parse(), Ok(trace));
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn what_is_read_is_what_was_written(text in almost()) {
        if let Ok(context) = TraceContext::from_traceparent(&text) {
            prop_assert_eq!(&context.to_traceparent()[3..52], &text[3..52]);
            prop_assert!(!text.starts_with("ff") && text.is_char_boundary(55));
        }
    }

    #[test]
    fn a_state_that_is_read_reads_the_same_again(headers in states()) {
        let texts: Vec<&str> = headers.iter().map(String::as_str).collect();
        if let Ok(state) = TraceState::from_headers(texts.iter().copied()) {
            prop_assert_eq!(TraceState::from_headers([state.as_str()]), Ok(state.clone()));
            prop_assert_eq!(state.is_empty(), state.iter().next().is_none());
            for (key, value) in state.iter() {
                let member = format!("{key}={value}");
                prop_assert!(texts.iter().any(|text| text.contains(&member)));
                let (mut inserted, mut removed) = (state.clone(), state.clone());
                inserted.insert(key, value).unwrap();
                prop_assert_eq!(inserted.iter().next(), Some((key, value)));
                prop_assert_eq!(inserted.iter().count(), state.iter().count());
                prop_assert!(removed.remove(key));
                prop_assert_eq!(removed.iter().count() + 1, state.iter().count());
            }
        }
    }
}
