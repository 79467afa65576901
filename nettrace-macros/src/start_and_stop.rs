//! Writes the events of a span: an enum, through the derive of `TraceEvent`, and the type that
//! records its Stop. Each event is made by a closure, so that the code that records it knows which
//! of them it is.

mod single;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Expr, Path, spanned::Spanned};

use crate::{
    attr::{AttributeItem, Attrs},
    error::Errors,
    value::ungroup,
};

/// The events of one kind of span.
pub(crate) struct SpanEvents<'a> {
    pub(crate) krate: &'a Path,
    /// Where the span is written: the place of its types.
    pub(crate) at: Span,
    /// The keys of the enum.
    pub(crate) keys: TokenStream,
    /// The description of the Start.
    pub(crate) description: String,
    pub(crate) start: Vec<StartField>,
    pub(crate) stop: Vec<StopField>,
    /// Whether the Stop tells of polls.
    pub(crate) is_future: bool,
    /// Whether polls have events.
    pub(crate) polls: bool,
    pub(crate) mode: Mode,
}

/// The events of a span.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A Start and a Stop.
    Pair,
    /// One, at the end.
    Single,
}

impl Mode {
    pub(crate) fn read(attrs: &Attrs, errors: &mut Errors) -> Self {
        let Some(value) = attrs.value("mode").map(ungroup) else { return Self::Pair };
        if !matches!(value, Expr::Path(path) if path.path.is_ident("single")) {
            errors.on(
                value,
                "`mode` is `single`, for one event at the end; without it, a span has a Start and \
                 a Stop",
            );
            return Self::Pair;
        }
        if let Some(key) = attrs.key("polls") {
            errors.on(
                key,
                "a span with `mode = single` has one event, and none for its polls; that event \
                 says how many there were",
            );
        }
        Self::Single
    }
}

/// A field of the Start.
pub(crate) struct StartField {
    pub(crate) ident: Ident,
    /// The type, with the lifetime `'call` in place of others.
    pub(crate) ty: TokenStream,
    /// The span of the type as written.
    pub(crate) ty_span: Span,
    pub(crate) attributes: TokenStream,
    /// A statement that makes the value.
    pub(crate) made: TokenStream,
    /// Where the value is.
    pub(crate) place: TokenStream,
}

/// A field of the Stop that only this span has.
pub(crate) struct StopField {
    pub(crate) ident: Ident,
    /// Its type in the event, with the lifetime `'call`.
    pub(crate) ty: TokenStream,
    pub(crate) attributes: TokenStream,
    /// Its value, for a method of the span's events.
    pub(crate) value: TokenStream,
}

/// The fields at the end of every span: fields of the Stop, or of the only event. Polls are those
/// of a future. `nettrace_span::__traced::stop` encodes the same.
pub(crate) const OF_END: [&str; 4] = ["duration", "outcome", "polls", "busy"];

/// Keys that are not the derive's.
const OWN: &[&str] = &[
    "fields",
    "parent",
    "follows_from",
    "enabled_if",
    "ret",
    "err",
    "polls",
    "later",
    "mode",
    "sample",
];

/// The keys for the derive of a span's events. `krate` and `name` are used if no key says another.
pub(crate) fn keys(attrs: &Attrs, krate: &Path, name: &str, mode: Mode) -> TokenStream {
    let krate = attrs.key("crate").is_none().then(|| quote!(crate = #krate,));
    let name = attrs.key("name").is_none().then(|| quote!(name = #name,));
    let is_single = mode == Mode::Single;
    let marked = is_single.then(|| {
        let given = attrs.items().find(|item| item.key == "key_values");
        single::key_values(given)
    });
    let is_own = |key: &Ident| OWN.iter().any(|own| key == own) || is_single && key == "key_values";
    let passed = attrs.items().filter(|item| !is_own(&item.key));
    let passed = passed.map(|AttributeItem { key, value }| {
        let value = value.as_ref().map(|value| quote!(= #value));
        quote!(#key #value)
    });
    let marked = marked.into_iter();
    let passed = passed.chain(marked);
    quote!(#krate #name #(#passed),*)
}

/// The value of the key `sample`. An error about its type is one of the value.
pub(crate) fn sampling(krate: &Path, sample: &Expr) -> TokenStream {
    let sampling = Ident::new("__sampling", Span::mixed_site());
    quote_spanned!(sample.span()=> { let #sampling: #krate::Sampling = #sample; #sampling })
}

impl SpanEvents<'_> {
    /// The events, `__Call`.
    pub(crate) fn declaration(&self) -> TokenStream {
        match self.mode {
            Mode::Pair => self.pair(),
            Mode::Single => self.single(),
        }
    }

    /// An enum of events.
    fn pair(&self) -> TokenStream {
        let Self { krate, at, keys, description, start, stop, .. } = self;
        let [ident, on_start, on_stop, on_resume, on_suspend] =
            ["__Call", "Start", "Stop", "Resume", "Suspend"].map(|name| Ident::new(name, *at));
        let lifetime = self.has_lifetime().then(|| quote!(<'call>));
        let start = start.iter().map(|StartField { ident, ty, ty_span, attributes, .. }| {
            let ty = quote_spanned!(*ty_span=> &'call #ty);
            quote!(#attributes #ident: #ty)
        });
        let stop = stop
            .iter()
            .map(|StopField { ident, ty, attributes, .. }| quote!(#attributes #ident: #ty));
        let of_end = self.fields_of_end();
        let polls = self.polls.then(|| {
            quote! {
                #[trace_event(opcode = Resume, description = "A poll begins.")]
                #on_resume,
                #[trace_event(opcode = Suspend, description = "A poll ends.")]
                #on_suspend,
            }
        });
        // Of references to the types that were written, Clippy would say what nobody can change.
        quote! {
            #[allow(clippy::borrowed_box, clippy::ref_option_ref)]
            #[derive(#krate::__private::TraceEvent)]
            #[trace_event(#keys)]
            enum #ident #lifetime {
                #[trace_event(opcode = Start, description = #description)]
                #on_start { #(#start),* },
                #[trace_event(opcode = Stop, description = "It ends.")]
                #on_stop {
                    #of_end
                    #(#stop),*
                },
                #polls
            }
        }
    }

    /// The fields [`OF_END`] that this span has, with their types.
    fn fields_of_end(&self) -> TokenStream {
        let krate = self.krate;
        let elapsed = quote!(#krate::Elapsed);
        let types = [&elapsed, &quote!(#krate::Outcome), &quote!(::core::primitive::u32), &elapsed];
        let fields = self.of_end().zip(types).map(|(field, ty)| quote!(#field: #ty,));
        fields.collect()
    }

    /// The same with their values, of which `__end` tells.
    fn values_of_end(&self) -> TokenStream {
        self.of_end().map(|field| quote!(#field: __end.#field,)).collect()
    }

    fn of_end(&self) -> impl Iterator<Item = Ident> {
        OF_END.into_iter().take(if self.is_future { 4 } else { 2 }).map(ident)
    }

    /// Whether anybody listens to the Start. All events have the same provider, level and keywords,
    /// so whoever listens to one listens to the others.
    pub(crate) fn is_wanted(&self) -> TokenStream {
        let (krate, ty) = (self.krate, self.first_type());
        quote!(#krate::__traced::is_wanted(#ty))
    }

    /// The type of the Start, or of the only event.
    pub(crate) fn first_type(&self) -> TokenStream {
        self.type_at(0)
    }

    /// The type at a place in the list of types.
    fn type_at(&self, at: usize) -> TokenStream {
        let krate = self.krate;
        let elided = self.has_lifetime().then(|| quote!(<'_>));
        quote!(<__Call #elided as #krate::__private::TraceEvent>::event_types()[#at])
    }

    /// A function that records the Start, or keeps the fields of the only event.
    pub(crate) fn emit_start(&self) -> TokenStream {
        let krate = self.krate;
        let made = self.start.iter().map(|field| &field.made);
        if self.mode == Mode::Single {
            let keep = self.keep_now();
            return quote!(|__events| { #keep });
        }
        let start = self.start_event();
        quote! {
            |_| {
                #(#made)*
                #krate::__private::Emit::emit(#start);
            }
        }
    }

    /// The Start, if it is an event and its values need not be made first.
    pub(crate) fn ready_start(&self) -> Option<TokenStream> {
        let is_ready =
            self.mode == Mode::Pair && self.start.iter().all(|field| field.made.is_empty());
        is_ready.then(|| self.start_event())
    }

    /// The type of a Stop that tells of nothing but time, outcome and polls.
    pub(crate) fn plain_stop(&self) -> Option<TokenStream> {
        (self.mode == Mode::Pair && self.is_plain()).then(|| self.type_at(1))
    }

    /// The Start, of values that are made.
    fn start_event(&self) -> TokenStream {
        let krate = self.krate;
        let idents = self.start.iter().map(|field| &field.ident);
        let places = self.start.iter().map(|field| &field.place);
        quote! {
            #krate::__private::Made(|| __Call::Start { #(#idents: &#places),* })
        }
    }

    /// The statement that records the Stop, of which `__end` tells.
    pub(crate) fn emit_stop(&self) -> TokenStream {
        if self.mode == Mode::Single {
            return self.emit_single();
        }
        let krate = self.krate;
        if self.is_plain() {
            let (ty, has_polls) = (self.type_at(1), self.is_future);
            return quote!(#krate::__traced::stop(#ty, __end, #has_polls););
        }
        let of_end = self.values_of_end();
        let stop = self.stop.iter().map(|StopField { ident, value, .. }| quote!(#ident: #value));
        quote! {
            #krate::__private::Emit::emit(#krate::__private::Made(|| __Call::Stop {
                #of_end
                #(#stop),*
            }));
        }
    }

    /// The methods of `SpanEvents` that record polls.
    pub(crate) fn poll_methods(&self) -> TokenStream {
        let krate = self.krate;
        let method = |name: &str, variant: &str| {
            let (name, variant) = (ident(name), ident(variant));
            quote! {
                fn #name(&mut self) {
                    #krate::__private::Emit::emit(#krate::__private::Made(|| __Call::#variant));
                }
            }
        };
        let methods = [method("resume", "Resume"), method("suspend", "Suspend")];
        if self.polls { quote!(#(#methods)*) } else { TokenStream::new() }
    }

    /// Reports what its events cannot have.
    pub(crate) fn check(&self, errors: &mut Errors) {
        if self.mode == Mode::Single {
            single::check(&self.start, &self.stop, errors);
        }
    }

    /// The items of `SpanEvents` that tell of the Start.
    pub(crate) fn about_start(&self) -> TokenStream {
        let (krate, ty) = (self.krate, self.first_type());
        let is_single = self.mode == Mode::Single;
        let tells_polls = self.polls;
        let plain = self.plain_stop().map(|ty| {
            let plain = if self.is_future { quote!(plain_polled) } else { quote!(plain_stop) };
            quote! {
                #[inline]
                fn #plain() -> ::core::option::Option<&'static #krate::__private::EventType> {
                    ::core::option::Option::Some(#ty)
                }
            }
        });
        quote! {
            #plain

            #[inline]
            fn tells_polls() -> ::core::primitive::bool {
                #tells_polls
            }

            #[inline]
            fn is_single() -> ::core::primitive::bool {
                #is_single
            }

            #[inline]
            fn first_type() -> ::core::option::Option<&'static #krate::__private::EventType> {
                ::core::option::Option::Some(#ty)
            }
        }
    }

    /// Whether the Stop has nothing to tell but the time, the outcome and polls.
    pub(crate) fn is_plain(&self) -> bool {
        self.stop.is_empty()
    }

    fn has_lifetime(&self) -> bool {
        !self.start.is_empty() || !self.stop.is_empty()
    }
}

fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

/// A type that can be used outside of the function or struct that it was written in, where its
/// lifetimes and elided ones have no meaning.
pub(crate) fn with_call_lifetimes(tokens: TokenStream) -> TokenStream {
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
