//! Random catalogues read back as they were written.

use nettrace_writer::lock::{Catalogue, Event, Field, Type, changes};
use proptest::prelude::*;

fn any_type() -> impl Strategy<Value = Type> {
    let plain = prop::sample::select(vec!["u8", "text", "utf8 text", "duration_nanos", "guid"]);
    plain.prop_map(Type::plain).prop_recursive(4, 24, 4, |inner| {
        let field = (any::<String>(), inner.clone(), any::<bool>())
            .prop_map(|(name, ty, is_secret)| Field { is_secret, ..Field::new(name, ty) });
        prop_oneof![
            (inner.clone(), prop::option::of(any::<u16>())).prop_map(|(ty, count)| Type::Array(
                Box::new(ty),
                None,
                count
            )),
            inner.clone().prop_map(|ty| Type::Array(Box::new(ty), Some("rel_loc".into()), None)),
            inner.prop_map(|ty| Type::Option(Box::new(ty))),
            prop::collection::vec(field, 0..4).prop_map(Type::Object),
        ]
    })
}

fn any_field() -> impl Strategy<Value = Field> {
    let keys = prop::collection::vec(any::<(String, String)>(), 0..3);
    let shown = any::<(Option<String>, u16, Option<String>)>();
    (any::<String>(), any_type(), any::<bool>(), shown, any::<Option<String>>(), keys).prop_map(
        |(name, ty, is_secret, (format, tag, role), meaning, keys)| Field {
            name,
            ty,
            is_secret,
            format,
            tag,
            role,
            meaning,
            keys,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    let texts = any::<(String, String, String, Option<String>, Option<String>, Option<String>)>();
    let numbers = any::<(u32, u32, Option<bool>, Option<[u8; 16]>, u8, u64, Option<u8>, u16)>();
    let keys = prop::collection::vec(any::<(String, String)>(), 0..3);
    let fields = prop::collection::vec(any_field(), 0..4);
    (texts, numbers, keys, fields).prop_map(|(texts, numbers, keys, fields)| {
        let (provider, name, module, group, message, meaning) = texts;
        let (version, id, id_is_given, guid, level, keywords, opcode, tag) = numbers;
        Event {
            provider,
            name,
            version,
            module,
            id,
            id_is_given,
            guid,
            group,
            level,
            keywords,
            opcode,
            tag,
            message,
            meaning,
            keys,
            fields,
        }
    })
}

proptest! {
    /// Whatever names there are: the text has one event a line, and is read as it was written.
    #[test]
    fn a_catalogue_is_read_as_it_was_written(events in prop::collection::vec(any_event(), 0..5)) {
        let catalogue = Catalogue::new(events);
        let text = catalogue.to_string();
        prop_assert!(text.chars().all(|it| it == '\n' || !it.is_control()), "{text:?}");
        prop_assert_eq!(&text.parse::<Catalogue>().unwrap(), &catalogue);
        prop_assert_eq!(changes(&catalogue, &catalogue), []);
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in "(provider|event|  |    |field|key|\\{|\\[|\"|a|:|;|\n| )*",
    ) {
        let _ = text.parse::<Catalogue>();
        let _ = text.parse::<Type>();
    }
}
