//! The keys of `#[trace_event(...)]`: where each is allowed, and the form of its value.

use proc_macro2::TokenStream;
use syn::{
    Attribute, Expr, Ident, Meta, Token, ext::IdentExt, parse::Parser, punctuated::Punctuated,
};

use crate::error::{Errors, list};

/// The item that an attribute is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributeTarget {
    /// A struct that derives `TraceEvent`.
    Event,
    /// An enum that derives `TraceEvent`.
    EventEnum,
    /// A variant of such an enum.
    EventVariant,
    /// A field of an event.
    EventField,
    /// A struct that derives `TraceField`.
    Object,
    /// A field of such a struct.
    ObjectField,
    /// An enum that derives `TraceField`.
    Choice,
    /// A variant of such an enum.
    ChoiceVariant,
    /// A function under `#[traced]`.
    Function,
    /// A struct that derives `TraceSpan`.
    Span,
}

/// The keys of one item. Each is allowed there, has the right form and occurs once.
pub(crate) struct Attrs(Vec<AttributeItem>);

/// `key` or `key = value`.
#[derive(Clone)]
pub(crate) struct AttributeItem {
    pub(crate) key: Ident,
    pub(crate) value: Option<Expr>,
}

impl Attrs {
    /// Reads every `trace_event` attribute of an item.
    pub(crate) fn parse(
        attributes: &[Attribute],
        place: AttributeTarget,
        errors: &mut Errors,
    ) -> Self {
        let mut items: Vec<AttributeItem> = Vec::new();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("trace_event")) {
            let Meta::List(meta) = &attribute.meta else {
                errors.on(&attribute.meta, "write `#[trace_event(key = value, …)]`");
                continue;
            };
            match Punctuated::<AttributeItem, Token![,]>::parse_terminated
                .parse2(meta.tokens.clone())
            {
                Ok(list) => {
                    list.into_iter().for_each(|item| accept(item, &mut items, place, errors))
                }
                Err(error) => errors.push(error),
            }
        }
        Self(items)
    }

    /// Reads the arguments of an attribute macro.
    pub(crate) fn parse_arguments(
        arguments: TokenStream,
        place: AttributeTarget,
        errors: &mut Errors,
    ) -> Self {
        let mut items = Vec::new();
        match Punctuated::<AttributeItem, Token![,]>::parse_terminated.parse2(arguments) {
            Ok(list) => list.into_iter().for_each(|item| accept(item, &mut items, place, errors)),
            Err(error) => errors.push(error),
        }
        Self(items)
    }

    /// All keys with their values.
    pub(crate) fn items(&self) -> impl Iterator<Item = &AttributeItem> {
        self.0.iter()
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&Expr> {
        self.item(key).and_then(|item| item.value.as_ref())
    }

    /// The key itself, for its position in the source.
    pub(crate) fn key(&self, key: &str) -> Option<&Ident> {
        self.item(key).map(|item| &item.key)
    }

    fn item(&self, key: &str) -> Option<&AttributeItem> {
        self.0.iter().find(|item| item.key == key)
    }
}

impl syn::parse::Parse for AttributeItem {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Self> {
        let at = input.span();
        let key = input.call(Ident::parse_any);
        let key =
            key.map_err(|_| syn::Error::new(at, "expected a key, as in `level = Warning`"))?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            if is_list(&key) && input.peek(syn::token::Bracket) {
                // Elements have a grammar of their own.
                let elements;
                syn::bracketed!(elements in input);
                Some(Expr::Verbatim(elements.parse()?))
            } else {
                Some(input.parse()?)
            }
        } else if input.is_empty() || input.peek(Token![,]) {
            None
        } else {
            return Err(input.error(format!("expected `=` or `,` after `{key}`")));
        };
        Ok(Self { key, value })
    }
}

/// Whether the value of a key is a list of declarations: an `Expr::Verbatim`.
fn is_list(key: &Ident) -> bool {
    key == "fields" || key == "later"
}

/// A key: the places where it is allowed, and its form.
struct Key {
    name: &'static str,
    /// An example of its value; `None` for a flag.
    example: Option<&'static str>,
    places: &'static [AttributeTarget],
}

const KEYS: &[Key] = {
    use AttributeTarget::*;
    const TYPES: &[AttributeTarget] = &[Event, EventEnum, EventVariant, Function, Span];
    const ONE: &[AttributeTarget] = &[Event, EventVariant];
    const WHOLE: &[AttributeTarget] = &[Event, EventEnum, Function, Span];
    const FIELDS: &[AttributeTarget] = &[EventField, ObjectField];
    &[
        Key { name: "provider", example: Some("\"Contoso-Checkout\""), places: WHOLE },
        Key {
            name: "provider_guid",
            example: Some("\"01234567-89ab-cdef-0123-456789abcdef\""),
            places: WHOLE,
        },
        Key { name: "group", example: Some("\"contoso\""), places: WHOLE },
        Key { name: "name", example: Some("\"RequestStart\""), places: TYPES },
        Key { name: "id", example: Some("7"), places: ONE },
        Key { name: "version", example: Some("1"), places: TYPES },
        Key { name: "level", example: Some("Warning"), places: TYPES },
        Key { name: "keywords", example: Some("0x1"), places: TYPES },
        Key { name: "opcode", example: Some("Start"), places: ONE },
        Key {
            name: "tag",
            example: Some("0x10"),
            places: &[Event, EventEnum, EventVariant, Function, Span, EventField, ObjectField],
        },
        Key { name: "message", example: Some("\"took {micros} µs\""), places: ONE },
        Key { name: "description", example: Some("\"a request came in\""), places: ONE },
        Key {
            name: "key_values",
            example: Some("[(\"team\", \"checkout\")]"),
            places: &[Event, EventEnum, EventVariant, Function, Span, EventField, ObjectField],
        },
        Key {
            name: "rename",
            example: Some("\"Url\""),
            places: &[EventField, ObjectField, ChoiceVariant],
        },
        Key { name: "skip", example: None, places: FIELDS },
        Key { name: "encoding", example: Some("utf8"), places: &[EventField, ObjectField, Choice] },
        Key { name: "format", example: Some("hex"), places: FIELDS },
        Key { name: "start", example: None, places: &[EventField] },
        Key { name: "end", example: None, places: &[EventField] },
        Key { name: "description", example: None, places: &[EventField] },
        Key { name: "transparent", example: None, places: &[Object] },
        Key {
            name: "crate",
            example: Some("::nettrace_writer"),
            places: &[Event, EventEnum, Object, Choice, Function, Span],
        },
        Key { name: "fields", example: Some("[path, size]"), places: &[Function] },
        Key { name: "parent", example: Some("none"), places: &[Function] },
        Key { name: "follows_from", example: Some("&message.context"), places: &[Function] },
        Key { name: "enabled_if", example: Some("is_debug()"), places: &[Function] },
        Key { name: "ret", example: Some(OPTIONAL), places: &[Function] },
        Key { name: "err", example: Some(OPTIONAL), places: &[Function] },
        Key { name: "mode", example: Some("single"), places: &[Function, Span] },
        Key { name: "polls", example: None, places: &[Function, Span] },
        Key { name: "sample", example: Some("Sampling::ratio(0.01)"), places: &[Function, Span] },
        Key { name: "later", example: Some("[status: u16]"), places: &[Span] },
    ]
};

/// In place of the example of a key that needs no value.
const OPTIONAL: &str = "";

/// Adds an item that is allowed here; otherwise reports why it is not.
fn accept(
    item: AttributeItem,
    items: &mut Vec<AttributeItem>,
    place: AttributeTarget,
    errors: &mut Errors,
) {
    let name = item.key.to_string();
    let known = || KEYS.iter().filter(|key| key.places.contains(&place));
    let Some(key) = known().find(|key| key.name == name) else {
        let known = list(known().map(|key| key.name));
        let elsewhere = KEYS.iter().find(|key| key.name == name).map(|key| key.places);
        let problem = match elsewhere {
            Some(places) => {
                format!("`{name}` belongs on {}, not on {}", nouns(places), noun(place))
            }
            None => format!("unknown key `{name}`"),
        };
        errors.on(&item.key, format!("{problem}; the keys of {} are {known}", noun(place)));
        return;
    };
    match (key.example, &item.value) {
        (Some(example), None) if example != OPTIONAL => {
            errors
                .on(&item.key, format!("`{name}` needs a value, for example `{name} = {example}`"));
        }
        (None, Some(_)) => {
            errors.on(&item.value, format!("`{name}` is a flag and takes no value"));
        }
        _ if items.iter().any(|earlier| earlier.key == item.key) => {
            errors.on(&item.key, format!("`{name}` is given twice"));
        }
        _ => items.push(item),
    }
}

fn nouns(places: &[AttributeTarget]) -> String {
    let nouns: Vec<&str> = places.iter().map(|&place| noun(place)).collect();
    match nouns.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => nouns.concat(),
    }
}

fn noun(place: AttributeTarget) -> &'static str {
    match place {
        AttributeTarget::Event => "an event struct",
        AttributeTarget::EventEnum => "an enum of events",
        AttributeTarget::EventVariant => "a variant that is an event",
        AttributeTarget::EventField => "a field of an event",
        AttributeTarget::Object => "a struct that derives `TraceField`",
        AttributeTarget::ObjectField => "a field of a struct that derives `TraceField`",
        AttributeTarget::Choice => "an enum that derives `TraceField`",
        AttributeTarget::Function => "`#[traced]`",
        AttributeTarget::Span => "a struct that derives `TraceSpan`",
        AttributeTarget::ChoiceVariant => "a variant of an enum that derives `TraceField`",
    }
}
