//! Writes the code of `#[derive(TraceEvent)]`.
//!
//! The code names everything by its full path, and puts statics into an anonymous constant. Locals
//! have mixed-site hygiene and begin with two underscores. Without these, a constant of the user
//! with the same name would turn the binding into a pattern.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Data, DeriveInput, Fields, LitStr, Meta, Type, spanned::Spanned};

use crate::{
    ast::Container,
    doc_comment::DocComment,
    valid::{Encoding, Event, Format, Id, Value},
    value::Level,
};

/// The implementation of `TraceEvent` and its statics.
pub(crate) fn trace_event(container: &Container<'_>, events: &[Event<'_>]) -> TokenStream {
    let krate = &container.krate;
    let private = quote!(#krate::__private);
    let ident = container.derived_ident();
    let (impl_generics, type_generics, where_clause) = container.generics.split_for_impl();

    let fields_trait = fields_trait(container, events, &private);
    let statics = events.iter().enumerate().map(|(at, event)| {
        let (schema, ty) = (schema_ident(at), type_ident(at));
        let value = schema_value(container, at, event, &private);
        quote! {
            static #schema: #private::EventSchema = #value;
            static #ty: #private::EventType = #private::EventType::new(&#schema);
        }
    });
    let distinct = distinct_ids(events, &private);
    let declared = events.iter().enumerate().map(|(at, event)| {
        let meaning = |value: &Value<'_>| DocComment::or_empty(value.meaning.as_ref(), &private);
        let (ty, meanings) = (type_ident(at), event.fields.iter().map(meaning));
        quote!(#ty [#(#meanings),*])
    });
    let (types, count) = ((0..events.len()).map(type_ident), events.len());
    let event_type = event_type_body(events);
    let encode = encode_body(container, events, &private);
    let encoder = encoder_ident();
    let allowed = allowed_lints(container.input);

    quote! {
        #(#[allow(#allowed)])*
        // The types of fields were written elsewhere, where Clippy has its say about them.
        #[allow(clippy::borrowed_box, clippy::ref_option_ref)]
        const _: () = {
            #fields_trait
            #(#statics)*
            #distinct
            #private::__declare_types!(#(#declared)*);

            #[automatically_derived]
            impl #impl_generics #private::TraceEvent for #ident #type_generics #where_clause {
                #[inline]
                fn event_types() -> &'static [&'static #private::EventType] {
                    static __TRACE_EVENT_TYPES: [&#private::EventType; #count] = [#(&#types),*];
                    &__TRACE_EVENT_TYPES
                }

                #[inline]
                fn event_type(&self) -> &'static #private::EventType {
                    #event_type
                }

                #[inline(always)]
                fn encode<__Encoder: #private::PayloadEncoder>(&self, #encoder: &mut __Encoder) {
                    #encode
                }
            }
        };
    }
}

/// The lists of lints that a type or its parts allow or expect, for the constant that the code is
/// in: it names what the type names. No other lint of the compiler is allowed: a crate may forbid
/// that.
pub(crate) fn allowed_lints(input: &DeriveInput) -> Vec<TokenStream> {
    let of_fields = |fields: &Fields| fields.iter().flat_map(|field| field.attrs.clone()).collect();
    let of_parts: Vec<Attribute> = match &input.data {
        Data::Struct(data) => of_fields(&data.fields),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| [variant.attrs.clone(), of_fields(&variant.fields)].concat())
            .collect(),
        Data::Union(_) => Vec::new(),
    };
    let lints = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
            Some(list.tokens.clone())
        }
        _ => None,
    };
    input.attrs.iter().chain(&of_parts).filter_map(lints).collect()
}

/// The schemas of fields.
pub(crate) fn field_schemas(values: &[Value<'_>], private: &TokenStream) -> Vec<TokenStream> {
    let schema = |value: &Value<'_>| {
        let Value { name, tag, .. } = value;
        let key_values = pairs(&value.key_values);
        let ty = quote_type(value.ty);
        let span = value.ty.span();
        let implementation = implementation(value, &ty, private);
        let role = Ident::new(value.role, Span::call_site());
        let described = quote_spanned!(span=> #implementation::TYPE);
        let ty = match value.encoding {
            Encoding::Located(_) => {
                let message = format!(
                    "the field `{}` is stored after the others, so its elements must have a fixed \
                     size: numbers, booleans, GUIDs, times, and arrays and objects of these, but \
                     no text, address, option or sequence",
                    value.name.value()
                );
                let condition = quote!(#private::check::is_locatable(&#described));
                let assertion = assertion(span, &condition, &message, private);
                quote!({ #assertion #described })
            }
            _ => described.clone(),
        };
        let is_secret = match value.encoding {
            Encoding::Natural => quote_spanned!(span=> #implementation::IS_SECRET),
            _ => quote!(false),
        };
        let format = match &value.format {
            None => quote!(#private::FieldFormat::Default),
            Some(format) => checked_format(value, format, &described, private),
        };
        quote_spanned! {span=>
            #private::FieldSchema {
                name: #name,
                ty: #ty,
                format: #format,
                tag: #tag,
                role: #private::FieldRole::#role,
                is_secret: #is_secret,
                key_values: #key_values,
            }
        }
    };
    values.iter().map(schema).collect()
}

/// The calls that pass fields to the encoder; `place` gives a reference to each field.
pub(crate) fn encode_values(
    values: &[Value<'_>],
    place: impl Fn(usize, &Value<'_>) -> TokenStream,
    private: &TokenStream,
) -> TokenStream {
    let encoder = encoder_ident();
    let mut calls = Vec::new();
    let mut data = Vec::new();
    let sizes: Vec<_> = values.iter().map(plain_size).collect();
    let mut runs = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let is_first = at == 0 || sizes[at - 1].is_none();
        let run = sizes[at..].iter().map_while(|size| *size);
        let count = run.clone().count();
        if is_first && count > 1 {
            runs.push((at..at + count, run.sum::<usize>()));
        }
        let reference = place(at, value);
        let implementation = implementation(value, &quote_type(value.ty), private);
        let span = value.ty.span();
        let (begin, end) = match &value.format {
            None => Default::default(),
            Some(Format { variant, .. }) => (
                quote_spanned! {span=>
                    #private::PayloadEncoder::begin_format(
                        #encoder,
                        #private::FieldFormat::#variant,
                    );
                },
                quote_spanned!(span=> #private::PayloadEncoder::end_format(#encoder);),
            ),
        };
        match value.encoding {
            Encoding::Natural => calls.push(quote_spanned! {span=>
                #begin #implementation::encode_field(#reference, #encoder); #end
            }),
            Encoding::As(_) => calls.push(quote_spanned! {span=>
                #begin #implementation::encode_field_as(#reference, #encoder); #end
            }),
            Encoding::Text(_) => calls.push(quote_spanned! {span=>
                #begin #implementation::encode_text(#reference, #encoder); #end
            }),
            Encoding::Located(_) => {
                let mark = Ident::new(&format!("__location{at}"), Span::mixed_site());
                let ty = quote_spanned!(span=> const { &#implementation::TYPE });
                calls.push(quote_spanned! {span=>
                    #begin
                    let #mark = #private::PayloadEncoder::begin_location(#encoder, #ty);
                    #end
                });
                data.push(quote_spanned! {span=>
                    #begin
                    #private::PayloadEncoder::begin_location_data(#encoder, #mark, #ty);
                    #implementation::encode_location_data(#reference, #encoder);
                    #private::PayloadEncoder::end_location_data(#encoder, #mark, #ty);
                    #end
                });
            }
        }
    }
    // A run of numbers is compared with the room once.
    let mut grouped = TokenStream::new();
    let mut at = 0;
    for (run, size) in runs {
        let before = &calls[at..run.start];
        at = run.end;
        let run = &calls[run];
        grouped.extend(quote! {
            #(#before)*
            if #private::PayloadEncoder::expect(#encoder, #size) { #(#run)* }
        });
    }
    let rest = &calls[at..];
    quote!(#grouped #(#rest)* #(#data)*)
}

/// The size of a field in NetTrace whose type is one of Rust's numbers.
fn plain_size(value: &Value<'_>) -> Option<usize> {
    if !matches!(value.encoding, Encoding::Natural) {
        return None;
    }
    let mut ty: &Type = value.ty;
    while let Type::Reference(reference) = ty {
        ty = &reference.elem;
    }
    let Type::Path(path) = ty else { return None };
    Some(match path.path.get_ident()?.to_string().as_str() {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" | "bool" => 4,
        "u64" | "i64" | "f64" => 8,
        "u128" | "i128" => 16,
        _ => return None,
    })
}

/// A reference to a field of `self`, or to a copy of it if the struct is packed.
pub(crate) fn self_place(container: &Container<'_>) -> impl Fn(usize, &Value<'_>) -> TokenStream {
    let packed = container.reprs().iter().any(|word| word == "packed");
    move |_, value| {
        let member = value.member;
        if packed { quote!(&{ self.#member }) } else { quote!(&self.#member) }
    }
}

/// A constant that fails to compile, with the error at `span`, unless the condition holds.
pub(crate) fn assertion(
    span: Span,
    condition: &TokenStream,
    message: &str,
    private: &TokenStream,
) -> TokenStream {
    let core = core(private, span);
    quote_spanned!(span=> #core::assert!(#condition, #message);)
}

/// The path of `core` with a span of the user's. `::core` with such a span would be a path of the
/// user's edition, and that of 2015 does not know it.
pub(crate) fn core(private: &TokenStream, span: Span) -> TokenStream {
    with_span(quote!(#private::__core), span)
}

/// The tokens with another span. `$crate` is what it is by its own.
fn with_span(tokens: TokenStream, span: Span) -> TokenStream {
    let with_span = |mut token: TokenTree| {
        if !matches!(&token, TokenTree::Ident(ident) if ident == "$crate") {
            token.set_span(span);
        }
        token
    };
    tokens.into_iter().map(with_span).collect()
}

/// The local variable that holds the encoder.
pub(crate) fn encoder_ident() -> Ident {
    Ident::new("__encoder", Span::mixed_site())
}

/// A trait of its own for the schemas of fields, and its implementation. A static only allows the
/// lifetime `'static`. Here the fields have their types as written, so a wrong type is reported
/// once, not once for each lifetime.
fn fields_trait(
    container: &Container<'_>,
    events: &[Event<'_>],
    private: &TokenStream,
) -> TokenStream {
    let ident = container.derived_ident();
    let (impl_generics, type_generics, where_clause) = container.generics.split_for_impl();
    let field_idents: Vec<_> = (0..events.len()).map(fields_ident).collect();
    let fields = events.iter().map(|event| {
        let fields = field_schemas(&event.fields, private);
        quote!(&[#(#fields),*])
    });
    quote! {
        trait __TraceEventFields {
            #(const #field_idents: &'static [#private::FieldSchema];)*
        }

        #[automatically_derived]
        impl #impl_generics __TraceEventFields for #ident #type_generics #where_clause {
            #(const #field_idents: &'static [#private::FieldSchema] = #fields;)*
        }
    }
}

/// An assertion that no two events have the same id. Ids that are literals were compared before;
/// the compiler compares the others.
fn distinct_ids(events: &[Event<'_>], private: &TokenStream) -> Option<TokenStream> {
    let constant = events.iter().find_map(|event| match &event.id {
        Id::Given(None, expression) => Some(expression.span()),
        _ => None,
    });
    let span = constant.filter(|_| events.len() > 1)?;
    let schemas = (0..events.len()).map(schema_ident);
    let condition = quote!(#private::check::ids_are_distinct(&[#(&#schemas),*]));
    let message = "two variants of this enum have the same event id: give one of them another";
    let assertion = assertion(span, &condition, message, private);
    Some(quote!(const _: () = { #assertion };))
}

/// The `<Type as Trait>` that describes and encodes a field.
fn implementation(value: &Value<'_>, ty: &TokenStream, private: &TokenStream) -> TokenStream {
    let bound = match &value.encoding {
        Encoding::Natural => quote!(#private::TraceField),
        Encoding::As(marker) => quote!(#private::FieldAs<#private::encoding::#marker>),
        Encoding::Text(marker) => quote!(#private::TextField<#private::encoding::#marker>),
        Encoding::Located(marker) => quote!(#private::LocatedField<#private::encoding::#marker>),
    };
    quote_spanned!(value.ty.span()=> <#ty as #bound>)
}

/// A format, with an assertion that it fits the type.
fn checked_format(
    value: &Value<'_>,
    format: &Format,
    ty: &TokenStream,
    private: &TokenStream,
) -> TokenStream {
    let Format { word, variant } = format;
    let message =
        format!("`format = {word}` does not fit the type of the field `{}`", value.name.value());
    let condition = quote!(#private::check::format_fits(#private::FieldFormat::#variant, &#ty));
    let assertion = assertion(word.span(), &condition, &message, private);
    quote!({ #assertion #private::FieldFormat::#variant })
}

/// A constant expression with an assertion. The condition names the value `__TRACE_EVENT_VALUE`.
fn checked(
    expression: &TokenStream,
    ty: &TokenStream,
    condition: &TokenStream,
    message: &str,
    private: &TokenStream,
) -> TokenStream {
    let assertion = assertion(expression.span(), condition, message, private);
    quote!({
        const __TRACE_EVENT_VALUE: #ty = #expression;
        #assertion
        __TRACE_EVENT_VALUE
    })
}

/// The schema of an event.
fn schema_value(
    container: &Container<'_>,
    at: usize,
    event: &Event<'_>,
    private: &TokenStream,
) -> TokenStream {
    let Event { name, version, level, keywords, tag, .. } = event;
    let provider = provider_schema(event, private);
    let (id, explicit) = schema_id(event, private);
    let level = match level {
        Level::Named(name) => quote!(#name),
        Level::Number(number) => quote!(new(#number)),
    };
    let opcode = option(event.opcode.clone());
    let message = option(event.message.as_ref().map(|message| quote!(#message)));
    let description = match &event.description {
        Some(comment) => comment.optional(private),
        None => option(None),
    };
    let key_values = pairs(&event.key_values);
    let named = event.variant.unwrap_or(container.ident).span();
    let fields = checked_fields(container, at, named, private);
    // What `file!` and `line!` tell is where their tokens are, or the macro that made these.
    // All of their tokens, so that the compiler does not take them for the macro's.
    let core = core(private, named);
    let place = quote_spanned! {named=>
        #private::Place {
            module: #core::module_path!(),
            file: #core::file!(),
            line: #core::line!(),
            column: #core::column!(),
        }
    };
    quote! {
        #private::EventSchema {
            provider: #provider,
            name: #name,
            place: #place,
            id: #id,
            id_is_explicit: #explicit,
            version: #version,
            level: #private::Level::#level,
            keywords: #keywords,
            opcode: #opcode,
            tag: #tag,
            message: #message,
            description: #description,
            key_values: #key_values,
            fields: #fields,
        }
    }
}

/// The schema of an event's provider, with an assertion that its name can be one.
fn provider_schema(event: &Event<'_>, private: &TokenStream) -> TokenStream {
    let group = option(event.group.as_ref().map(|group| quote!(#group)));
    let guid = option(event.guid.map(|guid| quote!([#(#guid),*])));
    let name = checked(
        &event.provider,
        &quote!(&::core::primitive::str),
        &quote!(#private::check::is_provider_name(__TRACE_EVENT_VALUE, #group)),
        "a provider's name has 1 to 233 bytes (with its group), and no white space, control \
         character, `,`, `:` or `;`",
        private,
    );
    quote! {
        #private::ProviderSchema {
            name: #name,
            guid: #guid,
            group: #group,
        }
    }
}

/// The id that an event wants, and whether it was given. One that is no literal has an assertion
/// that it can be an id.
fn schema_id(event: &Event<'_>, private: &TokenStream) -> (TokenStream, bool) {
    match &event.id {
        Id::Derived(id) => (quote!(#id), false),
        Id::Given(Some(_), id) => (id.clone(), true),
        Id::Given(None, expression) => {
            let id = checked(
                expression,
                &quote!(::core::primitive::u16),
                &quote!(#private::check::is_event_id(__TRACE_EVENT_VALUE)),
                "an event's id is 1 to 65,534",
                private,
            );
            (id, true)
        }
    }
}

/// The schemas of an event's fields, from [`fields_trait`], with assertions that decoders of
/// tracepoints can follow them. `named` is where the event's name is.
fn checked_fields(
    container: &Container<'_>,
    at: usize,
    named: Span,
    private: &TokenStream,
) -> TokenStream {
    let (ident, fields) = (container.derived_ident(), fields_ident(at));
    let lifetimes = container.generics.lifetimes().map(|_| quote!('static));
    let size = assertion(
        named,
        &quote!(#private::check::structs_are_small(__TRACE_EVENT_FIELDS)),
        "a struct or tuple in a field of this event has more than 127 fields, which tracepoints \
         could not describe: group some of them in a struct of their own, or mark them \
         `#[trace_event(skip)]`",
        private,
    );
    let nesting = assertion(
        named,
        &quote!(#private::check::can_nest(__TRACE_EVENT_FIELDS)),
        "structs within the fields of this event are more than 8 deep, which decoders of \
         tracepoints do not follow: flatten them (sequences and options within each other count \
         as structs)",
        private,
    );
    quote!({
        const __TRACE_EVENT_FIELDS: &[#private::FieldSchema] =
            <#ident<#(#lifetimes),*> as __TraceEventFields>::#fields;
        #size
        #nesting
        __TRACE_EVENT_FIELDS
    })
}

fn event_type_body(events: &[Event<'_>]) -> TokenStream {
    if let [Event { variant: None, .. }] = events {
        let ty = type_ident(0);
        return quote!(&#ty);
    }
    let arms = events.iter().enumerate().map(|(at, event)| {
        let (variant, ty) = (event.variant, type_ident(at));
        quote!(Self::#variant { .. } => &#ty,)
    });
    quote!(match self { #(#arms)* })
}

fn encode_body(
    container: &Container<'_>,
    events: &[Event<'_>],
    private: &TokenStream,
) -> TokenStream {
    if let [Event { variant: None, fields, .. }] = events {
        let encoder = encoder_ident();
        let unused = fields.is_empty().then(|| quote!(let _ = #encoder;));
        let calls = encode_values(fields, self_place(container), private);
        return quote!(#unused #calls);
    }
    let binding = |at: usize| Ident::new(&format!("__field{at}"), Span::mixed_site());
    let arms = events.iter().map(|event| {
        let variant = event.variant;
        let members = event.fields.iter().map(|value| value.member);
        let bindings = (0..event.fields.len()).map(binding);
        let place = |at: usize, _: &Value<'_>| {
            let binding = binding(at);
            quote!(#binding)
        };
        let calls = encode_values(&event.fields, place, private);
        quote!(Self::#variant { #(#members: #bindings,)* .. } => { #calls })
    });
    let encoder = encoder_ident();
    quote!(let _ = &*#encoder; match self { #(#arms)* })
}

fn schema_ident(at: usize) -> Ident {
    format_ident!("__TRACE_EVENT_SCHEMA_{at}")
}

fn fields_ident(at: usize) -> Ident {
    format_ident!("FIELDS_{at}")
}

fn type_ident(at: usize) -> Ident {
    format_ident!("__TRACE_EVENT_TYPE_{at}")
}

/// A slice of string pairs.
fn pairs(pairs: &[(LitStr, LitStr)]) -> TokenStream {
    let pairs = pairs.iter().map(|(key, value)| quote!((#key, #value)));
    quote!(&[#(#pairs),*])
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn quote_type(ty: &Type) -> TokenStream {
    quote!(#ty)
}
