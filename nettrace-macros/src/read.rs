//! Writes the code of `#[derive(ReadEvent)]` and `#[derive(ReadField)]`. The attributes are those
//! of the derives that write events, so that one type can have both.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Fields, Ident};

use crate::{
    ast::{Body, Container, Derive, Field, Variant},
    error::Errors,
    field::mentions_parameter,
    valid::{self, Event, Value},
};

/// The implementation, or the mistakes.
pub(crate) fn read(input: &DeriveInput, derive: Derive) -> TokenStream {
    let mut errors = Errors::default();
    let home = syn::parse_quote!(::nettrace_reader);
    let container = Container::parse(input, derive, home, &mut errors);
    let code = match derive {
        Derive::Event => event(&container, &mut errors),
        Derive::Field => field(&container, &mut errors),
    };
    errors.into_compile_errors().unwrap_or(code)
}

fn event(container: &Container<'_>, errors: &mut Errors) -> TokenStream {
    let events = valid::events(container, errors);
    let bodies: Vec<_> = match &container.body {
        Body::Struct(fields) => vec![fields.as_slice()],
        Body::Enum(variants) => variants.iter().map(|variant| &*variant.fields).collect(),
        Body::Union => Vec::new(),
    };
    let tries = events.iter().zip(bodies).map(|(event, fields)| {
        let Event { provider, name, variant, .. } = event;
        let path = match variant {
            Some(variant) => quote!(Self::#variant),
            None => quote!(Self),
        };
        let fields = taken(fields, &event.fields);
        quote! {
            if let ::core::option::Option::Some(mut __values) =
                ::nettrace_reader::Values::of(__event, #provider, #name)
            {
                let _ = &mut __values;
                return ::core::option::Option::Some((|| {
                    ::core::result::Result::Ok(#path { #(#fields),* })
                })());
            }
        }
    });
    implementation(
        container,
        &quote!(ReadEvent),
        &quote! {
            fn read(
                __event: &::nettrace_reader::Event<'_>,
            ) -> ::core::option::Option<
                ::core::result::Result<Self, ::nettrace_reader::Mismatch>
            > {
                #(#tries)*
                ::core::option::Option::None
            }
        },
    )
}

/// The implementation of a trait. It has a bound for each field whose type is up to whoever uses
/// the generic type.
fn implementation(
    container: &Container<'_>,
    implemented: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let fields: Vec<&Field<'_>> = match &container.body {
        Body::Struct(fields) => fields.iter().collect(),
        Body::Enum(variants) => variants.iter().flat_map(|variant| &variant.fields).collect(),
        Body::Union => Vec::new(),
    };
    let open = fields.iter().filter(|field| mentions_parameter(container, field.ty));
    let bounds = open.map(|Field { ty, attrs, .. }| -> syn::WherePredicate {
        match attrs.key("skip") {
            Some(_) => syn::parse_quote!(#ty: ::core::default::Default),
            None => syn::parse_quote!(#ty: ::nettrace_reader::ReadField),
        }
    });
    let mut generics = container.generics.clone();
    let mut bounds = bounds.peekable();
    if bounds.peek().is_some() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    let ident = container.ident;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::nettrace_reader::#implemented for #ident #type_generics
        #where_clause
        {
            #body
        }
    }
}

/// Each field of a struct, with its value. What is skipped has its default.
fn taken(fields: &[Field<'_>], values: &[Value<'_>]) -> Vec<TokenStream> {
    let field = |field: &Field<'_>| {
        let member = &field.member;
        match values.iter().find(|value| value.member == member) {
            Some(Value { name, ty, .. }) => quote!(#member: __values.take::<#ty>(#name)?),
            None => quote!(#member: ::core::default::Default::default()),
        }
    };
    fields.iter().map(field).collect()
}

fn field(container: &Container<'_>, errors: &mut Errors) -> TokenStream {
    // A transparent struct is an array if its field is one.
    let is_array = match &container.body {
        Body::Struct(fields) if container.attrs.key("transparent").is_some() => {
            let field = fields.iter().find(|field| field.attrs.key("skip").is_none());
            field.map(|field| {
                let ty = field.ty;
                let member = &field.member;
                let implementation = quote!(<#ty as ::nettrace_reader::ReadField>);
                let others = fields.iter().filter(|other| other.member != *member);
                let others = others.map(
                    |Field { member, .. }| quote!(#member: ::core::default::Default::default()),
                );
                quote! {
                    const IS_ARRAY: ::core::primitive::bool = #implementation::IS_ARRAY;
                    const IS_UNIT: ::core::primitive::bool = #implementation::IS_UNIT;

                    fn absent() -> ::core::option::Option<Self> {
                        ::core::option::Option::Some(Self {
                            #member: #implementation::absent()?, #(#others),*
                        })
                    }
                }
            })
        }
        _ => None,
    };
    let body = match &container.body {
        Body::Struct(fields) => object(container, fields, errors),
        Body::Enum(variants) => choice(variants, errors),
        Body::Union => {
            errors.on(container.ident, "a union cannot be read");
            TokenStream::new()
        }
    };
    implementation(
        container,
        &quote!(ReadField),
        &quote! {
            #is_array

            fn read_field(
                __value: ::nettrace_reader::Value<'_>,
            ) -> ::core::option::Option<Self> {
                #body
            }
        },
    )
}

fn object(container: &Container<'_>, fields: &[Field<'_>], errors: &mut Errors) -> TokenStream {
    let values = valid::values(fields, Derive::Field, errors);
    if let Some(key) = container.attrs.key("transparent") {
        if values.len() != 1 {
            errors.on(key, "a `transparent` struct has one field that is not skipped");
        }
        let field = |field: &Field<'_>| {
            let member = &field.member;
            match values.iter().any(|value| value.member == member) {
                true => quote!(#member: ::nettrace_reader::ReadField::read_field(__value)?),
                false => quote!(#member: ::core::default::Default::default()),
            }
        };
        let fields = fields.iter().map(field);
        return quote!(::core::option::Option::Some(Self { #(#fields),* }));
    }
    let fields = taken(fields, &values);
    quote! {
        let mut __values = ::nettrace_reader::Values::of_object(__value)?;
        let _ = &mut __values;
        (|| ::core::result::Result::<Self, ::nettrace_reader::Mismatch>::Ok(
            Self { #(#fields),* }
        ))().ok()
    }
}

/// An enum by its names, or by its numbers.
fn choice(variants: &[Variant<'_>], errors: &mut Errors) -> TokenStream {
    let has_fields = |variant: &&Variant<'_>| !matches!(variant.node.fields, Fields::Unit);
    for variant in variants.iter().filter(has_fields) {
        errors.on(&variant.node.ident, "only an enum whose variants are bare names can be read");
    }
    let idents: Vec<&Ident> = variants.iter().map(|variant| &variant.node.ident).collect();
    let names = variants.iter().map(|variant| valid::variant_name(variant, errors));
    let names: Vec<_> = names.collect();
    quote! {
        if let ::nettrace_reader::Value::Text(__text) = &__value {
            return match &**__text {
                #(#names => ::core::option::Option::Some(Self::#idents),)*
                _ => ::core::option::Option::None,
            };
        }
        let __number = <::core::primitive::i128 as ::nettrace_reader::ReadField>::read_field(
            __value
        )?;
        #(if __number == Self::#idents as ::core::primitive::i128 {
            return ::core::option::Option::Some(Self::#idents);
        })*
        ::core::option::Option::None
    }
}
