//! The key `fields` of `#[traced]`: arguments, and expressions with a name.

use std::fmt::Display;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::{
    BinOp, Expr, ExprField, FnArg, ItemFn, Lit, Member, Pat, Token, Type, UnOp, ext::IdentExt,
    parse::Parse, punctuated::Punctuated, spanned::Spanned,
};

use crate::{
    attr::Attrs,
    error::{Errors, list},
    start_and_stop::{StartField, with_call_lifetimes},
    value::{TEXTS, ungroup},
};

/// An element as written.
enum Element {
    /// `name = value` or `name: type = value`.
    Named(Ident, Option<Box<Type>>, Box<Expr>),
    /// Anything else, of which only an argument's name is right, or its text: `display(name)`.
    Bare(Box<Expr>),
}

impl Parse for Element {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Self> {
        let is_named = input.peek(syn::Ident::peek_any)
            && (input.peek2(Token![=]) && !input.peek2(Token![==])
                || input.peek2(Token![:]) && !input.peek2(Token![::]));
        if !is_named {
            return Ok(Self::Bare(Box::new(input.parse()?)));
        }
        let name = input.call(Ident::parse_any)?;
        let ty =
            if input.parse::<Option<Token![:]>>()?.is_some() { Some(input.parse()?) } else { None };
        input.parse::<Token![=]>()?;
        Ok(Self::Named(name, ty, Box::new(input.parse()?)))
    }
}

/// The fields that the attribute asks for.
pub(super) fn recorded(attrs: &Attrs, function: &ItemFn, errors: &mut Errors) -> Vec<StartField> {
    let Some(value) = attrs.value("fields") else { return Vec::new() };
    let elements = match value {
        Expr::Verbatim(elements) => elements.clone(),
        other => {
            errors.on(other, "`fields` takes a list: `fields = [path, size: u64 = file.size()]`");
            return Vec::new();
        }
    };
    let parser = Punctuated::<Element, Token![,]>::parse_terminated;
    let elements = match syn::parse::Parser::parse2(parser, elements) {
        Ok(elements) => elements,
        Err(error) => {
            errors.push(error);
            return Vec::new();
        }
    };
    let mut fields: Vec<StartField> = Vec::new();
    for (at, element) in elements.into_iter().enumerate() {
        if let Some(field) = field(at, element, function, errors) {
            if fields.iter().any(|earlier| earlier.ident == field.ident) {
                errors.on(&field.ident, format!("two fields are named `{}`", field.ident.unraw()));
            }
            fields.push(field);
        }
    }
    fields
}

/// The field that an element asks for.
fn field(
    at: usize,
    element: Element,
    function: &ItemFn,
    errors: &mut Errors,
) -> Option<StartField> {
    let (name, ty, expr) = match element {
        Element::Named(name, ty, expr) => (name, ty, expr),
        Element::Bare(expr) => (name_of_argument(&expr, function, errors)?, None, expr),
    };
    let local = Ident::new(&format!("__field{at}"), Span::mixed_site());
    if let Some(ty) = ty {
        return computed(name, &local, &quote!(#ty), &expr, function, errors);
    }
    if let Some((word, inner)) = text_call(&expr) {
        return Some(text(name, &local, &word, inner));
    }
    let named = identifier(ungroup(&expr));
    if let Some((ty, named)) = named.and_then(|named| Some((argument(function, &named)?, named))) {
        return of_argument(name, ty, &named, &expr, function, errors);
    }
    let Some(ty) = evident_type(&expr) else {
        errors.on(
            &expr,
            format!(
                "the type of `{name}` is not known before the function is compiled: write \
                 `{name}: Type = …`, or record its text with `{name} = display(…)` or \
                 `{name} = debug(…)`"
            ),
        );
        return None;
    };
    computed(name, &local, &ty, &expr, function, errors)
}

/// The argument that an element without a name is, or whose text it is. Reports one that is none.
fn name_of_argument(expr: &Expr, function: &ItemFn, errors: &mut Errors) -> Option<Ident> {
    let text = text_call(expr);
    let inner = text.as_ref().map_or(ungroup(expr), |(_, inner)| inner);
    let named = identifier(inner).filter(|named| argument(function, named).is_some());
    if named.is_some() {
        return named;
    }
    if let Expr::Field(ExprField { member: Member::Named(name), .. }) = inner {
        let value = inner.to_token_stream().to_string().replace(' ', "");
        let words = match text {
            Some((word, _)) => format!("`{name} = {word}({value})`"),
            None => ways_to_record(name, &value),
        };
        errors.on(expr, format!("only an argument has a name by itself: write {words}"));
    } else {
        let names = list(arguments(function).iter().map(|(ident, _)| ident));
        errors.on(
            expr,
            format!(
                "`fields` takes arguments by their names, here {names}, or an expression with a \
                 name and a type: `size: u64 = …`"
            ),
        );
    }
    None
}

/// Expressions that record a value whose type is not written.
fn ways_to_record(name: &Ident, value: impl Display) -> String {
    format!(
        "`{name}: u64 = {value}` for a number, `{name} = {value}.as_str()` for a `String`, or \
         record the text of any type with `{name} = display({value})` or `{name} = debug({value})`"
    )
}

/// A field that is an argument as it is: `name`, or `other = name`. `ty` is the argument's type, if
/// it is written.
fn of_argument(
    name: Ident,
    ty: Option<&Type>,
    argument: &Ident,
    expr: &Expr,
    function: &ItemFn,
    errors: &mut Errors,
) -> Option<StartField> {
    let Some(ty) = ty else {
        errors.on(
            argument,
            format!(
                "the type of `{argument}` is that of a part of an argument, and not written by \
                 itself: write {}",
                ways_to_record(&name, argument)
            ),
        );
        return None;
    };
    let ty_span = ty.span();
    let ty = usable(&name, &quote!(#ty), expr, function, errors)?;
    let place = quote!(#argument);
    let (made, attributes) = Default::default();
    Some(StartField { ident: name, ty, ty_span, attributes, made, place })
}

/// A field that is the value of an expression: `name: ty = expr`.
fn computed(
    name: Ident,
    local: &Ident,
    written: &TokenStream,
    expr: &Expr,
    function: &ItemFn,
    errors: &mut Errors,
) -> Option<StartField> {
    let ty = usable(&name, written, &name, function, errors)?;
    let ty_span = written.span();
    let made = quote!(let #local: #written = #expr;);
    let (attributes, place) = (TokenStream::new(), quote!(#local));
    Some(StartField { ident: name, ty, ty_span, attributes, made, place })
}

/// A field of a value's text: `name = display(value)`.
fn text(name: Ident, local: &Ident, word: &Ident, value: &Expr) -> StartField {
    let span = value.span();
    let (written, ty) = match &*word.to_string() {
        "display" => (quote!(&dyn ::core::fmt::Display), quote!(&'call dyn ::core::fmt::Display)),
        "debug" => (quote!(&dyn ::core::fmt::Debug), quote!(&'call dyn ::core::fmt::Debug)),
        "error" => {
            (quote!(&dyn ::core::error::Error), quote!(&'call (dyn ::core::error::Error + 'call)))
        }
        _ => (quote!(&::core::primitive::str), quote!(&'call ::core::primitive::str)),
    };
    let core = quote!(::core);
    let value = match &*word.to_string() {
        "as_ref" => quote_spanned! {span=>
            #core::convert::AsRef::<#core::primitive::str>::as_ref(&#value)
        },
        _ => quote_spanned!(span=> &#value),
    };
    let made = quote!(let #local: #written = #value;);
    let attributes = quote!(#[trace_event(encoding = #word)]);
    StartField { ident: name, ty, ty_span: span, attributes, made, place: quote!(#local) }
}

/// `display(value)` and the like.
fn text_call(expr: &Expr) -> Option<(Ident, &Expr)> {
    let Expr::Call(call) = ungroup(expr) else { return None };
    let word = identifier(&call.func)?;
    let is_known = TEXTS.iter().any(|(known, _)| word == known);
    (is_known && call.args.len() == 1).then(|| (word, &call.args[0]))
}

fn identifier(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => {
            path.path.get_ident().filter(|ident| **ident != "self").cloned()
        }
        _ => None,
    }
}

/// The names of the arguments, also within their patterns, with the types that are written.
pub(super) fn arguments(function: &ItemFn) -> Vec<(&Ident, Option<&Type>)> {
    let mut all = Vec::new();
    for argument in &function.sig.inputs {
        if let FnArg::Typed(argument) = argument {
            bindings(&argument.pat, Some(&argument.ty), &mut all);
        }
    }
    all
}

/// The names in a pattern. The compiler checks the types: a value of another one is no field.
fn bindings<'a>(pat: &'a Pat, ty: Option<&'a Type>, all: &mut Vec<(&'a Ident, Option<&'a Type>)>) {
    match (pat, ty) {
        (Pat::Ident(pattern), ty) => {
            // `name @ ..` is a part of a slice.
            let is_rest = matches!(&pattern.subpat, Some((_, part)) if is_rest(part));
            all.push((&pattern.ident, ty.filter(|_| !is_rest)));
            if let Some((_, part)) = &pattern.subpat {
                bindings(part, None, all);
            }
        }
        (Pat::Paren(pattern), ty) => bindings(&pattern.pat, ty, all),
        (pat, Some(Type::Paren(ty))) => bindings(pat, Some(&ty.elem), all),
        (pat, Some(Type::Group(ty))) => bindings(pat, Some(&ty.elem), all),
        (Pat::Reference(pattern), Some(Type::Reference(ty))) => {
            bindings(&pattern.pat, Some(&ty.elem), all);
        }
        (Pat::Tuple(pattern), ty) => {
            let types = match ty {
                Some(Type::Tuple(ty)) if !pattern.elems.iter().any(is_rest) => Some(&ty.elems),
                _ => None,
            };
            for (at, part) in pattern.elems.iter().enumerate() {
                bindings(part, types.and_then(|types| types.get(at)), all);
            }
        }
        (Pat::Slice(pattern), ty) => {
            let ty = match ty {
                Some(Type::Array(ty)) => Some(&*ty.elem),
                _ => None,
            };
            pattern.elems.iter().for_each(|part| bindings(part, ty, all));
        }
        // `Path(id): Path<u64>`, as web frameworks have it.
        (Pat::TupleStruct(pattern), ty) => {
            let ty = ty.filter(|_| pattern.elems.len() == 1);
            let ty = ty.and_then(|ty| only_parameter(ty, &pattern.path));
            pattern.elems.iter().for_each(|part| bindings(part, ty, all));
        }
        (Pat::Struct(pattern), _) => {
            pattern.fields.iter().for_each(|field| bindings(&field.pat, None, all));
        }
        _ => {}
    }
}

fn is_rest(pat: &Pat) -> bool {
    matches!(pat, Pat::Rest(_))
}

/// The only parameter of a type that is named as in `path`.
fn only_parameter<'a>(ty: &'a Type, path: &syn::Path) -> Option<&'a Type> {
    let Type::Path(ty) = ty else { return None };
    let segment = ty.path.segments.last()?;
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    let is_same = path.segments.last()?.ident == segment.ident;
    match arguments.args.first()? {
        syn::GenericArgument::Type(ty) if is_same && arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

/// The type of an argument, if there is one with that name.
fn argument<'a>(function: &'a ItemFn, named: &Ident) -> Option<Option<&'a Type>> {
    arguments(function).into_iter().find(|(ident, _)| *ident == named).map(|(_, ty)| ty)
}

/// The type as the event can have it. Reports one that is many.
fn usable(
    name: &Ident,
    ty: &TokenStream,
    at: impl quote::ToTokens,
    function: &ItemFn,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let generics = &function.sig.generics;
    let varying = first(ty.clone(), &|ident| {
        ident == "impl"
            || ident == "Self"
            || generics.type_params().any(|p| p.ident == *ident)
            || generics.const_params().any(|p| p.ident == *ident)
    });
    if let Some(varying) = varying {
        errors.on(
            at,
            format!(
                "the type of `{name}` has `{varying}` in it, which is another one in every use of \
                 the function, but an event type has one list of fields: record its text with \
                 `{name} = display({name})` or `debug({name})`, or leave `{name}` out"
            ),
        );
        return None;
    }
    Some(with_call_lifetimes(ty.clone()))
}

/// The first identifier in the code that satisfies `wanted`.
fn first(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if wanted(&ident) => Some(ident),
        TokenTree::Group(group) => first(group.stream(), wanted),
        _ => None,
    })
}

/// The type of an expression that shows it. The compiler checks that it is right: the value goes
/// into a variable of that type.
fn evident_type(expr: &Expr) -> Option<TokenStream> {
    let primitive = |name: &str| {
        let name = format_ident!("{name}");
        quote!(::core::primitive::#name)
    };
    match expr {
        Expr::Group(group) => evident_type(&group.expr),
        Expr::Paren(paren) => evident_type(&paren.expr),
        Expr::Cast(cast) => {
            let ty = &cast.ty;
            Some(quote!(#ty))
        }
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(_) => Some(primitive("bool")),
            Lit::Char(_) => Some(primitive("char")),
            Lit::Str(_) => Some(quote!(&'static ::core::primitive::str)),
            Lit::Int(int) if !int.suffix().is_empty() => Some(primitive(int.suffix())),
            Lit::Float(float) if !float.suffix().is_empty() => Some(primitive(float.suffix())),
            _ => None,
        },
        Expr::Call(call) => number_from(call).map(|name| primitive(&name)),
        Expr::MethodCall(call) => {
            let method = call.method.to_string();
            match &*method {
                "len" | "count" | "capacity" if call.args.is_empty() => Some(primitive("usize")),
                "contains" | "contains_key" | "starts_with" | "ends_with" => {
                    Some(primitive("bool"))
                }
                "as_str" if call.args.is_empty() => Some(quote!(&::core::primitive::str)),
                _ => method.starts_with("is_").then(|| primitive("bool")),
            }
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => evident_type(&unary.expr),
        Expr::Binary(binary) => {
            let is_bool = matches!(
                binary.op,
                BinOp::And(_)
                    | BinOp::Or(_)
                    | BinOp::Eq(_)
                    | BinOp::Ne(_)
                    | BinOp::Lt(_)
                    | BinOp::Le(_)
                    | BinOp::Gt(_)
                    | BinOp::Ge(_)
            );
            is_bool.then(|| primitive("bool"))
        }
        _ => None,
    }
}

/// The name of the number's type in `u64::from(…)`.
fn number_from(call: &syn::ExprCall) -> Option<String> {
    let Expr::Path(function) = &*call.func else { return None };
    let mut segments = function.path.segments.iter().map(|segment| &segment.ident);
    let (ty, name) = (segments.next()?.to_string(), segments.next()?);
    let is_number = ["u", "i", "f"].iter().any(|kind| {
        let size = ty.strip_prefix(kind);
        size.is_some_and(|size| ["8", "16", "32", "64", "128", "size"].contains(&size))
    });
    let is_from = name == "from" && segments.next().is_none();
    (is_number && is_from).then_some(ty)
}
