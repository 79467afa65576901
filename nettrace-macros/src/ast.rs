//! Reads the derive's input and its attributes, without checking them yet.

use proc_macro2::Span;
use syn::{DeriveInput, Fields, Generics, Ident, Index, Member, Path, Type};

use crate::{
    attr::{AttributeTarget, Attrs},
    error::Errors,
};

/// The derive that is running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derive {
    /// `#[derive(TraceEvent)]`.
    Event,
    /// `#[derive(TraceField)]`.
    Field,
}

/// A type under a derive.
pub(crate) struct Container<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    /// The path of the crate that has `__private`.
    pub(crate) krate: Path,
    pub(crate) attrs: Attrs,
    pub(crate) input: &'a DeriveInput,
    pub(crate) body: Body<'a>,
}

/// The content of the type.
pub(crate) enum Body<'a> {
    Struct(Vec<Field<'a>>),
    Enum(Vec<Variant<'a>>),
    Union,
}

/// A variant of an enum.
pub(crate) struct Variant<'a> {
    pub(crate) node: &'a syn::Variant,
    pub(crate) attrs: Attrs,
    pub(crate) fields: Vec<Field<'a>>,
}

/// A field of a struct or of a variant.
pub(crate) struct Field<'a> {
    pub(crate) node: &'a syn::Field,
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
    pub(crate) attrs: Attrs,
}

impl<'a> Container<'a> {
    /// Reads the input. Mistakes in the attributes go to `errors`.
    ///
    /// `home` is the crate that has `__private`, if the input does not name another.
    pub(crate) fn parse(
        input: &'a DeriveInput,
        derive: Derive,
        home: Path,
        errors: &mut Errors,
    ) -> Self {
        let (place, variant_place, field_place) = match (derive, &input.data) {
            (Derive::Event, syn::Data::Enum(_)) => (
                AttributeTarget::EventEnum,
                AttributeTarget::EventVariant,
                AttributeTarget::EventField,
            ),
            (Derive::Event, _) => {
                (AttributeTarget::Event, AttributeTarget::EventVariant, AttributeTarget::EventField)
            }
            (Derive::Field, syn::Data::Enum(_)) => (
                AttributeTarget::Choice,
                AttributeTarget::ChoiceVariant,
                AttributeTarget::ObjectField,
            ),
            (Derive::Field, _) => (
                AttributeTarget::Object,
                AttributeTarget::ChoiceVariant,
                AttributeTarget::ObjectField,
            ),
        };
        let attrs = Attrs::parse(&input.attrs, place, errors);
        let krate = match attrs.value("crate") {
            None => home,
            Some(syn::Expr::Path(path)) if path.qself.is_none() => path.path.clone(),
            Some(other) => {
                errors.on(other, "`crate` takes a path, for example `crate = ::nettrace_writer`");
                home
            }
        };
        let body = match &input.data {
            syn::Data::Struct(data) => Body::Struct(fields(&data.fields, field_place, errors)),
            syn::Data::Enum(data) => Body::Enum(
                data.variants
                    .iter()
                    .map(|node| Variant {
                        node,
                        attrs: Attrs::parse(&node.attrs, variant_place, errors),
                        fields: fields(&node.fields, field_place, errors),
                    })
                    .collect(),
            ),
            syn::Data::Union(_) => Body::Union,
        };
        Self { ident: &input.ident, generics: &input.generics, krate, attrs, input, body }
    }

    /// The name as a part of the derive's code.
    pub(crate) fn derived_ident(&self) -> Ident {
        derived_ident(self.ident)
    }

    /// The words in `#[repr(...)]` attributes.
    pub(crate) fn reprs(&self) -> Vec<Ident> {
        let mut words = Vec::new();
        for attribute in self.input.attrs.iter().filter(|a| a.path().is_ident("repr")) {
            // Ignore what cannot be read here: the compiler reports it.
            let _ = attribute.parse_nested_meta(|meta| {
                words.extend(meta.path.get_ident().cloned());
                if meta.input.peek(syn::token::Paren) {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    content.parse::<proc_macro2::TokenStream>()?;
                }
                Ok(())
            });
        }
        words
    }
}

/// The name of a type as a part of the derive's code, in which it is no mistake that the type is
/// deprecated.
pub(crate) fn derived_ident(ident: &Ident) -> Ident {
    let mut ident = ident.clone();
    ident.set_span(Span::call_site().located_at(ident.span()));
    ident
}

fn fields<'a>(fields: &'a Fields, place: AttributeTarget, errors: &mut Errors) -> Vec<Field<'a>> {
    fields
        .iter()
        .enumerate()
        .map(|(at, node)| Field {
            node,
            member: match &node.ident {
                Some(ident) => Member::Named(ident.clone()),
                None => Member::Unnamed(Index::from(at)),
            },
            ty: &node.ty,
            attrs: Attrs::parse(&node.attrs, place, errors),
        })
        .collect()
}
