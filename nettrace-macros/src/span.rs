//! Writes the code of `#[derive(TraceSpan)]`: a span whose Start has the fields of a struct.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Expr, Fields, Path, Token, ext::IdentExt, parse::Parser,
    punctuated::Punctuated, spanned::Spanned,
};

use crate::{
    ast::derived_ident,
    attr::{AttributeTarget, Attrs},
    error::Errors,
    expand::allowed_lints,
    start_and_stop::{self, Mode, SpanEvents, StartField, StopField, with_call_lifetimes},
};

/// The implementation of `TraceSpan`; on a mistake, one that does nothing, and the errors.
///
/// `home` is the crate that has what the code names, if the input does not name another.
pub(crate) fn trace_span(input: &DeriveInput, home: Path) -> TokenStream {
    let mut errors = Errors::default();
    let attrs = Attrs::parse(&input.attrs, AttributeTarget::Span, &mut errors);
    let krate: Path = match attrs.value("crate") {
        Some(Expr::Path(path)) => path.path.clone(),
        // The derive of the events reports anything that is not a path.
        _ => home,
    };
    let start = start_fields(input, &mut errors);
    let later = later(&attrs, &mut errors);
    let name = input.ident.unraw().to_string();
    let mode = Mode::read(&attrs, &mut errors);
    let call = SpanEvents {
        krate: &krate,
        at: input.ident.span(),
        keys: start_and_stop::keys(&attrs, &krate, &name, mode),
        description: format!("`{name}` begins."),
        start,
        stop: later.iter().map(Later::stop_field).collect(),
        is_future: true,
        polls: attrs.key("polls").is_some(),
        mode,
    };
    call.check(&mut errors);
    if let Some(mut tokens) = errors.into_compile_errors() {
        let never = quote!(loop {});
        tokens.extend(implementation(input, &krate, &quote!(), [&never, &never]));
        return tokens;
    }
    let sampling = sampling(&attrs, &krate);
    let begin = |span: &str| begin(&call, &later, &sampling, &format_ident!("{span}"));
    let bodies = [&begin("Span"), &begin("EnteredSpan")];
    implementation(input, &krate, &events(&call, &later), bodies)
}

/// Whether the span is recorded if it is a root: what the call of the method says, or else the key
/// `sample`.
fn sampling(attrs: &Attrs, krate: &Path) -> TokenStream {
    let Some(sample) = attrs.value("sample") else { return quote!(__sampling) };
    let sampling = start_and_stop::sampling(krate, sample);
    quote! {
        ::core::option::Option::Some(match __sampling {
            ::core::option::Option::Some(__sampling) => __sampling,
            ::core::option::Option::None => #sampling,
        })
    }
}

/// The events of the span, and `__Events`, which records them and keeps what becomes known later.
fn events(call: &SpanEvents<'_>, later: &[Later]) -> TokenStream {
    let krate = call.krate;
    let (declaration, about_start) = (call.declaration(), call.about_start());
    let (emit_stop, polls) = (call.emit_stop(), call.poll_methods());
    let idents = later.iter().map(|field| &field.ident);
    let types = later.iter().map(|field| &field.ty);
    let methods = later.iter().map(Later::method);
    let kept = call.kept().map(|kept| quote!(__kept: #kept));
    quote! {
        #declaration

        pub struct __Events { #(#idents: ::core::option::Option<#types>,)* #kept }

        impl __Events { #(#methods)* }

        impl #krate::SpanEvents for __Events {
            #about_start

            fn stop(&mut self, __end: &#krate::End) {
                #emit_stop
            }

            #polls
        }
    }
}

/// The statements that begin a span of a type: `Span` or `EnteredSpan`.
fn begin(
    call: &SpanEvents<'_>,
    later: &[Later],
    sampling: &TokenStream,
    span_type: &Ident,
) -> TokenStream {
    let krate = call.krate;
    let is_wanted = call.is_wanted();
    let (begin, start) = match call.ready_start() {
        Some(start) => (quote!(begin_event), quote!(&#start)),
        None => (quote!(begin_sampled), call.emit_start()),
    };
    let idents = later.iter().map(|field| &field.ident);
    let kept = call.kept().map(|_| quote!(__kept: #krate::__traced::Kept::empty()));
    quote! {
        let __new = __Events { #(#idents: ::core::option::Option::None,)* #kept };
        if #is_wanted {
            #krate::#span_type::#begin(__new, __parent, #sampling, #start)
        } else {
            #krate::#span_type::off(__new)
        }
    }
}

/// The implementation with the bodies of its two methods. Without `items` it needs no events.
fn implementation(
    input: &DeriveInput,
    krate: &Path,
    items: &TokenStream,
    [start, enter]: [&TokenStream; 2],
) -> TokenStream {
    let ident = derived_ident(&input.ident);
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let nothing = items.is_empty().then(|| {
        quote! {
            pub struct __Events;

            impl #krate::SpanEvents for __Events {
                fn stop(&mut self, _: &#krate::End) {}
            }
        }
    });
    let allowed = allowed_lints(input);
    quote! {
        #(#[allow(#allowed)])*
        #[allow(clippy::pedantic)]
        const _: () = {
            #items
            #nothing

            #[automatically_derived]
            impl #impl_generics #krate::TraceSpan for #ident #type_generics #where_clause {
                type Events = __Events;

                #[inline]
                fn start_sampled(
                    self,
                    __parent: #krate::Parent<'_>,
                    __sampling: ::core::option::Option<#krate::Sampling>,
                ) -> #krate::Span<__Events> {
                    #start
                }

                #[inline]
                fn enter_sampled(
                    self,
                    __parent: #krate::Parent<'_>,
                    __sampling: ::core::option::Option<#krate::Sampling>,
                ) -> #krate::EnteredSpan<__Events> {
                    #enter
                }
            }
        };
    }
}

/// The fields of the struct.
fn start_fields(input: &DeriveInput, errors: &mut Errors) -> Vec<StartField> {
    for parameter in input.generics.params.iter() {
        if !matches!(parameter, syn::GenericParam::Lifetime(_)) {
            errors.on(
                parameter,
                "a span has no type or const parameters: its events are `static`s with one list of \
                 fields (lifetimes are fine)",
            );
        }
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        _ => {
            errors.on(&input.ident, "a span is a struct, whose fields its Start has");
            return Vec::new();
        }
    };
    if let Fields::Unnamed(fields) = fields {
        errors.on(fields, "the fields of a span have names: `struct Checkout { cart: u64 }`");
    }
    // The derive of the events reports mistakes in the attributes of the others.
    let is_recorded = |field: &&syn::Field| {
        let attrs = Attrs::parse(&field.attrs, AttributeTarget::EventField, &mut Errors::default());
        attrs.key("skip").is_none()
    };
    let fields = fields.iter().filter(is_recorded);
    let named = fields.filter_map(|field| field.ident.as_ref().map(|ident| (ident, field)));
    let field = |(ident, field): (&Ident, &syn::Field)| {
        let ty = &field.ty;
        StartField {
            ident: ident.clone(),
            ty: with_call_lifetimes(ty.to_token_stream()),
            ty_span: ty.span(),
            attributes: of_derive(&field.attrs),
            made: TokenStream::new(),
            place: quote!(self.#ident),
        }
    };
    named.map(field).collect()
}

/// A field that becomes known after the start.
struct Later {
    ident: Ident,
    ty: TokenStream,
    attributes: TokenStream,
}

impl Later {
    fn stop_field(&self) -> StopField {
        let Self { ident, ty, attributes } = self;
        let (ty, core) = (with_call_lifetimes(ty.clone()), quote!(::core));
        StopField {
            ident: ident.clone(),
            ty: quote_spanned!(self.ty.span()=> &'call #core::option::Option<#ty>),
            attributes: attributes.clone(),
            value: quote!(&self.#ident),
        }
    }

    /// The method that sets it.
    fn method(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let name = format_ident!("record_{}", ident.unraw(), span = ident.span());
        let doc = format!("Says `{}`, which the span's Stop then has.", ident.unraw());
        quote! {
            #[doc = #doc]
            #[inline]
            pub fn #name(&mut self, value: #ty) {
                self.#ident = ::core::option::Option::Some(value);
            }
        }
    }
}

fn later(attrs: &Attrs, errors: &mut Errors) -> Vec<Later> {
    let declared = match attrs.value("later") {
        None => return Vec::new(),
        Some(Expr::Verbatim(declared)) => declared.clone(),
        Some(other) => {
            errors.on(other, "`later` takes fields: `later = [status: u16, bytes: u64]`");
            return Vec::new();
        }
    };
    let parser = |input: syn::parse::ParseStream<'_>| {
        Punctuated::<_, Token![,]>::parse_terminated_with(input, syn::Field::parse_named)
    };
    let fields: Punctuated<syn::Field, Token![,]> = match parser.parse2(declared.clone()) {
        Ok(fields) => fields,
        Err(error) => {
            errors.on(declared, format!("{error}, as in `later = [status: u16, bytes: u64]`"));
            return Vec::new();
        }
    };
    let mut later: Vec<Later> = Vec::new();
    for syn::Field { attrs, ident, ty, .. } in fields {
        let Some(ident) = ident else { continue };
        if start_and_stop::OF_END.iter().any(|own| ident == own) {
            errors.on(&ident, format!("the Stop of every span has a field `{ident}`"));
        } else if later.iter().any(|earlier| earlier.ident == ident) {
            errors.on(&ident, format!("two fields are named `{}`", ident.unraw()));
        } else {
            later.push(Later { ident, ty: ty.to_token_stream(), attributes: of_derive(&attrs) });
        }
    }
    later
}

/// The attributes that the derive of the events reads.
fn of_derive(attributes: &[Attribute]) -> TokenStream {
    let of_derive = attributes.iter().filter(|attribute| attribute.path().is_ident("trace_event"));
    of_derive.map(ToTokens::to_token_stream).collect()
}
