//! Spans of one event, which is recorded at the end. The span's events keep the values of the
//! fields from the start on, in `__kept`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Field, parse::Parser};

use super::{OF_END, SpanEvents, StartField, StopField};
use crate::{
    ast::{self, Derive},
    attr::{AttributeItem, AttributeTarget, Attrs},
    error::Errors,
    expand::{encode_values, encoder_ident},
    valid,
};

/// The key by which readers know such a type.
const KEY: &str = "nettrace.span";
const VALUE: &str = "single";

/// The bytes that a kept value of unknown size may take without an allocation.
const TYPICAL: usize = 64;

/// The key-values of a type, with the one that marks it.
pub(super) fn key_values(item: Option<&AttributeItem>) -> TokenStream {
    let elements = item.and_then(|item| match &item.value {
        Some(syn::Expr::Array(array)) => Some(array.elems.iter()),
        _ => None,
    });
    let elements = elements.into_iter().flatten();
    match item {
        // The derive reports what is no list.
        Some(AttributeItem { value: Some(value), .. }) if !matches!(value, syn::Expr::Array(_)) => {
            quote!(key_values = #value)
        }
        _ => quote!(key_values = [#(#elements,)* (#KEY, #VALUE)]),
    }
}

impl SpanEvents<'_> {
    /// A struct that is the event, and a function that keeps the fields.
    pub(super) fn single(&self) -> TokenStream {
        let Self { krate, at, keys, description, start, stop, .. } = self;
        let ident = Ident::new("__Call", *at);
        let lifetime = self.has_lifetime().then(|| quote!(<'call>));
        let fields = start.iter().map(|StartField { ident, ty, ty_span, attributes, .. }| {
            // One name, so that an error about the field is one of its type.
            let ty = quote_spanned!(*ty_span=> __Value<'call, #ty>);
            quote!(#attributes #ident: #ty)
        });
        let stop = stop
            .iter()
            .map(|StopField { ident, ty, attributes, .. }| quote!(#attributes #ident: #ty));
        let of_end = self.fields_of_end();
        let keep = self.keep();
        let description = description.replace("begins", "is over");
        quote! {
            use #krate::__traced::Value as __Value;

            #[derive(#krate::__private::TraceEvent)]
            #[trace_event(#keys, description = #description)]
            struct #ident #lifetime {
                started: #krate::StartTime,
                #of_end
                #(#fields,)*
                #(#stop),*
            }

            #keep
        }
    }

    /// The function that encodes the fields at the start.
    fn keep(&self) -> Option<TokenStream> {
        if self.start.is_empty() {
            return None;
        }
        let krate = self.krate;
        let (encoder, kept) = (encoder_ident(), self.kept_type());
        let idents: Vec<_> = self.start.iter().map(|field| &field.ident).collect();
        let locals = (0..idents.len()).map(local);
        let types = self
            .start
            .iter()
            .map(|StartField { ty, ty_span, .. }| quote_spanned!(*ty_span=> &'call #ty));
        let calls = self.start.iter().enumerate().map(|(at, field)| {
            let mark = at.checked_sub(1).map(|mark| quote!(#encoder.mark(#mark);));
            let call = encode(field, at, krate);
            quote!(#mark #call)
        });
        Some(quote! {
            #[allow(clippy::all, clippy::pedantic)]
            #[inline]
            fn __keep<'call>(
                #encoder: &mut #kept,
                #(#locals: #types),*
            ) {
                #(#calls)*
            }
        })
    }

    /// The number of bytes of fields that take no allocation.
    fn room(&self) -> usize {
        self.start.iter().map(|field| size(&field.ty)).sum()
    }

    /// The type of `__kept`.
    pub(crate) fn kept(&self) -> Option<TokenStream> {
        let is_kept = self.mode == super::Mode::Single && !self.start.is_empty();
        is_kept.then(|| self.kept_type())
    }

    fn kept_type(&self) -> TokenStream {
        let (krate, room) = (self.krate, self.room());
        let marks = self.start.len().saturating_sub(1);
        quote!(#krate::__traced::Kept<#room, #marks>)
    }

    /// The statement that keeps the fields, in `__events`.
    pub(super) fn keep_now(&self) -> Option<TokenStream> {
        self.kept()?;
        let made = self.start.iter().map(|field| &field.made);
        let places = self.start.iter().map(|field| &field.place);
        Some(quote! {
            #(#made)*
            __keep(&mut __events.__kept, #(&#places),*);
        })
    }

    /// The statement that records the event, of which `__end` tells.
    pub(super) fn emit_single(&self) -> TokenStream {
        let krate = self.krate;
        let of_end = self.values_of_end();
        let fields = self.start.iter().enumerate().map(|(at, StartField { ident, .. })| {
            match at.checked_sub(1) {
                None => quote!(#ident: __values.first(),),
                Some(mark) => quote!(#ident: __values.after(#mark),),
            }
        });
        let stop = self.stop.iter().map(|StopField { ident, value, .. }| quote!(#ident: #value));
        let values = self.kept().map(|_| quote!(let __values = self.__kept.values();));
        quote! {
            #values
            #krate::__private::Emit::emit(__Call {
                started: __end.started,
                #of_end
                #(#fields)*
                #(#stop),*
            });
        }
    }
}

/// Reports fields that such an event cannot have.
pub(super) fn check(fields: &[StartField], later: &[StopField], errors: &mut Errors) {
    for StartField { ident, attributes, .. } in fields {
        if ident == "started" || OF_END.iter().any(|own| ident == own) {
            errors.on(
                ident,
                format!("the event of a span with `mode = single` has a field `{ident}` already"),
            );
        }
        if later.iter().any(|later| later.ident == *ident) {
            errors.on(ident, format!("a field that becomes known later is named `{ident}`, too"));
        }
        if let Some(field) = parsed(ident, &TokenStream::new(), attributes) {
            let attrs =
                Attrs::parse(&field.attrs, AttributeTarget::EventField, &mut Errors::default());
            let located = attrs.value("encoding").filter(|value| {
                let word = value.to_token_stream().to_string();
                crate::value::LOCATIONS.iter().any(|(location, _)| word == *location)
            });
            if let Some(encoding) = located {
                errors.on(
                    encoding,
                    "a span with `mode = single` keeps its fields from start to end, and cannot \
                     keep one that has a location: leave `encoding` out",
                );
            }
        }
    }
}

/// A field as the derive sees it.
fn parsed(ident: &Ident, ty: &TokenStream, attributes: &TokenStream) -> Option<Field> {
    let ty = if ty.is_empty() { quote!(()) } else { ty.clone() };
    Field::parse_named.parse2(quote!(#attributes #ident: #ty)).ok()
}

/// The code that encodes a field. Mistakes in its attributes are reported by the derive.
fn encode(field: &StartField, at: usize, krate: &syn::Path) -> Option<TokenStream> {
    let (errors, ty_span) = (&mut Errors::default(), field.ty_span);
    let ty = &field.ty;
    let node = parsed(&field.ident, &quote_spanned!(ty_span=> &'call #ty), &field.attributes)?;
    let fields = [ast::Field {
        node: &node,
        member: syn::Member::Named(field.ident.clone()),
        ty: &node.ty,
        attrs: Attrs::parse(&node.attrs, AttributeTarget::EventField, errors),
    }];
    let values = valid::values(&fields, Derive::Event, errors);
    let place = |_, _: &valid::Value<'_>| {
        let local = local(at);
        quote!(&#local)
    };
    Some(encode_values(&values, place, &quote!(#krate::__private)))
}

fn local(at: usize) -> Ident {
    Ident::new(&format!("__kept{at}"), Span::mixed_site())
}

/// The number of bytes of a value of a type, if the type is written as usual.
fn size(ty: &TokenStream) -> usize {
    match ty.to_string().rsplit(' ').next().unwrap_or_default() {
        "bool" | "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" | "char" => 4,
        "u64" | "i64" | "f64" | "usize" | "isize" => 8,
        "u128" | "i128" => 16,
        _ => TYPICAL,
    }
}
