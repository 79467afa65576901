//! Functions whose calls are futures.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Block, Expr, ExprAsync, ExprReturn, ItemFn, Stmt, parse_quote,
    visit_mut::{self, VisitMut},
};

use super::{Guard, Spec, as_value, in_order, local};
use crate::error::Errors;

impl Spec<'_> {
    /// The statements of an async function or block whose body was `inner`. The span begins when
    /// they run. `named` is a statement before the body.
    pub(super) fn future(&self, inner: &ExprAsync, named: Option<TokenStream>) -> TokenStream {
        let krate = self.call.krate;
        let (span, future) = (local("__span"), local("__future"));
        let in_span = self.in_span();
        let begin = self.begin(Guard::Here);
        let block = as_value(&inner.block);
        // Says what the block returns, which the compiler knew from the function.
        let ty = &self.output.ty;
        let returned = local("__return");
        let said = (!self.output.is_never()).then(|| {
            quote! {
                #[allow(clippy::all, clippy::pedantic)]
                if let ::core::option::Option::Some(#returned) =
                    ::core::option::Option::None::<#ty>
                {
                    return #returned;
                }
            }
        });
        let inner = ExprAsync { block: parse_quote!({ #named #said #block }), ..inner.clone() };
        // The block yields what the function returns. If that is a future, so it was before.
        let allow =
            self.output.may_be_future().then(|| quote!(#[allow(clippy::async_yields_async)]));
        if let Some(begin) = self.begin_in_place(&span) {
            let result = local("__result");
            let outcome = quote! {
                |__output: &_| {
                    use #krate::__traced::AnyReturned as _;
                    #krate::__traced::Returned(__output).outcome()
                }
            };
            // The result has a name, because the future borrows the span, which is dropped before
            // the value of a last expression would be.
            return quote! {
                #begin
                #allow
                let #future = #inner;
                let #result =
                    #krate::__traced::WithinSpan::new(#future, &mut #span, #outcome).await;
                #result
            };
        }
        quote! {
            let #span = #begin;
            #allow
            let #future = #inner;
            #krate::InSpan::with_result(#future, #span, #in_span).await
        }
    }

    /// A function that returns `impl Future`.
    pub(super) fn impl_block(&self, function: &ItemFn) -> Block {
        let mut block = (*function.block).clone();
        if let Some((before, tail)) = parts(&mut block) {
            if let (Expr::Async(tail), false) =
                (&mut *tail, before.iter_mut().any(|statement| returns(statement).is_some()))
            {
                self.rewrite(tail);
                return block;
            }
        }
        let krate = self.call.krate;
        let (span, future) = (local("__span"), local("__future"));
        let (begin, in_span) = (self.begin(Guard::Later), self.in_span());
        let body = in_order(function);
        parse_quote!({
            let #span = #begin;
            let #future = #krate::__traced::call(move || #body);
            #krate::InSpan::with_result(#future, #span, #in_span)
        })
    }

    /// A function that returns `Pin<Box<dyn Future>>`.
    pub(super) fn boxed_block(&self, function: &ItemFn, errors: &mut Errors) -> Block {
        let mut block = (*function.block).clone();
        let Some((before, tail)) = parts(&mut block) else {
            errors.on(&function.sig.output, ADVICE);
            return block;
        };
        if let Some(other) = before.iter_mut().find_map(returns) {
            errors.on(other, format!("this returns another future than the end; {ADVICE}"));
        }
        match boxed(tail) {
            Some(Expr::Async(tail)) => self.rewrite(tail),
            Some(tail) => {
                let krate = self.call.krate;
                let span = local("__span");
                let (begin, in_span) = (self.begin(Guard::Later), self.in_span());
                *tail = parse_quote!({
                    let #span = #begin;
                    #krate::InSpan::with_result(#tail, #span, #in_span)
                });
            }
            None => errors.on(tail, ADVICE),
        }
        block
    }

    fn rewrite(&self, block: &mut ExprAsync) {
        let statements = self.future(&ExprAsync { attrs: Vec::new(), ..block.clone() }, None);
        block.block = parse_quote!({ #statements });
    }

    /// The closure that records the Stop of a future that is ready.
    fn in_span(&self) -> TokenStream {
        let output = local("__output");
        self.handler(Some(&output), &quote!(#output))
    }
}

const ADVICE: &str = "`#[traced]` finds the future of this function only at its end: let the last \
                      expression be `Box::pin(async move { … })` or `Box::pin(future)`, and return \
                      nowhere else";

/// The statements before the last expression, and that.
fn parts(block: &mut Block) -> Option<(&mut [Stmt], &mut Expr)> {
    let (last, before) = block.stmts.split_last_mut()?;
    let tail = match last {
        Stmt::Expr(Expr::Return(ExprReturn { expr: Some(tail), .. }), _) => tail,
        Stmt::Expr(tail, None) => tail,
        _ => return None,
    };
    Some((before, inside(tail)))
}

/// The expression inside parentheses and casts.
fn inside(mut expr: &mut Expr) -> &mut Expr {
    loop {
        expr = match expr {
            Expr::Group(group) => &mut group.expr,
            Expr::Paren(paren) => &mut paren.expr,
            Expr::Cast(cast) => &mut cast.expr,
            _ => return expr,
        };
    }
}

/// The future in `Box::pin(future)`, `future.boxed()` or `future.boxed_local()`.
fn boxed(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Call(call) if call.args.len() == 1 => {
            let Expr::Path(function) = &*call.func else { return None };
            let mut segments = function.path.segments.iter().rev().map(|segment| &segment.ident);
            let is_pin = segments.next().is_some_and(|ident| ident == "pin")
                && segments.next().is_some_and(|ident| ident == "Box");
            is_pin.then(|| inside(&mut call.args[0]))
        }
        Expr::MethodCall(call) if call.method == "boxed" || call.method == "boxed_local" => {
            Some(inside(&mut call.receiver))
        }
        _ => None,
    }
}

/// Where a statement returns from the function.
fn returns(statement: &mut Stmt) -> Option<ExprReturn> {
    struct Search(Option<ExprReturn>);
    impl VisitMut for Search {
        fn visit_expr_mut(&mut self, expr: &mut Expr) {
            match expr {
                Expr::Return(expr) => self.0 = Some(expr.clone()),
                Expr::Closure(_) | Expr::Async(_) => {}
                _ => visit_mut::visit_expr_mut(self, expr),
            }
        }

        fn visit_item_mut(&mut self, _: &mut syn::Item) {}
    }
    let mut search = Search(None);
    search.visit_stmt_mut(statement);
    search.0
}
