//! Writes the code of `#[traced]`: a function whose calls are recorded as events.
//!
//! The function gets an enum of two events, through the derive, and a guard that records the second
//! event when it goes out of scope. The attribute's keys are passed to the derive unchanged. Each
//! event is made by a closure, so that the code that records it knows which of the two it is.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, FnArg, ItemFn, Pat, Path, ext::IdentExt, spanned::Spanned};

use crate::{
    attr::{Attrs, Item, Place},
    error::{Errors, list},
    value::ungroup,
};

/// The function with its events; on a mistake, the unchanged function and the errors.
pub(crate) fn traced(arguments: TokenStream, mut function: ItemFn) -> TokenStream {
    let mut errors = Errors::default();
    let attrs = Attrs::parse_arguments(arguments, Place::Function, &mut errors);
    let spec = Spec::read(&attrs, &function, &mut errors);
    if let Some(token) = &function.sig.constness {
        errors.on(token, "a `const fn` cannot record its calls: they may happen while compiling");
    }
    if let Some(mut tokens) = errors.into_compile_errors() {
        function.to_tokens(&mut tokens);
        return tokens;
    }
    let guard = spec.guard(&function);
    let statements = &function.block.stmts;
    *function.block = syn::parse_quote!({ #guard #(#statements)* });
    function.into_token_stream()
}

/// The contents of the attribute.
struct Spec {
    krate: Path,
    /// The keys that are passed to the derive.
    passed: Vec<TokenStream>,
    has_name: bool,
    fields: Vec<Recorded>,
}

/// An argument that is recorded.
struct Recorded {
    ident: Ident,
    /// Its type, with the lifetime `'call` in place of elided lifetimes and those of the function.
    ty: TokenStream,
}

impl Spec {
    fn read(attrs: &Attrs, function: &ItemFn, errors: &mut Errors) -> Self {
        let krate = match attrs.value("crate") {
            Some(Expr::Path(path)) => path.path.clone(),
            // The derive reports anything that is not a path.
            _ => syn::parse_quote!(::nettrace_writer),
        };
        let fields = match attrs.value("fields").map(ungroup) {
            None => Vec::new(),
            Some(Expr::Array(array)) => {
                array.elems.iter().filter_map(|field| recorded(field, function, errors)).collect()
            }
            Some(other) => {
                errors.on(other, "`fields` takes arguments: `fields = [path, size]`");
                Vec::new()
            }
        };
        let passed =
            attrs.items().filter(|item| item.key != "fields").map(|Item { key, value }| {
                let value = value.as_ref().map(|value| quote!(= #value));
                quote!(#key #value)
            });
        Self { krate, passed: passed.collect(), has_name: attrs.key("name").is_some(), fields }
    }

    /// The statements before the function's own.
    fn guard(&self, function: &ItemFn) -> TokenStream {
        let Self { krate, passed, fields, .. } = self;
        let name = function.sig.ident.unraw().to_string();
        let name = (!self.has_name).then(|| quote!(name = #name,));
        let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
        let declared = fields.iter().map(|Recorded { ident, ty }| {
            let ty = quote_spanned!(ty.span()=> &'call #ty);
            quote!(#ident: #ty)
        });
        let lifetime = (!fields.is_empty()).then(|| quote!(<'call>));
        let elided = (!fields.is_empty()).then(|| quote!(<'_>));
        let description = format!("A call of `{}` begins.", function.sig.ident.unraw());
        let guard = Ident::new("__guard", Span::mixed_site());
        quote! {
            let #guard = {
                #[derive(#krate::TraceEvent)]
                #[trace_event(#name #(#passed),*)]
                enum __Call #lifetime {
                    #[trace_event(description = #description)]
                    Start { #(#declared),* },
                    #[trace_event(description = "The call ends, by a return or a panic.")]
                    Stop { duration: #krate::__traced::Elapsed },
                }

                struct __Guard(#krate::__traced::Started);

                impl ::core::ops::Drop for __Guard {
                    #[inline(always)]
                    fn drop(&mut self) {
                        if self.0.is_running() {
                            let __duration = self.0.elapsed();
                            #krate::Emit::emit(#krate::__private::Made(
                                move || __Call::Stop { duration: __duration },
                            ));
                        }
                    }
                }

                // Both events have the same provider, level and keywords, so whoever listens to one
                // listens to the other.
                let __types = <__Call #elided as #krate::__private::TraceEvent>::event_types();
                if __types[0].enabled() != 0 {
                    #krate::Emit::emit(#krate::__private::Made(
                        || __Call::Start { #(#idents: &#idents),* },
                    ));
                    __Guard(#krate::__traced::Started::now())
                } else {
                    __Guard(#krate::__traced::Started::NEVER)
                }
            };
        }
    }
}

/// The argument that an element of `fields` names.
fn recorded(field: &Expr, function: &ItemFn, errors: &mut Errors) -> Option<Recorded> {
    let named = match ungroup(field) {
        Expr::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    };
    let arguments = || {
        function.sig.inputs.iter().filter_map(|argument| match argument {
            FnArg::Typed(argument) => match &*argument.pat {
                Pat::Ident(pattern) => Some((&pattern.ident, &*argument.ty)),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        })
    };
    let Some((ident, ty)) = named.and_then(|named| arguments().find(|(ident, _)| **ident == named))
    else {
        let names = list(arguments().map(|(ident, _)| ident));
        errors.on(field, format!("`fields` takes arguments by their names, here {names}"));
        return None;
    };
    let generics = &function.sig.generics;
    let varying = first(quote!(#ty), &|ident| {
        ident == "impl"
            || ident == "Self"
            || generics.type_params().any(|p| p.ident == *ident)
            || generics.const_params().any(|p| p.ident == *ident)
    });
    if let Some(varying) = varying {
        errors.on(
            field,
            format!(
                "the type of `{ident}` has `{varying}` in it, which is another one in every use of \
                 the function, but an event type has one list of fields: leave `{ident}` out"
            ),
        );
        return None;
    }
    Some(Recorded { ident: ident.clone(), ty: with_call_lifetimes(quote!(#ty)) })
}

/// The first identifier in the code that satisfies `wanted`.
fn first(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if wanted(&ident) => Some(ident),
        TokenTree::Group(group) => first(group.stream(), wanted),
        _ => None,
    })
}

/// A type that can be used outside the function, where its lifetimes and elided ones have no
/// meaning.
fn with_call_lifetimes(tokens: TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let mut named = Group::new(group.delimiter(), with_call_lifetimes(group.stream()));
                named.set_span(group.span());
                out.extend([TokenTree::Group(named)]);
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let is_static =
                    matches!(tokens.next(), Some(TokenTree::Ident(ident)) if ident == "static");
                out.extend(if is_static { quote!('static) } else { quote!('call) });
            }
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                out.extend([TokenTree::Punct(punct)]);
                let has_lifetime =
                    matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '\'');
                if !has_lifetime {
                    out.extend(quote!('call));
                }
            }
            other => out.extend([other]),
        }
    }
    out
}
