//! Checks the input by every rule that does not need the compiler, and turns it into events.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Ident, LitStr, Member, Type, ext::IdentExt};

use crate::{
    ast::{Body, Container, Derive, Field, Variant},
    attr::Attrs,
    doc_comment::DocComment,
    error::{Errors, list},
    message::placeholders,
    value::{
        ENCODINGS, FORMATS, LOCATIONS, Level, MAX_PROVIDER, Number, TEXTS, name_problem,
        provider_problem, string_literal, ungroup,
    },
};

/// One event type.
pub(crate) struct Event<'a> {
    /// The variant, if the type is an enum.
    pub(crate) variant: Option<&'a Ident>,
    /// An expression of type `&'static str`.
    pub(crate) provider: TokenStream,
    pub(crate) guid: Option<[u8; 16]>,
    pub(crate) group: Option<LitStr>,
    pub(crate) name: LitStr,
    pub(crate) id: Id,
    pub(crate) version: TokenStream,
    pub(crate) level: Level,
    pub(crate) keywords: TokenStream,
    pub(crate) opcode: Option<TokenStream>,
    pub(crate) tag: TokenStream,
    pub(crate) message: Option<LitStr>,
    pub(crate) description: Option<DocComment>,
    pub(crate) key_values: Vec<(LitStr, LitStr)>,
    pub(crate) fields: Vec<Value<'a>>,
}

/// An event's id.
pub(crate) enum Id {
    /// Given by the author, with its value if it is a literal.
    Given(Option<u64>, TokenStream),
    /// Computed from the name.
    Derived(u16),
}

/// A field that is recorded.
pub(crate) struct Value<'a> {
    pub(crate) member: &'a Member,
    pub(crate) name: LitStr,
    pub(crate) ty: &'a Type,
    pub(crate) encoding: Encoding,
    pub(crate) format: Option<Format>,
    pub(crate) tag: TokenStream,
    pub(crate) role: &'static str,
    pub(crate) key_values: Vec<(LitStr, LitStr)>,
    pub(crate) meaning: Option<DocComment>,
}

/// The format of a field: a variant of `nettrace_event::FieldFormat`.
pub(crate) struct Format {
    pub(crate) word: Ident,
    pub(crate) variant: Ident,
}

/// The encoding of a field: markers of `nettrace_event::encoding`.
pub(crate) enum Encoding {
    Natural,
    As(Ident),
    Text(Ident),
    Located(Ident),
}

/// The event types of a struct or enum; incomplete if there are errors.
pub(crate) fn events<'a>(container: &'a Container<'_>, errors: &mut Errors) -> Vec<Event<'a>> {
    let shared = Shared::read(&container.attrs, errors);
    match &container.body {
        Body::Struct(fields) => vec![event(container, &shared, None, fields, errors)],
        Body::Enum(variants) if variants.is_empty() => {
            errors.on(container.ident, "an enum without variants has no event to record");
            Vec::new()
        }
        Body::Enum(variants) => {
            let shared = Shared { prefix: container.attrs.string("name", errors), ..shared };
            let events: Vec<_> = variants
                .iter()
                .map(|variant| event(container, &shared, Some(variant), &variant.fields, errors))
                .collect();
            refuse_clashes(&events, errors);
            events
        }
        Body::Union => {
            errors.on(
                container.ident,
                "a union cannot be an event: which of its fields is set is not known",
            );
            Vec::new()
        }
    }
}

/// The recorded fields of a struct or variant, in order.
pub(crate) fn values<'a>(
    fields: &'a [Field<'_>],
    derive: Derive,
    errors: &mut Errors,
) -> Vec<Value<'a>> {
    let mut values: Vec<Value<'_>> = Vec::new();
    for field in fields {
        if field.attrs.key("skip").is_some() {
            for item in field.attrs.items().filter(|item| item.key != "skip") {
                let key = &item.key;
                errors.on(key, format!("`{key}` has no effect on a skipped field"));
            }
            continue;
        }
        let value = value(field, derive, errors);
        if let Some(earlier) = values.iter().find(|v| v.name.value() == value.name.value()) {
            errors.on(
                &value.name,
                format!("two fields are named `{}`: rename one of them", earlier.name.value()),
            );
        }
        if let Some(key) = field.attrs.key(&value.role.to_lowercase()) {
            if values.iter().any(|earlier| earlier.role == value.role) {
                errors.on(key, format!("another field is already the event's `{key}`"));
            }
        }
        values.push(value);
    }
    if values.len() > usize::from(u16::MAX) {
        errors.at(Span::call_site(), "an event has at most 65,535 fields");
    }
    values
}

/// The name of a variant as text.
pub(crate) fn variant_name(variant: &Variant<'_>, errors: &mut Errors) -> LitStr {
    name(
        &variant.attrs,
        "rename",
        &variant.node.ident.unraw().to_string(),
        &variant.node.ident,
        errors,
    )
}

/// The settings of a struct for its event, or of an enum for all its events.
struct Shared {
    provider: TokenStream,
    guid: Option<[u8; 16]>,
    group: Option<LitStr>,
    /// The start of the names of an enum's events.
    prefix: Option<LitStr>,
    common: Common,
}

/// The settings that an enum can have for all variants and a variant for itself.
#[derive(Default)]
struct Common {
    version: Option<TokenStream>,
    level: Option<Level>,
    keywords: Option<TokenStream>,
    tag: Option<TokenStream>,
    key_values: Vec<(LitStr, LitStr)>,
}

impl Shared {
    fn read(attrs: &Attrs, errors: &mut Errors) -> Self {
        let group = attrs.string("group", errors);
        if let Some(group) = &group {
            let text = group.value();
            if text.is_empty() || !text.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9')) {
                errors.on(group, "a provider group has lower-case letters and digits only");
            }
        }
        let provider = match attrs.value("provider").map(ungroup) {
            None => quote!(::core::env!(
                "CARGO_PKG_NAME",
                "the provider's name is the package's by default, and there is no Cargo to tell \
                 it: write `#[trace_event(provider = \"…\")]`"
            )),
            Some(value) => {
                if let Some(literal) = string_literal(value) {
                    let room = MAX_PROVIDER - group.as_ref().map_or(0, |g| g.value().len());
                    if let Some(problem) = provider_problem(&literal.value(), room) {
                        errors.on(&literal, problem);
                    }
                } else if let syn::Expr::Lit(_) = value {
                    errors.on(value, "`provider` takes a string, for example `provider = \"…\"`");
                }
                quote!(#value)
            }
        };
        Self {
            provider,
            guid: attrs.guid("provider_guid", errors),
            group,
            prefix: None,
            common: Common::read(attrs, errors),
        }
    }
}

impl Common {
    fn read(attrs: &Attrs, errors: &mut Errors) -> Self {
        let mut number = |key, max| attrs.number(key, 0, max, errors).map(|(_, tokens)| tokens);
        let version = number("version", 255);
        let keywords = number("keywords", u64::MAX);
        let tag = number("tag", 65_535);
        Self {
            version,
            level: attrs.level(errors),
            keywords,
            tag,
            key_values: attrs.pairs("key_values", errors),
        }
    }
}

fn event<'a>(
    container: &Container<'_>,
    shared: &Shared,
    variant: Option<&'a Variant<'_>>,
    fields: &'a [Field<'_>],
    errors: &mut Errors,
) -> Event<'a> {
    let (attrs, common, attributes, ident) = match variant {
        None => (&container.attrs, Common::default(), &container.input.attrs, container.ident),
        Some(variant) => {
            let common = Common::read(&variant.attrs, errors);
            (&variant.attrs, common, &variant.node.attrs, &variant.node.ident)
        }
    };
    let own = match (variant, &shared.prefix) {
        (None, _) => ident.unraw().to_string(),
        (Some(_), Some(prefix)) => format!("{}{}", prefix.value(), ident.unraw()),
        (Some(_), None) => format!("{}{}", container.ident.unraw(), ident.unraw()),
    };
    let name = name(attrs, "name", &own, ident, errors);
    let id = match attrs.number("id", 1, 65_534, errors) {
        Some((Number::Literal(number), tokens)) => Id::Given(Some(number), tokens),
        Some((Number::Expression, tokens)) => Id::Given(None, tokens),
        None => Id::Derived(derived_id(&name.value())),
    };
    let fields = values(fields, Derive::Event, errors);
    let message = attrs.text("message", errors);
    if let Some(message) = &message {
        check_message(message, &fields, errors);
    }
    let number = |own: Option<TokenStream>, all: &Option<TokenStream>| {
        own.or_else(|| all.clone()).unwrap_or_else(|| quote!(0))
    };
    let mut key_values = shared.common.key_values.clone();
    key_values.retain(|(key, _)| common.key_values.iter().all(|(k, _)| k.value() != key.value()));
    key_values.extend(common.key_values);
    Event {
        variant: variant.map(|variant| &variant.node.ident),
        provider: shared.provider.clone(),
        guid: shared.guid,
        group: shared.group.clone(),
        name,
        id,
        version: number(common.version, &shared.common.version),
        level: common
            .level
            .or_else(|| shared.common.level.clone())
            .unwrap_or_else(|| Level::Named(Ident::new("Informational", Span::call_site()))),
        keywords: number(common.keywords, &shared.common.keywords),
        opcode: attrs.opcode(errors),
        tag: number(common.tag, &shared.common.tag),
        message,
        description: attrs
            .text("description", errors)
            .map(DocComment::Text)
            .or_else(|| DocComment::read(attributes)),
        key_values,
        fields,
    }
}

fn value<'a>(field: &'a Field<'_>, derive: Derive, errors: &mut Errors) -> Value<'a> {
    let attrs = &field.attrs;
    let own = match &field.member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    let roles = [("start", "Start"), ("end", "End"), ("description", "Description")];
    let mut found = roles.iter().filter_map(|(key, role)| Some((attrs.key(key)?, *role)));
    let role = found.next().map_or("Value", |(_, role)| role);
    if let Some((second, _)) = found.next() {
        errors.on(second, "a field is one of `start`, `end` and `description`, not several");
    }
    let words = ENCODINGS.iter().chain(TEXTS).chain(LOCATIONS).map(|(word, _)| *word);
    let encoding = attrs.word("encoding", words, errors).map_or(Encoding::Natural, |word| {
        let marker = |table: &[(&str, &str)]| {
            let found = table.iter().find(|(name, _)| word == name);
            found.map(|(_, marker)| Ident::new(marker, word.span()))
        };
        if let Some(marker) = marker(TEXTS) {
            return Encoding::Text(marker);
        }
        match (marker(ENCODINGS), marker(LOCATIONS)) {
            (Some(marker), _) => Encoding::As(marker),
            (None, Some(_)) if derive == Derive::Field => {
                errors.on(
                    &word,
                    format!(
                        "`{word}` is only for the fields of an event itself: an object's field \
                         cannot be stored after the event's fields"
                    ),
                );
                Encoding::Natural
            }
            (None, Some(marker)) => Encoding::Located(marker),
            (None, None) => Encoding::Natural,
        }
    });
    let format = attrs.word("format", FORMATS.iter().map(|(word, _)| *word), errors);
    let format = format.and_then(|word| {
        let (_, variant) = FORMATS.iter().find(|(name, _)| word == name)?;
        Some(Format { variant: Ident::new(variant, word.span()), word })
    });
    Value {
        member: &field.member,
        name: name(attrs, "rename", &own, &field.node.ident, errors),
        ty: field.ty,
        encoding,
        format,
        tag: attrs.number("tag", 0, 65_535, errors).map_or_else(|| quote!(0), |(_, tag)| tag),
        role,
        key_values: attrs.pairs("key_values", errors),
        meaning: DocComment::read(&field.node.attrs),
    }
}

/// The name that `key` gives, or else the Rust name, as a literal with the span for errors.
fn name(
    attrs: &Attrs,
    key: &str,
    own: &str,
    at: impl quote::ToTokens,
    errors: &mut Errors,
) -> LitStr {
    let span = at.to_token_stream().into_iter().next().map_or_else(Span::call_site, |t| t.span());
    let literal = attrs.string(key, errors).unwrap_or_else(|| LitStr::new(own, span));
    if let Some(problem) = name_problem(&literal.value()) {
        errors.on(&literal, problem);
    }
    literal
}

fn check_message(message: &LitStr, fields: &[Value<'_>], errors: &mut Errors) {
    let template = message.value();
    let names = match placeholders(&template) {
        Ok(names) => names,
        Err(problem) => return errors.on(message, format!("the message has {problem}")),
    };
    for name in names {
        if fields.iter().all(|field| field.name.value() != name) {
            let known = match fields {
                [] => "the event has no fields".to_owned(),
                _ => format!("the fields are {}", list(fields.iter().map(|f| f.name.value()))),
            };
            errors.on(message, format!("the message names a field `{name}`; {known}"));
        }
    }
}

/// Refuses what would make several events of one type.
pub(crate) fn refuse_parameters(container: &Container<'_>, errors: &mut Errors) {
    for parameter in &container.generics.params {
        let what = match parameter {
            syn::GenericParam::Lifetime(_) => continue,
            syn::GenericParam::Type(_) => "type",
            syn::GenericParam::Const(_) => "const",
        };
        errors.on(
            parameter,
            format!(
                "an event has no {what} parameters: it is one `static` with one name, id and list \
                 of fields, and a generic type would be many; write a struct for each, or make the \
                 varying part a field of one type (lifetimes are fine)"
            ),
        );
    }
}

fn refuse_clashes(events: &[Event<'_>], errors: &mut Errors) {
    for (at, event) in events.iter().enumerate() {
        let earlier = &events[..at];
        if earlier.iter().any(|other| other.name.value() == event.name.value()) {
            errors.on(
                &event.name,
                format!("another variant's event is already named `{}`", event.name.value()),
            );
            continue;
        }
        let Id::Given(Some(number), tokens) = &event.id else { continue };
        let is_same =
            |other: &&Event<'_>| matches!(&other.id, Id::Given(Some(id), _) if id == number);
        if let Some(other) = earlier.iter().find(is_same) {
            let (name, other) = (event.name.value(), other.name.value());
            errors.on(tokens, format!("the event ids of `{other}` and `{name}` are both {number}"));
        }
    }
}

/// FNV-1a of the name, folded into 8,192 to 65,534: the same as `nettrace_event::derived_id`. This
/// crate depends on no other crate of the project, so a test compares the two.
fn derived_id(name: &str) -> u16 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let offset = (hash ^ (hash >> 16)) % (65_535 - 8_192);
    u16::try_from(8_192 + offset).unwrap_or(u16::MAX)
}
