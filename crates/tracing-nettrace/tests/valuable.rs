//! Values of the crate `valuable`, which `tracing` passes on only in builds with
//! `--cfg tracing_unstable`: `cargo xtask unstable`.
#![cfg(tracing_unstable)]

mod support;

use std::{collections::BTreeMap, io, path::Path};

use nettrace_reader::Type;
use tracing::{field::valuable, info};
use tracing_nettrace::Options;
use valuable::Valuable;

use crate::support::both;

#[derive(Valuable)]
struct Cart {
    id: u32,
    items: Vec<&'static str>,
    owner: Option<Owner>,
}

#[derive(Valuable)]
enum Owner {
    Guest,
    Known { name: &'static str },
}

#[test]
fn structures_are_json_and_scalars_are_typed() {
    let cart = Cart { id: 7, items: vec!["tea", "\"jam\""], owner: Some(Owner::Guest) };
    let known = Owner::Known { name: "é" };
    let counts = BTreeMap::from([("a", 1_u8), ("b", 2)]);
    let error = io::Error::other("no route");
    let error: &(dyn std::error::Error + 'static) = &error;
    let work = || {
        info!(
            cart = valuable(&cart),
            known = valuable(&known),
            counts = valuable(&counts),
            number = valuable(&-5_i16),
            flag = valuable(&true),
            text = valuable(&"tea"),
            path = valuable(&Path::new("/tmp")),
            error = valuable(&error),
            unit = valuable(&()),
        );
    };
    both(&Options::new(), work, |way, events| {
        let event = &events[0];
        let cart = r#"{"id":7,"items":["tea","\"jam\""],"owner":{"Guest":[]}}"#;
        assert_eq!(event.field("cart"), cart, "{way:?}");
        assert_eq!(event.field("known"), r#"{"Known":{"name":"é"}}"#);
        assert_eq!(event.field("counts"), r#"{"a":1,"b":2}"#);
        assert_eq!(event.field("number"), "-5");
        assert_eq!(event.field("flag"), "true");
        assert_eq!(event.field("text"), "tea");
        assert_eq!(event.field("path"), "/tmp");
        assert_eq!(event.field("error"), "no route");
        assert_eq!(event.field("unit"), "null");
        let types: Vec<_> =
            event.metadata.fields.iter().map(|field| (&*field.name, &field.ty)).collect();
        assert!(types.contains(&("number", &Type::Int64)), "{types:?}");
        assert!(types.contains(&("flag", &Type::Boolean)), "{types:?}");
    });
}
