//! Rust's order of drops where the body of a function is a closure or an async block.
//!
//! A function drops its arguments from the last to the first. A closure drops what it captures in
//! the order in which the body first names it, and what the body does not name is dropped later,
//! outside. So a statement that never runs names the arguments in Rust's order. To bind them again
//! in the body would do the same, and make futures larger.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, ItemFn, Pat, PatIdent, Receiver, ReceiverKind, Type};

use super::{fields::arguments, output::primitive};

/// Gives names to arguments that are ignored by `_`, so that [`statement`] can name them.
pub(super) fn name_ignored(function: &mut ItemFn) {
    if function.sig.inputs.iter().filter(|argument| is_droppable(argument)).count() < 2 {
        return;
    }
    for (at, argument) in function.sig.inputs.iter_mut().enumerate() {
        let FnArg::Typed(argument) = argument else { continue };
        if let (Pat::Wild(ignored), true) = (&*argument.pat, may_drop(&argument.ty)) {
            let span = Span::mixed_site().located_at(ignored.underscore_token.span);
            *argument.pat = Pat::Ident(PatIdent {
                attrs: ignored.attrs.clone(),
                by_ref: None,
                mutability: None,
                ident: format_ident!("_ignored{at}", span = span),
                subpat: None,
            });
        }
    }
}

/// A statement that names the arguments from the last to the first, if their order can matter.
pub(super) fn statement(function: &ItemFn) -> Option<TokenStream> {
    let body = function.block.to_token_stream();
    // Whatever the body does not name is unused. To name it would silence the lint that says so,
    // unless its name asks for that.
    let is_named = |ident: &Ident| {
        let name = ident.to_string();
        name.starts_with('_') || names(body.clone(), &name)
    };
    let receiver = function.sig.receiver().filter(|receiver| is_owned(receiver));
    let receiver = receiver.map(|receiver| receiver.self_token.to_token_stream());
    let arguments = arguments(function);
    let arguments =
        arguments.iter().filter(|(ident, ty)| ty.is_none_or(may_drop) && is_named(ident));
    let arguments = arguments.map(|(ident, _)| ident.to_token_stream());
    let all: Vec<_> = receiver.into_iter().chain(arguments).collect();
    let from_the_last = all.iter().rev();
    (all.len() > 1).then(|| quote!(if false { let _ = (#(&#from_the_last),*); }))
}

fn is_droppable(argument: &FnArg) -> bool {
    match argument {
        FnArg::Receiver(receiver) => is_owned(receiver),
        FnArg::Typed(argument) => may_drop(&argument.ty),
    }
}

fn is_owned(receiver: &Receiver) -> bool {
    match &receiver.kind {
        ReceiverKind::Value => true,
        ReceiverKind::Typed(_, ty) => may_drop(ty),
        _ => false,
    }
}

/// Whether a type may have a destructor. It has none if it is written as a reference, a pointer, a
/// number, or an array or tuple of these.
fn may_drop(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) | Type::Never(_) => false,
        Type::Array(array) => may_drop(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().any(may_drop),
        Type::Paren(paren) => may_drop(&paren.elem),
        Type::Group(group) => may_drop(&group.elem),
        other => primitive(other).is_none(),
    }
}

/// Whether code names a variable, also within the text of a format: `"{path:?}"`.
fn names(code: TokenStream, name: &str) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => names(group.stream(), name),
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{{{name}")),
        TokenTree::Punct(_) => false,
    })
}
