//! The effect of a changed event on readers: derived types before and after.
//!
//! The module `old` has events as they were, and each other module has one of them as it became.

#![allow(dead_code, reason = "nobody emits these events")]

#[path = "schema_lock_support/files.rs"]
mod files;
#[path = "schema_lock_support/random.rs"]
mod random;

use std::time::SystemTime;

use nettrace_writer::{
    Secret, TraceEvent,
    lock::{Catalogue, Event, Verdict, changes},
    secret::Hashed,
    traced,
};

/// The events of a module, as if they were in the module `shop`.
fn events_of(module: &str) -> Catalogue {
    let path = format!("schema_lock::{module}");
    let all = Catalogue::of_packages(&["nettrace-writer"]).events.into_iter();
    let events = all.filter(|event| {
        event
            .module
            .strip_prefix(&path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    });
    let events = events.map(|event| Event { module: event.module.replace(&path, "shop"), ..event });
    let catalogue = Catalogue::new(events.collect());
    assert!(!catalogue.events.is_empty(), "{module} has events");
    catalogue
}

mod old {
    use super::*;

    /// A request was answered.
    #[derive(TraceEvent)]
    #[trace_event(provider = "Shop", key_values = [("team", "web")])]
    pub(crate) struct Answered<'a> {
        /// The path.
        url: &'a str,
        status: u16,
        #[trace_event(key_values = [("unit", "ms")])]
        took: u32,
        customer: Secret<u64, Hashed>,
    }
}

/// Makes modules, each with the event after a change.
macro_rules! changed {
    ($($module:ident { $($item:tt)* })*) => {$(
        mod $module {
            use super::*;
            $($item)*
        }
    )*};
}

changed! {
    same {
        /// A request was answered.
        #[derive(TraceEvent)]
        #[trace_event(provider = "Shop", key_values = [("team", "web")])]
        struct Answered<'b> {
            /// The path.
            url: std::borrow::Cow<'b, str>,
            status: u16,
            #[trace_event(key_values = [("unit", "ms")])]
            took: Box<u32>,
            #[trace_event(skip)]
            internal: Vec<u8>,
            customer: Secret<&'b str, Hashed>,
        }
    }
    another_event {
        /// A request was answered.
        #[derive(TraceEvent)]
        #[trace_event(provider = "Shop", key_values = [("team", "web")])]
        struct Answered<'a> {
            /// The path.
            url: &'a str,
            status: u16,
            #[trace_event(key_values = [("unit", "ms")])]
            took: u32,
            customer: Secret<u64, Hashed>,
        }
        #[traced(provider = "Shop", fields = [cart])]
        fn check_out(cart: u64) {}
    }
    no_event {
        #[derive(TraceEvent)]
        #[trace_event(provider = "Shop")]
        struct Other { number: u8 }
    }
}

/// An event with other attributes, or with other fields.
macro_rules! variants {
    ($($module:ident [$($attributes:tt)*] $name:ident { $($fields:tt)* })*) => {$(
        mod $module {
            use super::*;
            /// A request was answered.
            #[derive(TraceEvent)]
            #[trace_event($($attributes)*)]
            struct $name<'a> { $($fields)* }
        }
    )*};
}

variants! {
    appended [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>, cached: bool,
    }
    inserted [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, cached: bool, status: u16,
        #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    removed [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    renamed_field [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, code: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    retyped [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: u32, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    encoded [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        #[trace_event(encoding = utf8)]
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    optional [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: Option<u16>,
        #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    reordered [provider = "Shop", key_values = [("team", "web")]] Answered {
        status: u16,
        /// The path.
        url: &'a str, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    unit [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "s")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    meaning [provider = "Shop", key_values = [("team", "web")], message = "{url}"] Answered {
        /// The path, cut.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    told [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: &'a str,
    }
    hidden [provider = "Shop", key_values = [("team", "web")]] Answered {
        /// The path.
        url: Secret<&'a str>, status: u16,
        #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    level [provider = "Shop", key_values = [("team", "web")], level = Verbose] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    keywords [provider = "Shop", key_values = [("team", "web")], keywords = 0x10] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    opcode [provider = "Shop", key_values = [("team", "web")], opcode = Stop] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    id [provider = "Shop", key_values = [("team", "web")], id = 7] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    key [provider = "Shop", key_values = [("team", "shop")]] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    renamed [provider = "Shop", key_values = [("team", "web")]] Responded {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    provider [provider = "Store", key_values = [("team", "web")]] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    guid [
        provider = "Shop", provider_guid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        key_values = [("team", "web")]
    ] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: Secret<u64, Hashed>,
    }
    new_version [provider = "Shop", key_values = [("team", "web")], version = 1] Answered {
        url: &'a str, code: u32, customer: Secret<u64, Hashed>,
    }
    told_in_new_version [provider = "Shop", key_values = [("team", "web")], version = 1] Answered {
        /// The path.
        url: &'a str, status: u16, #[trace_event(key_values = [("unit", "ms")])] took: u32,
        customer: &'a str,
    }
}

/// Fields by which tracepoints and Heph traces show more than a value.
macro_rules! shown {
    ($($module:ident { $($fields:tt)* })*) => {$(
        mod $module {
            use super::*;
            #[derive(TraceEvent)]
            #[trace_event(provider = "Shop")]
            struct Sent { $($fields)* }
        }
    )*};
}

shown! {
    sent {
        #[trace_event(format = hex, tag = 7)] flags: u32, #[trace_event(start)] begun: SystemTime,
    }
    format {
        #[trace_event(format = errno, tag = 7)] flags: u32,
        #[trace_event(start)] begun: SystemTime,
    }
    no_format {
        #[trace_event(tag = 7)] flags: u32, #[trace_event(start)] begun: SystemTime,
    }
    tag {
        #[trace_event(format = hex, tag = 8)] flags: u32, #[trace_event(start)] begun: SystemTime,
    }
    role {
        #[trace_event(format = hex, tag = 7)] flags: u32, begun: SystemTime,
    }
}

#[test]
fn how_a_field_is_shown_is_locked() {
    let old = events_of("sent");
    assert!(old.to_string().contains(
        "  field flags u32\n    format hex\n    tag 0x7\n  field begun unix_nanos\n    role start\n"
    ));
    for (module, change) in [
        ("format", "warning: Shop/Sent: field `flags`: format errno, it was hex"),
        ("no_format", "warning: Shop/Sent: field `flags`: format none, it was hex"),
        ("tag", "note: Shop/Sent: field `flags` has another tag"),
        ("role", "warning: Shop/Sent: field `begun`: role none, it was start"),
    ] {
        let new = events_of(module);
        let changes = changes(&old, &new);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].to_string(), change);
        // A trace does not say it.
        assert_eq!(new.stored(), old.stored());
    }
}

mod one_order {
    use super::*;
    #[derive(TraceEvent)]
    #[trace_event(provider = "Order")]
    struct First(u8);
    #[derive(TraceEvent)]
    #[trace_event(key_values = [("a", "1"), ("b", "2")], version = 1, provider = "Order")]
    struct Second(u8);
    #[traced(provider = "Order")]
    fn call() {}
}

mod other_order {
    use super::*;
    #[traced(provider = "Order")]
    fn call() {}
    mod inner {}
    #[derive(TraceEvent)]
    #[trace_event(provider = "Order", version = 1, key_values = [("b", "2"), ("a", "1")])]
    struct Second(u8);
    #[derive(TraceEvent)]
    #[trace_event(provider = "Order")]
    struct First(u8);
}

#[test]
fn the_order_of_the_code_is_no_difference() {
    assert_eq!(events_of("one_order").to_string(), events_of("other_order").to_string());
}

/// The page of the guide promises what the tests find.
#[test]
fn the_guide_has_each_verdict() {
    let guide = include_str!("../../docs/schema.md");
    let rows: Vec<_> = guide.lines().filter(|line| line.starts_with("| ")).collect();
    for (change, verdict) in [
        ("an event is added", "compatible"),
        ("a field is appended", "compatible"),
        ("level or keywords change", "warning"),
        ("a key-value changes", "warning"),
        ("the format or the role of a field changes", "warning"),
        ("a field is removed or renamed", "breaking"),
        ("the opcode changes", "breaking"),
        ("an event is removed or renamed", "breaking in every version"),
        ("the id, the provider or its GUID changes", "breaking in every version"),
        ("a value is not secret any more", "breaking in every version"),
        ("a value is secret now", "breaking"),
        ("`version` shrinks", "breaking"),
        ("a doc comment, a message, the module or a tag changes", "note"),
    ] {
        let row = rows.iter().find(|row| row.contains(change));
        let row = row.unwrap_or_else(|| panic!("{change}"));
        assert!(row.contains(&format!("| {verdict}")), "{row}");
    }
}

#[test]
fn each_kind_of_change_has_its_verdict() {
    let shown = |module: &str| -> Vec<String> {
        let changes = changes(&events_of("old"), &events_of(module));
        changes.iter().map(ToString::to_string).collect()
    };
    let nothing: [&str; 0] = [];
    assert_eq!(shown("same"), nothing);
    assert_eq!(
        shown("another_event"),
        [
            "compatible: Shop/check_outStart: new, version 0",
            "compatible: Shop/check_outStop: new, version 0",
        ]
    );
    assert_eq!(
        shown("no_event"),
        ["breaking: Shop/Answered: the event is gone", "compatible: Shop/Other: new, version 0"]
    );
    let one = [
        ("appended", "compatible: Shop/Answered: field `cached` is appended"),
        (
            "inserted",
            "breaking: Shop/Answered: field `cached` is new, and not behind the others; write \
             `version = 1`",
        ),
        ("removed", "breaking: Shop/Answered: field `status` is gone; write `version = 1`"),
        (
            "renamed_field",
            "breaking: Shop/Answered: field `status` is now `code`; write `version = 1`",
        ),
        (
            "retyped",
            "breaking: Shop/Answered: field `status` is `u32`, it was `u16`; write `version = 1`",
        ),
        (
            "encoded",
            "breaking: Shop/Answered: field `url` is `utf8 text`, it was `text`; write \
             `version = 1`",
        ),
        (
            "optional",
            "breaking: Shop/Answered: field `status` is `u16?`, it was `u16`; write `version = 1`",
        ),
        (
            "reordered",
            "breaking: Shop/Answered: field `status` is in another place; write `version = 1`",
        ),
        ("unit", "warning: Shop/Answered: field `took`: `unit` is \"s\", it was \"ms\""),
        ("told", "breaking: Shop/Answered: field `customer` is not secret any more"),
        ("hidden", "breaking: Shop/Answered: field `url` is secret now; write `version = 1`"),
        ("level", "warning: Shop/Answered: level verbose, it was informational"),
        ("keywords", "warning: Shop/Answered: keywords 0x10, they were 0x0"),
        ("opcode", "breaking: Shop/Answered: opcode 2, it was none; write `version = 1`"),
        ("id", "breaking: Shop/Answered: id 7, it was 47788; write `id = 47788` to keep it"),
        ("key", "warning: Shop/Answered: `team` is \"shop\", it was \"web\""),
        ("provider", "breaking: Shop/Answered: the provider is now `Store`"),
        ("guid", "breaking: Shop/Answered: another GUID of the provider"),
    ];
    for (module, change) in one {
        assert_eq!(shown(module), [change], "{module}");
    }
    assert_eq!(
        shown("renamed"),
        [
            "breaking: Shop/Answered: the name is now `Responded`",
            "breaking: Shop/Answered: id 19633, a hash of the name, it was 47788; write \
             `id = 47788` to keep it",
        ]
    );
    assert_eq!(
        shown("meaning"),
        [
            "note: Shop/Answered: field `url` has another meaning",
            "note: Shop/Answered: another message",
        ]
    );
    assert_eq!(
        shown("new_version"),
        [
            "compatible: Shop/Answered: version 1, it was 0",
            "note: Shop/Answered: field `url` has another meaning",
            "compatible: Shop/Answered: field `status` is gone",
            "compatible: Shop/Answered: field `took` is gone",
            "compatible: Shop/Answered: field `code` is new, and not behind the others",
        ]
    );
    // Nobody is to depend on a version for a secret.
    assert_eq!(
        shown("told_in_new_version"),
        [
            "compatible: Shop/Answered: version 1, it was 0",
            "breaking: Shop/Answered: field `customer` is not secret any more",
        ]
    );
    let back = changes(&events_of("new_version"), &events_of("old"));
    assert!(back.iter().any(|it| it.to_string().contains("version 0, it was 1")), "{back:?}");
    assert!(back.iter().any(|it| it.verdict == Verdict::Breaking), "{back:?}");
}

mod two_versions {
    use super::*;

    mod before {
        use super::*;
        #[derive(TraceEvent)]
        #[trace_event(provider = "Shop")]
        struct Sold {
            cents: u32,
        }
    }
    #[derive(TraceEvent)]
    #[trace_event(provider = "Shop", version = 1)]
    struct Sold {
        euros: f64,
    }
}

/// What no version mends.
#[test]
fn secrets_names_and_ids_hold_for_every_version() {
    let shown = |old: &str, new: &str| -> Vec<String> {
        let [old, new] = [old, new].map(|text| {
            let text = format!("provider P\n{}", text.replace('|', "\n"));
            text.parse::<Catalogue>().unwrap()
        });
        changes(&old, &new).iter().map(ToString::to_string).collect()
    };
    let nested = |secret| format!("event E|  version 1|  field cards [{{number: {secret}text?}}]");
    let plain = "event E|  version 2|  field cards [{number: text?}]".to_owned();
    assert_eq!(
        shown(&nested("secret "), &plain),
        [
            "compatible: P/E: version 2, it was 1",
            "breaking: P/E: field `cards.number` is not secret any more",
            "compatible: P/E: field `cards` is `[{number: text?}]`, it was \
             `[{number: secret text?}]`",
        ]
    );
    // Beside the version that keeps it.
    let both = format!("{}|{plain}", nested("secret "));
    assert_eq!(
        shown(&nested("secret "), &both),
        [
            "breaking: P/E: field `cards.number` is not secret any more",
            "compatible: P/E: new, version 2",
        ]
    );
    // By another name.
    assert_eq!(
        shown("event E|  field customer secret text", "event E|  version 1|  field client text"),
        [
            "compatible: P/E: version 1, it was 0",
            "breaking: P/E: field `customer` is not secret any more",
            "compatible: P/E: field `customer` is now `client`",
        ]
    );
    let told = |old: &str, new: &str| {
        let all = shown(old, new);
        let told = all.iter().filter(|it| it.contains("is not secret any more"));
        told.count()
    };
    // By another name in a version beside it, within an object, and as a whole.
    let first = "event E|  version 1|  field c secret text";
    assert_eq!(told(first, &format!("{first}|event E|  version 2|  field d text")), 1);
    let card = "event E|  field card {number: secret text}";
    assert_eq!(told(card, "event E|  version 1|  field card {no: text}"), 1);
    assert_eq!(told(card, "event E|  version 1|  field card text"), 1);
    assert_eq!(told(card, "event E|  version 1|  field card [{number: secret u8}?]"), 0);
    assert_eq!(told(card, "event E|  version 1|  field other u8|  field card secret text"), 0);
    // The second field of one name.
    let twice = "event E|  field c u8|  field c secret text";
    assert_eq!(told(twice, "event E|  version 1|  field c u8|  field c text"), 1);
    assert_eq!(told(twice, "event E|  version 1|  field c u8|  field c secret text"), 0);
    let all = shown("event E|  field c u8|  field c u8", "event E|  field c u8|  field c u16");
    let says = "field `c` (number 2 of that name) is `u16`, it was `u8`; write `version = 1`";
    assert_eq!(all, [format!("breaking: P/E: {says}")]);
    let all = shown("event E|  field c u8|  field c u8", "event E|  field c u8");
    assert!(all[0].contains("field `c` (number 2 of that name) is gone"), "{all:?}");
    // In another place.
    let top = "event E|  field number secret text|  field card {zone: u8}";
    let moved = "event E|  version 1|  field card {zone: u8, number: text}";
    let says = "field `number` is not secret any more: it is `card.number` now";
    assert!(shown(top, moved).contains(&format!("breaking: P/E: {says}")), "{says}");
    assert_eq!(told(top, "event E|  version 1|  field card {zone: u8, number: secret text}"), 0);
    let back = "event E|  version 1|  field card {zone: u8}|  field number text";
    let within = "event E|  field card {zone: u8, number: secret text}";
    assert_eq!(told(within, back), 1);
    assert_eq!(told(back, within), 0);
    // What was accepted is not said again.
    let second = format!("{first}|event E|  version 2|  field c text");
    assert_eq!(told(&second, &format!("{second}|event E|  version 3|  field c text")), 0);
    // Events without fields are not taken for each other, nor those that are like several.
    assert_eq!(
        shown("event Started|  module m", "event Paused|  version 1|  module m"),
        ["compatible: P/Paused: new, version 1", "breaking: P/Started: the event is gone"]
    );
    let (one, two) = ("event A|  module m|  field x u8", "event B|  module m|  field x u8");
    assert_eq!(
        shown(one, &format!("{two}|{}", two.replace('B', "C"))),
        [
            "breaking: P/A: the event is gone",
            "compatible: P/B: new, version 0",
            "compatible: P/C: new, version 0",
        ]
    );
    assert_eq!(
        shown(one, &two.replace("module", "version 1|  module")),
        ["compatible: P/A: version 1, it was 0", "breaking: P/A: the name is now `B`"]
    );
}

/// A file that somebody has made to hurt is read or refused at once.
#[test]
fn files_made_to_hurt() {
    let event = |field: &str| format!("provider P\nevent E\n  field f {field}\n");
    let leaky = format!("{}u8{}", "[".repeat(60), ("?".repeat(60) + "]").repeat(60));
    for ty in ["u32".to_owned() + &"?".repeat(200_000), "[".repeat(200_000), leaky] {
        let error = event(&ty).parse::<Catalogue>().unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }
    let names: String = (0..20_000).map(|at| format!("\"f {at}\": u8, ")).collect();
    let begun = std::time::Instant::now();
    event(&format!("{{{}}}", names.trim_end_matches(", "))).parse::<Catalogue>().unwrap();
    let same: String = (0..3_000).map(|at| format!("event E{at}\n  id 7 derived\n")).collect();
    let text = format!("provider P\n{same}").parse::<Catalogue>().unwrap().to_string();
    assert!(text.contains("as that of E10, and of 2996 more"), "{}", &text[..300]);
    let many = |name: &str| -> Catalogue {
        let event = |at| format!("event {name}{at}\n  module m\n  field x u8\n");
        let events: String = (0..5_000).map(event).collect();
        format!("provider P\n{events}").parse().unwrap()
    };
    assert_eq!(changes(&many("A"), &many("B")).len(), 10_000);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn two_versions_are_two_events() {
    let both = events_of("two_versions");
    let one = Catalogue::new(both.events[..1].to_vec());
    let changes = changes(&one, &both);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].to_string(), "compatible: Shop/Sold: new, version 1");
    let text = both.to_string();
    assert_eq!(text.matches("derived, as that of Sold").count(), 2, "{text}");
}
