use nettrace_event::label::{LAST_LABEL, split_label};

use super::{
    Above, Begun, Entered, IdList, Implied, InForce, Label, MAX_LABEL_BYTES, begin_span, close,
    decode, enter_span, leave, raise, return_to, with_current, with_frames,
};
use crate::context::{Context, enter_labels};

/// What is in force, as one label list.
fn list() -> (u64, Vec<u8>) {
    let current = with_current(|version, current| {
        let list = match current {
            InForce::Span(ids, labels) => {
                let (mut bytes, mut list) = ([0; 32], Vec::new());
                ids.write(&mut bytes);
                if labels.is_empty() {
                    IdList::append_ended(&bytes, Implied::Nothing, &mut list);
                } else {
                    IdList::append(&bytes, Implied::Nothing, &mut list);
                }
                [&list, labels].concat()
            }
            InForce::Labels(labels) => labels.to_vec(),
        };
        (version, list)
    });
    current.unwrap()
}

fn current() -> Vec<String> {
    decode(&list().1).map(|label| format!("{label:?}")).collect()
}

/// The last label is marked as such, and no other.
fn assert_one_list(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(label) = split_label(rest) {
        assert_eq!(rest[0] & LAST_LABEL != 0, label.len == rest.len());
        rest = &rest[label.len..];
    }
    assert!(rest.is_empty());
}

#[test]
fn every_kind_reads_back() {
    let labels = [
        Label::ActivityId([1; 16]),
        Label::RelatedActivityId([2; 16]),
        Label::TraceId([3; 16]),
        Label::SpanId(4),
        Label::Str("ключ", ""),
        Label::Int("n", i64::MIN),
        Label::OpCode(7),
        Label::Keywords(u64::MAX),
        Label::Level(2),
        Label::Version(255),
    ];
    let _scope = enter_labels(&labels).unwrap();
    assert_eq!(decode(&list().1).collect::<Vec<_>>(), labels);
    // An inner scope takes over what it does not replace, whatever its kind.
    for inner in labels {
        let _inner = enter_labels(&[inner]).unwrap();
        let bytes = list().1;
        let mut both: Vec<_> = decode(&bytes).collect();
        assert_eq!(both.pop(), Some(inner));
        let others: Vec<_> = labels.into_iter().filter(|label| *label != inner).collect();
        assert_eq!(both, others);
        assert_one_list(&bytes);
    }
}

#[test]
fn scopes_nest_and_the_inner_counts() {
    let outer = enter_labels(&[Label::SpanId(1), Label::Str("k", "outer")]).unwrap();
    let before = list().0;
    {
        let _inner = enter_labels(&[Label::SpanId(2), Label::Int("k", 3)]).unwrap();
        assert_eq!(current(), ["SpanId(2)", "Int(\"k\", 3)"]);
    }
    assert_eq!(current(), ["SpanId(1)", "Str(\"k\", \"outer\")"]);
    assert_eq!(list().0, before, "nothing to write again");
    drop(outer);
    assert!(current().is_empty());
}

#[test]
fn too_much_is_refused_and_changes_nothing() {
    let _outer = enter_labels(&[Label::Str("k", "v")]).unwrap();
    let long = "x".repeat(MAX_LABEL_BYTES);
    assert!(enter_labels(&[Label::Str("long", &long)]).is_err());
    assert!(enter_labels(&[Label::Str("long", &long.repeat(40))]).is_err());
    assert_eq!(current(), ["Str(\"k\", \"v\")"]);
}

/// A span below the one in force, which is not in force.
fn child() -> Begun {
    let (mut begun, mut entered) = (None, Entered::NOTHING);
    begin_span(&Above::Current, None, |span| {
        begun = Some(span);
        &mut entered
    });
    leave(&entered);
    begun.unwrap()
}

/// The kinds of labels in force.
fn kinds() -> Vec<u8> {
    decode(&list().1).map(|label| label.kind()).collect()
}

#[test]
fn a_span_adds_its_ids_to_labels() {
    let span = child();
    let number = span.number;
    let outer = enter_span(&span);
    assert_eq!((kinds(), list().0), (vec![1, 3, 4], number));
    assert_one_list(&list().1);
    assert!(current().contains(&format!("SpanId({})", span.ids.span.to_u64())));
    {
        let _labels = enter_labels(&[Label::Str("k", "v")]).unwrap();
        assert_eq!(kinds(), [1, 3, 4, 5]);
        let span = child();
        let inner = enter_span(&span);
        assert_eq!(kinds(), [1, 2, 3, 4, 5]);
        assert_ne!(list().0, span.number, "the number is for the span without labels");
        assert_one_list(&list().1);
        leave(&inner);
    }
    assert_eq!((kinds(), list().0), (vec![1, 3, 4], number), "nothing to write again");
    leave(&outer);
    assert!(current().is_empty());
}

#[test]
fn ids_that_are_given_replace_those_of_the_span() {
    let outer = child();
    let span = enter_span(&outer);
    let labels = enter_labels(&[Label::SpanId(7), Label::Str("k", "v")]).unwrap();
    assert_eq!(kinds(), [1, 3, 4, 5]);
    assert!(current().contains(&"SpanId(7)".to_owned()));
    assert_one_list(&list().1);
    // A span replaces them in turn, and its parent is the span.
    let inner = child();
    assert_eq!(inner.ids.related, Some(outer.ids.span));
    let inner = enter_span(&inner);
    assert_eq!(kinds(), [1, 2, 3, 4, 5]);
    assert!(!current().contains(&"SpanId(7)".to_owned()));
    assert_one_list(&list().1);
    leave(&inner);
    assert_eq!(kinds(), [1, 3, 4, 5]);
    drop(labels);
    leave(&span);
}

#[test]
fn a_context_replaces_what_is_in_force() {
    let labels = enter_labels(&[Label::Str("k", "v")]).unwrap();
    let span = enter_span(&child());
    let (context, expected) = (Context::current(), list());
    leave(&span);
    drop(labels);
    let _other = enter_labels(&[Label::Int("n", 1)]).unwrap();
    {
        let _scope = context.enter();
        assert_eq!(list(), expected);
        let _none = Context::none().enter();
        assert_eq!(list(), (0, vec![]));
    }
    assert_eq!(current(), ["Int(\"n\", 1)"]);
}

#[test]
fn scopes_may_end_in_any_order() {
    let first = enter_span(&child());
    let expected = list();
    let second = enter_span(&child());
    return_to(&first);
    assert_eq!(list(), expected);
    leave(&second);
    assert_eq!(list(), expected, "it has ended with the span around it");
    let third = child();
    let number = third.number;
    let third = enter_span(&third);
    leave(&second);
    assert_eq!(list().0, number, "another scope has its place");
    leave(&first);
    assert_eq!(list().0, number, "what is within a scope outlives it");
    leave(&third);
    assert!(current().is_empty());
    leave(&first);
    assert!(current().is_empty());
}

#[test]
fn a_poll_ends_what_is_within() {
    let first = enter_span(&child());
    let second = enter_span(&child());
    close(&first);
    assert!(current().is_empty());
    leave(&second);
    assert!(current().is_empty());
}

#[test]
fn labels_outlive_those_around_them() {
    let [a, b, c] = ["a", "b", "c"].map(|key| enter_labels(&[Label::Int(key, 1)]).unwrap());
    let span = enter_span(&child());
    let all = list();
    drop(b);
    assert_eq!(list(), all, "nothing to write again");
    assert_one_list(&all.1);
    let d = enter_labels(&[Label::Int("d", 1)]).unwrap();
    let all = list();
    drop(c);
    leave(&span);
    assert_eq!(list(), all);
    assert_eq!(current()[3..], ["a", "b", "c", "d"].map(|key| format!("Int({key:?}, 1)"))[..]);
    assert_one_list(&all.1);
    drop(d);
    assert_eq!(current(), ["Int(\"a\", 1)"], "what was around those that have ended");
    drop(a);
    assert!(current().is_empty());
}

#[test]
fn a_scope_that_is_raised_has_what_it_had() {
    let outer = enter_labels(&[Label::Str("outer", "of all")]).unwrap();
    let mut span = enter_span(&child());
    let (number, mine) = list();
    let labels = enter_labels(&[Label::Str("inner", "longer than the others")]).unwrap();
    let inner = list();
    assert!(raise(&mut span));
    assert_eq!(list(), (number, mine));
    leave(&span);
    assert_eq!(list(), inner);
    assert!(!raise(&mut span), "it has ended");
    assert_eq!(list(), inner);
    drop(outer);
    assert_eq!(list(), inner);
    drop(labels);
    assert!(current().is_empty());
}

#[test]
fn a_variable_whose_scope_is_replaced_for_ever_takes_no_more_room() {
    let outer = enter_labels(&[Label::Str("outer", "x")]).unwrap();
    let mut scope = enter_labels(&[Label::Int("round", -1)]).unwrap();
    let mut room = 0;
    for round in 0..100 {
        scope = enter_labels(&[Label::Int("round", round)]).unwrap();
        let used = with_frames(|frames| (frames.depth, frames.used())).unwrap();
        assert_eq!(used.0, 2);
        assert!(round == 0 || used.1 <= room, "{used:?}");
        room = used.1 + 1; // numbers of two digits take two bytes
    }
    drop(outer);
    drop(scope);
    assert!(current().is_empty());
}
