//! Derived code in difficult surroundings: without a prelude, without unsafe, with every lint as an
//! error, with this crate renamed, and among user names that could clash with its own.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub)]
#![deny(
    unused_qualifications,
    unused_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unused_results,
    let_underscore_drop,
    elided_lifetimes_in_paths,
    non_ascii_idents,
    unit_bindings,
    unused_import_braces
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![allow(
    clippy::redundant_pub_crate,
    reason = "the rule about `pub(crate)` contradicts `unreachable_pub`, which the workspace keeps"
)]

mod recorder;

/// The crate, renamed and inside a module.
mod renamed {
    pub(crate) mod inner {
        pub(crate) use nettrace_event as tracing;
    }
}

/// A module without a prelude, in which common names mean something else.
mod bare {
    #![no_implicit_prelude]
    #![allow(
        non_camel_case_types,
        non_upper_case_globals,
        dead_code,
        reason = "names that derived code might use"
    )]

    use ::nettrace_macros::{TraceEvent, TraceField};

    pub(crate) struct Option;
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) struct str;
    pub(crate) struct u8;
    pub(crate) struct isize;
    pub(crate) struct i32;
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod nettrace_event {}
    pub(crate) trait PayloadEncoder {}
    // A constant turns a binding of the same name into a pattern.
    pub(crate) const encoder: () = ();
    pub(crate) const field0: () = ();
    pub(crate) const location1: () = ();
    pub(crate) const number: () = ();
    pub(crate) const TYPE: () = ();
    pub(crate) const FIELDS_0: () = ();
    pub(crate) const TYPES: () = ();
    pub(crate) const SCHEMA: ::core::primitive::u64 = 4;

    /// Fields with the names of locals, parameters and methods.
    #[derive(TraceEvent)]
    #[trace_event(crate = crate::renamed::inner::tracing, keywords = SCHEMA)]
    pub(crate) struct Locals<'encoder> {
        pub(crate) encoder: ::core::primitive::u8,
        pub(crate) location0: ::core::primitive::u16,
        #[trace_event(encoding = rel_loc)]
        pub(crate) location1: &'encoder ::core::primitive::str,
        #[trace_event(encoding = data_loc)]
        pub(crate) mark: &'encoder [::core::primitive::u32],
        pub(crate) field0: ::core::option::Option<&'encoder ::core::primitive::str>,
        #[trace_event(format = hex)]
        pub(crate) r#match: ::core::primitive::u64,
        pub(crate) value: Value<'encoder>,
        pub(crate) choice: Choice,
        pub(crate) sized: Sized,
    }

    /// An object, by the same rules.
    #[derive(TraceField)]
    #[trace_event(crate = ::nettrace_event)]
    pub(crate) struct Value<'a> {
        pub(crate) encoder: &'a ::core::primitive::str,
        pub(crate) r#type: ::core::primitive::bool,
    }

    /// Variants with the names of everything.
    #[derive(TraceField)]
    #[trace_event(crate = ::nettrace_event)]
    pub(crate) enum Choice {
        Some,
        None,
        r#Type,
    }

    /// The same with an integer.
    #[derive(TraceField)]
    #[trace_event(crate = ::nettrace_event, encoding = number)]
    #[repr(u8)]
    pub(crate) enum Sized {
        Ok = 3,
        Err,
    }

    /// Bindings of variants, with and without fields.
    #[derive(TraceEvent)]
    #[trace_event(crate = crate::renamed::inner::tracing)]
    pub(crate) enum Variants<'a> {
        Some {
            encoder: ::core::primitive::u8,
            field0: &'a ::core::primitive::str,
            #[trace_event(skip)]
            field1: (),
        },
        None,
        Ok(::core::primitive::u8, #[trace_event(skip)] (), ::core::primitive::bool),
    }

    /// An enum of unit variants only.
    #[derive(TraceEvent)]
    #[trace_event(crate = ::nettrace_event)]
    pub(crate) enum Units {
        One,
        Two,
    }
}

/// An old field is still recorded, without a warning at the derive.
#[derive(nettrace_macros::TraceEvent)]
#[trace_event(crate = nettrace_event)]
struct Old {
    #[deprecated]
    _old: u8,
}

macro_rules! event {
    ($name:ident, $provider:expr, $level:ident, $id:expr, $field:ident: $ty:ty) => {
        #[derive(nettrace_macros::TraceEvent)]
        #[trace_event(crate = $crate::renamed::inner::tracing)]
        #[trace_event(provider = $provider, level = $level, id = $id)]
        struct $name<'a> {
            $field: $ty,
            list: &'a [$ty],
        }
    };
}

event!(ByMacro, "By-Macro", Error, 7, field: u16);

#[test]
fn locals_are_not_confused_with_fields() {
    let event = bare::Locals {
        encoder: 1,
        location0: 2,
        location1: "three",
        mark: &[4],
        field0: Some("five"),
        r#match: 6,
        value: bare::Value { encoder: "seven", r#type: true },
        choice: bare::Choice::r#Type,
        sized: bare::Sized::Err,
    };
    let schema = recorder::schema_of::<bare::Locals<'_>>();
    assert_eq!(schema.fields[5].name, "match");
    assert_eq!(schema.keywords, 4);
    assert_eq!(
        recorder::record(&event).join(", "),
        "U8 1, U16 2, location, location, some, str Utf16 five, end, U64 6, str Utf16 seven, \
         Bool true, str Utf16 Type, U8 4, data, data str Utf16RelLoc three, end data, data, U32 4, \
         end data"
    );
}

#[test]
fn bindings_are_not_confused_with_fields() {
    use bare::Variants;

    let event = Variants::Some { encoder: 1, field0: "two", field1: () };
    assert_eq!(recorder::record(&event), ["U8 1", "str Utf16 two"]);
    assert!(recorder::record(&Variants::None).is_empty());
    assert_eq!(recorder::record(&Variants::Ok(3, (), false)), ["U8 3", "Bool false"]);
    assert!(recorder::record(&bare::Units::Two).is_empty());
    let _ = bare::Units::One;
}

#[test]
fn macros_by_example_can_write_the_attributes() {
    let schema = recorder::schema_of::<ByMacro<'_>>();
    assert_eq!((schema.provider.name, schema.id), ("By-Macro", 7));
    let calls = recorder::record(&ByMacro { field: 1, list: &[2] });
    assert_eq!(calls, ["U16 1", "[ Counted 1", "U16 2", "]"]);
    #[allow(deprecated, reason = "the point of the test")]
    let old = Old { _old: 1 };
    assert_eq!(recorder::record(&old), ["U8 1"]);
}
