//! Writes the code of `#[traced]`: a function whose calls are spans.
//!
//! A function that cannot return a `Result` gets a guard before its first statement. One that may
//! return a `Result` becomes a closure that is called at once, because only then the result is
//! known before the span ends. Which it is, the type of the value decides and not its name: it may
//! be an alias. An async function's body becomes an async block within a future that is a span.
//!
//! The user's statements stay in a block of their own, with their own tokens, and the function
//! keeps its braces. So lints and errors are those of the function as written. The code itself
//! allows none of the compiler's lints, because a crate may forbid that.

mod drop_order;
mod fields;
mod future;
mod output;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, Block, Expr, Item, ItemFn, Path, Type, ext::IdentExt, parse_quote, spanned::Spanned,
    token::Brace,
};

use self::output::{Future, Output};
use crate::{
    attr::{AttributeTarget, Attrs},
    error::Errors,
    expand::core,
    start_and_stop::{self, Mode, SpanEvents, StopField},
    value::ungroup,
};

/// The function with its events; on a mistake, the unchanged item and the errors.
///
/// `home` is the crate that has what the code names, if the arguments do not name another.
pub(crate) fn traced(arguments: TokenStream, item: TokenStream, home: Path) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let mut tokens = no_function(&item).unwrap_or(error).to_compile_error();
            tokens.extend(item);
            return tokens;
        }
    };
    let mut errors = Errors::default();
    let attrs = Attrs::parse_arguments(arguments, AttributeTarget::Function, &mut errors);
    let krate = match attrs.value("crate") {
        Some(Expr::Path(path)) => path.path.clone(),
        // The derive reports anything that is not a path.
        _ => home,
    };
    let spec = Spec::read(&attrs, &krate, &function, &mut errors);
    if spec.has_inner_body(&function) {
        drop_order::name_ignored(&mut function);
    }
    let block = spec.block(&function, &mut errors);
    if let Some(mut tokens) = errors.into_compile_errors() {
        function.to_tokens(&mut tokens);
        return tokens;
    }
    // The span of a function ends with its last token. If that were the macro's, lints would take
    // the function for a part of the macro, and say nothing.
    let brace_token = function.block.brace_token;
    *function.block = Block { brace_token, ..block };
    function.into_token_stream()
}

/// The problem with an item that is no function.
fn no_function(item: &TokenStream) -> Option<syn::Error> {
    let (at, words) = match syn::parse2(item.clone()).ok()? {
        Item::Impl(item) => (item.impl_token.span, "put it on the methods of this `impl`"),
        Item::Trait(item) => (item.trait_token.span, "put it on the methods that have a body here"),
        _ => return None,
    };
    Some(syn::Error::new(at, format!("`#[traced]` is for functions: {words}")))
}

/// The contents of the attribute.
struct Spec<'a> {
    call: SpanEvents<'a>,
    /// A `Parent`. `None`: the span in force.
    parent: Option<TokenStream>,
    /// A further condition for a span to begin.
    enabled_if: Option<&'a Expr>,
    /// Whether its trace is recorded, if it is a root.
    sample: Option<&'a Expr>,
    output: Output,
    ret: Option<Text>,
    err: Option<Text>,
}

/// The form in which a value is recorded.
struct Text {
    /// A variant of `__traced::Shown`, with the span of the key.
    variant: Ident,
    /// The type of a number or truth value, which is recorded as it is.
    number: Option<Type>,
}

/// The owner of a span that has begun.
#[derive(Clone, Copy)]
enum Guard<'a> {
    /// The call that has this name. It is in force until the call ends.
    Call(&'a Ident),
    /// A value of its own. It is in force until the first poll ends, which comes next.
    Here,
    /// A value of its own, which is not in force.
    Later,
}

impl<'a> Spec<'a> {
    fn read(attrs: &'a Attrs, krate: &'a Path, function: &ItemFn, errors: &mut Errors) -> Self {
        let signature = &function.sig;
        if let Some(token) = &signature.constness {
            errors
                .on(token, "a `const fn` cannot record its calls: they may happen while compiling");
        }
        let output = Output::of(signature);
        let is_future = signature.asyncness.is_some() || output.future != Future::No;
        if let (Some(key), false) = (attrs.key("polls"), is_future) {
            errors.on(key, "`polls` is for futures: this function returns none that is known");
        }
        let err = Text::read(attrs, "err", "Display", None, errors);
        let number = output.number(err.is_some());
        let ret = Text::read(attrs, "ret", "Debug", number, errors);
        for key in ["ret", "err"] {
            if let Some(token) = attrs.key(key).filter(|_| output.is_unit() || output.is_never()) {
                errors
                    .on(token, format!("`{key}` has nothing to record: the function returns none"));
            }
        }
        let has_other = output.has_no_error() && !output.is_unit();
        if let (Some(token), true) = (attrs.key("err"), has_other) {
            errors.on(
                token,
                "`err` records the error of a `Result`, and this function returns none; `ret` \
                 records whatever it returns",
            );
        }
        let parent = parent(attrs, krate, errors);
        let name = signature.ident.unraw().to_string();
        let texts = [("ret", &ret), ("err", &err)];
        let stop = texts.into_iter().filter_map(|(name, text)| {
            Some(StopField {
                ty: text.as_ref()?.ty(krate, &quote!('call)),
                attributes: TokenStream::new(),
                value: local(&format!("__{name}")).into_token_stream(),
                ident: Ident::new(name, Span::call_site()),
            })
        });
        let mode = Mode::read(attrs, errors);
        let call = SpanEvents {
            krate,
            at: signature.ident.span(),
            keys: start_and_stop::keys(attrs, krate, &name, mode),
            description: format!("A call of `{name}` begins."),
            start: fields::recorded(attrs, function, errors),
            stop: stop.collect(),
            is_future,
            polls: attrs.key("polls").is_some(),
            mode,
        };
        call.check(errors);
        let (enabled_if, sample) = (attrs.value("enabled_if"), attrs.value("sample"));
        Self { call, parent, enabled_if, sample, output, ret, err }
    }

    /// The function's new block.
    fn block(&self, function: &ItemFn, errors: &mut Errors) -> Block {
        if function.sig.asyncness.is_some() {
            let body = &function.block;
            let named = drop_order::statement(function);
            let future = self.future(&parse_quote!(async move #body), named);
            return parse_quote!({ #future });
        }
        match self.output.future {
            Future::No => self.sync_block(function, errors),
            Future::Impl => self.impl_block(function),
            Future::Boxed => self.boxed_block(function, errors),
        }
    }

    /// Whether the body becomes a closure or an async block.
    fn has_inner_body(&self, function: &ItemFn) -> bool {
        let output = &self.output;
        if function.sig.asyncness.is_some() || output.future != Future::No {
            return function.sig.asyncness.is_some();
        }
        let keeps_caller =
            track_caller(function).is_some() && !output.is_result() && !output.has_impl;
        self.ret.is_some() || self.err.is_some() || (output.may_be_result && !keeps_caller)
    }

    fn sync_block(&self, function: &ItemFn, errors: &mut Errors) -> Block {
        let krate = self.call.krate;
        let body = &function.block;
        let span = local("__span");
        let begin = self.begin(Guard::Call(&span));
        let ty = &self.output.ty;
        if !self.has_inner_body(function) {
            let body = as_value(body);
            // The compiler knows what the type is.
            let core = core(&quote!(#krate::__private), ty.span());
            let check = self.output.may_be_result.then(|| {
                quote_spanned! {ty.span()=>
                    const {
                        use #krate::__traced::NoResult as _;
                        #core::assert!(
                            !#krate::__traced::IsResult::<#ty>::IS,
                            #HIDES_THE_CALLER
                        )
                    };
                }
            });
            return parse_quote!({
                #check
                let mut #span = ::core::option::Option::None;
                #begin
                #body
            });
        }
        if let Some(attribute) = track_caller(function) {
            errors.on(attribute, HIDES_THE_CALLER);
        }
        let result = local("__result");
        let end = if self.call.is_plain() && !self.output.is_never() {
            quote! {
                #krate::__traced::end(&mut #span, {
                    use #krate::__traced::AnyReturned as _;
                    #krate::__traced::Returned(&#result).outcome()
                })
            }
        } else {
            let handler = self.handler(None, &quote!(&#result));
            quote!(#krate::__traced::end_with(&mut #span, #handler))
        };
        let in_order = in_order(function);
        // With the user's span, so that lints look into its body.
        let closure = quote_spanned!(body.brace_token.span.open()=> move ||);
        parse_quote!({
            let mut #span = ::core::option::Option::None;
            #begin
            let #result = #krate::__traced::call(#closure -> #ty #in_order);
            #end;
            #result
        })
    }

    /// An expression for a span that has begun, or a statement that begins the span of a call.
    fn begin(&self, guard: Guard<'_>) -> TokenStream {
        let Self { call, parent, enabled_if, sample, .. } = self;
        let is_usual = parent.is_none() && sample.is_none();
        let krate = call.krate;
        let (declaration, span_type) = (call.declaration(), self.span_type());
        let (is_wanted, emit_start) = (call.is_wanted(), call.emit_start());
        let kept = call.kept().map(|_| quote!(__kept: #krate::__traced::Kept::empty()));
        let events = quote!(__Span { #kept });
        let (parent, sampling) = self.parent_and_sampling();
        let ready = call.ready_start();
        let (begin, start) = match &ready {
            Some(start) => (quote!(begin_event), start),
            None => (quote!(begin), &emit_start),
        };
        let given = quote!(#parent, #sampling, #emit_start);
        let given_start = quote!(#parent, #sampling, #start);
        let off = Some(quote!(else { #krate::Span::off(#events) }));
        let (begun, otherwise) = match guard {
            Guard::Call(place) if ready.is_some() && is_usual => {
                (quote!(#krate::__traced::begin_usual(&mut #place, || #events, #start)), None)
            }
            Guard::Call(place) => {
                (quote!(#krate::__traced::#begin(&mut #place, || #events, #given_start)), None)
            }
            Guard::Here => (quote!(#krate::__traced::begin_polled(#events, #given)), off),
            Guard::Later => (quote!(#krate::Span::begin_sampled(#events, #given)), off),
        };
        let enabled_if = enabled_if.map(|condition| {
            let is_wanted = local("__is_wanted");
            let core = core(&quote!(#krate::__private), condition.span());
            quote_spanned! {condition.span()=>
                && { let #is_wanted: #core::primitive::bool = #condition; #is_wanted }
            }
        });
        quote!({
            #declaration

            #span_type

            if #is_wanted #enabled_if {
                #begun
            } #otherwise
        })
    }

    /// The statements that begin the span of a future where it stays, if its Start exists already
    /// and its Stop tells of nothing but time, outcome and polls.
    fn begin_in_place(&self, place: &Ident) -> Option<TokenStream> {
        let call = &self.call;
        let krate = call.krate;
        let (start, _) = call.ready_start().zip(call.plain_stop())?;
        let tells_result = self.ret.is_some() || self.err.is_some();
        if self.enabled_if.is_some() || tells_result || self.output.is_never() {
            return None;
        }
        let (declaration, span_type) = (call.declaration(), self.span_type());
        let (is_wanted, (parent, sampling)) = (call.is_wanted(), self.parent_and_sampling());
        Some(quote! {
            let mut #place;
            {
                #declaration

                #span_type

                #place = #krate::PolledSpan::off(__Span {});
                if #is_wanted {
                    #krate::__traced::begin_event_polled(&mut #place, #parent, #sampling, #start)
                }
            }
        })
    }

    /// Where the span begins, and what decides whether it is recorded, as arguments.
    fn parent_and_sampling(&self) -> (TokenStream, TokenStream) {
        let krate = self.call.krate;
        let parent = self.parent.clone().unwrap_or_else(|| quote!(#krate::Parent::Current));
        let sampling = match &self.sample {
            None => quote!(::core::option::Option::None),
            Some(sample) => {
                let sampling = start_and_stop::sampling(krate, sample);
                quote!(::core::option::Option::Some(#sampling))
            }
        };
        (parent, sampling)
    }

    /// The type of the span's events, `__Span`.
    fn span_type(&self) -> TokenStream {
        let call = &self.call;
        let krate = call.krate;
        let kept = call.kept().map(|kept| quote!(__kept: #kept));
        let (about_start, poll_methods) = (call.about_start(), call.poll_methods());
        let (returned, stop) = match self.returned() {
            None => (None, call.emit_stop()),
            Some(method) => {
                let none = call.stop.iter().map(|_| quote!(::core::option::Option::None));
                (Some(method), quote!(self.returned(__end, #(#none),*);))
            }
        };
        quote! {
            struct __Span { #kept }

            #returned

            impl #krate::SpanEvents for __Span {
                #about_start

                #[inline]
                fn stop(&mut self, __end: &#krate::End) {
                    #stop
                }

                #poll_methods
            }
        }
    }

    /// The method that records the Stop with what the call returned, if that is recorded.
    fn returned(&self) -> Option<TokenStream> {
        let call = &self.call;
        if call.is_plain() {
            return None;
        }
        let (krate, emit_stop) = (call.krate, call.emit_stop());
        let texts = [&self.ret, &self.err].into_iter().flatten().zip(&call.stop);
        let texts = texts.map(|(text, StopField { value, .. })| {
            let ty = text.ty(krate, &quote!('_));
            quote!(#value: #ty)
        });
        Some(quote! {
            impl __Span {
                #[inline]
                fn returned(&mut self, __end: &#krate::End, #(#texts),*) {
                    #emit_stop
                }
            }
        })
    }

    /// The parameters and the body of a closure that records the Stop of a call that returned.
    /// `output` is a reference to what it returned.
    fn handler(&self, parameter: Option<&Ident>, output: &TokenStream) -> TokenStream {
        let krate = self.call.krate;
        let (events, end) = (local("__events"), local("__end"));
        let parameter = parameter.map(|parameter| quote!(#parameter,));
        if self.output.is_never() {
            // Never called, and a method of what it returned would say that it returns something.
            return quote!(|#events, #parameter #end| #krate::SpanEvents::stop(#events, &#end));
        }
        let record = match (&self.ret, &self.err) {
            (None, None) => quote! {
                #end.outcome = #krate::__traced::Returned(#output).outcome();
                #krate::SpanEvents::stop(#events, &#end);
            },
            (Some(ret), None) if !self.output.may_be_result => {
                let value = Ident::new("__value", Span::mixed_site().located_at(ret.span()));
                let shown = ret.shown(krate, &value.to_token_stream());
                quote! {
                    let #value = #output;
                    #events.returned(&#end, #shown);
                }
            }
            _ => self.record_result(output, &events, &end),
        };
        quote! {
            |#events, #parameter mut #end| {
                use #krate::__traced::AnyReturned as _;
                #record
            }
        }
    }

    /// The statement that records the Stop of a call that returned a `Result`, with a text of what
    /// is in it.
    fn record_result(&self, output: &TokenStream, events: &Ident, end: &Ident) -> TokenStream {
        let Self { call: SpanEvents { krate, .. }, ret, err, .. } = self;
        let at = err.as_ref().or(ret.as_ref()).map_or_else(Span::call_site, Text::span);
        let none = quote!(::core::option::Option::None);
        let side = |shown: &Option<Text>, name: &str| match shown {
            None => (quote!(_), None),
            Some(text) => {
                // An error about the value is one of the key.
                let span = Span::mixed_site().located_at(text.span());
                let value = Ident::new(name, span).into_token_stream();
                (value.clone(), Some(text.shown(krate, &value)))
            }
        };
        let (value, shown_ret) = side(ret, "__value");
        let (error, shown_err) = side(err, "__error");
        let no_ret = ret.as_ref().map(|_| &none).into_iter();
        let no_err = err.as_ref().map(|_| &none).into_iter();
        let (shown_ret, shown_err) = (shown_ret.into_iter(), shown_err.into_iter());
        let with_ret = shown_ret.chain(no_err.cloned());
        let with_err = no_ret.cloned().chain(shown_err);
        let core = core(&quote!(#krate::__private), at);
        let ok = quote_spanned!(at=> #core::result::Result::Ok(#value));
        let not_ok = quote_spanned!(at=> #core::result::Result::Err(#error));
        // Without `err`, it can be a type of the user that is named so.
        let result = match err {
            Some(_) => output.clone(),
            None => quote!(#krate::__traced::Returned(#output).value()),
        };
        quote! {
            match #result {
                #ok => #events.returned(&#end, #(#with_ret),*),
                #not_ok => {
                    #end.outcome = #krate::Outcome::Err;
                    #events.returned(&#end, #(#with_err),*);
                }
            }
        }
    }
}

const HIDES_THE_CALLER: &str = "`#[traced]` puts the body of this function into a closure, to see \
                                what it returns, and that hides the caller: move the body to a \
                                function of its own, with `#[track_caller]` on one of the two";

/// Where the span begins: an expression for a `Parent`. `None`: in the span in force.
fn parent(attrs: &Attrs, krate: &Path, errors: &mut Errors) -> Option<TokenStream> {
    if let (Some(_), Some(key)) = (attrs.key("parent"), attrs.key("follows_from")) {
        errors.on(
            key,
            "a call has a parent or follows from another span, not both: what follows from a span \
             begins a trace of its own",
        );
    }
    if let Some(other) = attrs.value("follows_from").map(ungroup) {
        return Some(quote_spanned!(other.span()=> #krate::Parent::FollowsFrom(#other)));
    }
    attrs.value("parent").map(ungroup).map(|parent| match parent {
        Expr::Path(path) if path.path.is_ident("none") => quote!(#krate::Parent::None),
        parent => quote_spanned!(parent.span()=> #krate::Parent::Of(#parent)),
    })
}

impl Text {
    /// The type of the field.
    fn ty(&self, krate: &Path, lifetime: &TokenStream) -> TokenStream {
        match &self.number {
            Some(number) => quote!(::core::option::Option<&#lifetime #number>),
            None => quote!(::core::option::Option<#krate::__traced::Shown<#lifetime>>),
        }
    }

    /// The field for a value, to which `value` is a reference.
    fn shown(&self, krate: &Path, value: &TokenStream) -> TokenStream {
        let variant = &self.variant;
        let shown = match &self.number {
            Some(_) => value.clone(),
            None => quote_spanned!(variant.span()=> #krate::__traced::Shown::#variant(#value)),
        };
        let core = core(&quote!(#krate::__private), variant.span());
        quote_spanned!(variant.span()=> #core::option::Option::Some(#shown))
    }

    /// Reads the form that a key asks for. A number is recorded as it is, unless the key asks for
    /// its text.
    fn read(
        attrs: &Attrs,
        key: &str,
        default: &str,
        number: Option<&Type>,
        errors: &mut Errors,
    ) -> Option<Self> {
        let span = attrs.key(key)?.span();
        let (variant, number) = match attrs.value(key) {
            None => (default, number.cloned()),
            Some(_) => {
                let word = attrs.word(key, ["debug", "display"], errors)?;
                (if word == "debug" { "Debug" } else { "Display" }, None)
            }
        };
        Some(Self { variant: Ident::new(variant, span), number })
    }

    fn span(&self) -> Span {
        self.variant.span()
    }
}

/// The attribute with which a function sees its caller.
fn track_caller(function: &ItemFn) -> Option<&Attribute> {
    function.attrs.iter().find(|attribute| attribute.path().is_ident("track_caller"))
}

/// The body of a closure that drops the arguments as the function does.
fn in_order(function: &ItemFn) -> Block {
    let body = &*function.block;
    let Some(named) = drop_order::statement(function) else { return body.clone() };
    let inner = as_value(body);
    Block { brace_token: body.brace_token, ..parse_quote!({ #named #inner }) }
}

/// The user's block as the value of another one. Its braces are the macro's: of the user's, on one
/// line, the compiler would say that they are not necessary.
fn as_value(block: &Block) -> Block {
    let span = Span::call_site().located_at(block.brace_token.span.join());
    Block { brace_token: Brace(span), stmts: block.stmts.clone() }
}

/// A variable that the user's code cannot see.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
