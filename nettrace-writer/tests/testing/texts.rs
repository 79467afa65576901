//! The text of an assertion that fails.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use nettrace_writer::{Emit, assert_event, assert_no_event, assert_span, testing};

use crate::{Answered, Job, Sold, check_out};

fn message(failure: Box<dyn Any + Send>) -> String {
    *failure.downcast().expect("a message that is formatted")
}

/// What an assertion says that fails.
pub(crate) fn told(assertion: impl FnOnce()) -> String {
    message(catch_unwind(AssertUnwindSafe(assertion)).expect_err("it should fail"))
}

/// The golden texts of assertions that fail.
#[test]
fn a_failed_assertion_shows_the_nearest_event_and_the_difference() {
    let events = testing::capture();
    Answered { url: "/cart", status: 404, micros: 180 }.emit();
    Answered { url: "/", status: 500, micros: 20 }.emit();
    Sold { cents: 1 }.emit();
    let all = "\
captured: 3 events
    Testing-Shop/Answered { url: \"/cart\", status: 404, micros: 180 }
    Testing-Shop/Answered { url: \"/\", status: 500, micros: 20 }
    Testing-Shop/Sold { cents: 1 }";

    let text = told(|| {
        assert_event!(events, Answered { status: 200, url: "/cart", .. });
    });
    let expected = "\
no event fits `Answered { status: 200, url: \"/cart\", .. }`
nearest of 2: Answered { url: \"/cart\", status: 404, micros: 180 }
    status: expected 200, found 404
";
    assert_eq!(text, format!("{expected}{all}"));

    let text = told(|| {
        assert_event!(events, "Sold" { dollars: 5, .. });
    });
    let expected = "\
no event fits `Sold { dollars: 5, .. }`
nearest of 1: Sold { cents: 1 }
    dollars: expected 5, there is no such field
";
    assert_eq!(text, format!("{expected}{all}"));

    let text = told(|| {
        assert_event!(events, Job::Started { id: 5..7 });
    });
    let expected = "\
no event fits `Started { id: 5..7, .. }`
there is none of that name
";
    assert_eq!(text, format!("{expected}{all}"));

    let text = told(|| assert_no_event!(events, Answered { status: 400.., .. }));
    let expected = "\
`Answered { status: 400.., .. }` should not be there, but it is: Answered { url: \"/cart\", \
         status: 404, micros: 180 }, Answered { url: \"/\", status: 500, micros: 20 }
";
    assert_eq!(text, format!("{expected}{all}"));
    let text = told(|| assert_no_event!(events));
    assert_eq!(text, format!("there should be no event\n{all}"));

    let text = told(|| {
        let _ = events.events()[2].get::<bool>("cents");
    });
    assert_eq!(text, "`cents` is 1, which is no bool, in Sold { cents: 1 }");
    let text = told(|| {
        let _ = events.events()[2].get::<bool>("dollars");
    });
    assert_eq!(text, "there is no field `dollars` in Sold { cents: 1 }");

    events.clear();
    let _ = check_out(7);
    let text = told(|| {
        assert_span!(events, "check_out" { cart: 8, .. });
    });
    let expected = "\
no span fits `check_out { cart: 8, .. }`
nearest of 1: check_out { cart: 7, err: None } -> ok
    cart: expected 8, found 7
captured: 5 events
";
    assert!(text.starts_with(expected), "{text}");

    events.clear();
    let text = told(|| {
        assert_event!(events, Sold);
    });
    assert_eq!(text, "no event fits `Sold`\nthere is none of that name\ncaptured: nothing");
    (0..30).for_each(|cents| Sold { cents }.emit());
    assert!(events.to_string().ends_with("\n    … 10 more"), "{events}");
}
