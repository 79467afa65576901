//! The result of a function under `#[traced]`, as far as it is written.

use syn::{
    GenericArgument, PathArguments, ReturnType, Signature, Type, TypeParamBound, parse_quote,
    visit_mut::{self, VisitMut},
};

/// The result of a call.
pub(super) struct Output {
    /// Its type, with `_` in place of `impl …`. For a future, what it returns.
    pub(super) ty: Type,
    pub(super) future: Future,
    /// Whether the type may be a `Result`, under whatever name. A type parameter is none: the code
    /// of the function is one for all types that it stands for.
    pub(super) may_be_result: bool,
    /// Whether `impl …` is a part of the type.
    pub(super) has_impl: bool,
}

/// Whether a call returns a future.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Future {
    No,
    /// `impl Future`.
    Impl,
    /// `Pin<Box<dyn Future>>`, or one of its usual names.
    Boxed,
}

impl Output {
    pub(super) fn of(signature: &Signature) -> Self {
        let ty = match &signature.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => strip(ty).clone(),
        };
        let (future, ty) = match future(&ty) {
            Some((kind, output)) => (kind, output.unwrap_or_else(|| parse_quote!(_))),
            None => (Future::No, ty),
        };
        let is_parameter = |ty: &Type| {
            let mut parameters = signature.generics.type_params();
            matches!(ty, Type::Path(path)
                if parameters.any(|parameter| path.path.is_ident(&parameter.ident)))
        };
        let may_be_result = matches!(&ty, Type::Path(_) | Type::Macro(_) | Type::Infer(_))
            && primitive(&ty).is_none()
            && !is_parameter(&ty);
        let (ty, has_impl) = without_impl(ty);
        Self { ty, future, may_be_result, has_impl }
    }

    /// Whether the type is written as some `Result`.
    pub(super) fn is_result(&self) -> bool {
        self.is_named("Result")
    }

    fn is_named(&self, name: &str) -> bool {
        matches!(&self.ty, Type::Path(path)
            if path.path.segments.last().is_some_and(|segment| segment.ident == name))
    }

    /// Whether the type is evidently one without an error. `impl …` may be a `Result`, and so may
    /// what a reference is to.
    pub(super) fn has_no_error(&self) -> bool {
        matches!(self.ty, Type::Tuple(_))
            || self.is_named("Option")
            || primitive(&self.ty).is_some()
    }

    /// Whether the type may be a future: it is not written as one of the most usual others.
    pub(super) fn may_be_future(&self) -> bool {
        let is_other = ["Result", "String", "Vec"].iter().any(|name| self.is_named(name));
        !is_other && !self.has_no_error() && !self.is_never()
    }

    /// The number or truth value that a call returns, alone or in a `Result`. `is_result`: the
    /// type is a `Result` in any case.
    pub(super) fn number(&self, is_result: bool) -> Option<&Type> {
        let Type::Path(path) = &self.ty else { return None };
        let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
            return primitive(&self.ty).map(|_| &self.ty);
        };
        let first = arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(strip(ty)),
            _ => None,
        });
        first.filter(|ty| (is_result || self.is_result()) && primitive(ty).is_some())
    }

    /// Whether the type is `!`.
    pub(super) fn is_never(&self) -> bool {
        matches!(self.ty, Type::Never(_))
    }

    /// Whether the type is `()`.
    pub(super) fn is_unit(&self) -> bool {
        matches!(&self.ty, Type::Tuple(tuple) if tuple.elems.is_empty())
    }
}

/// The name of a number's type, or `bool`.
pub(super) fn primitive(ty: &Type) -> Option<String> {
    const NAMES: [&str; 15] = [
        "bool", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32",
        "u64", "u128", "usize",
    ];
    let Type::Path(path) = ty else { return None };
    let mut segments = path.path.segments.iter().rev();
    let name = segments.next()?.ident.to_string();
    let is_primitive = segments.next().is_none_or(|module| module.ident == "primitive");
    (is_primitive && NAMES.contains(&&*name)).then_some(name)
}

fn strip(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

/// The kind of a future, and what it returns if that is written.
fn future(ty: &Type) -> Option<(Future, Option<Type>)> {
    match ty {
        Type::ImplTrait(ty) => output_of(&ty.bounds).map(|output| (Future::Impl, output)),
        Type::Path(path) => {
            let segment = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
            let mut types = arguments.args.iter().filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(strip(ty)),
                _ => None,
            });
            let first = types.next()?;
            if segment.ident == "BoxFuture" || segment.ident == "LocalBoxFuture" {
                return Some((Future::Boxed, Some(first.clone())));
            }
            let Type::Path(inner) = first else { return None };
            let inner = inner.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &inner.arguments else { return None };
            if segment.ident != "Pin" || inner.ident != "Box" {
                return None;
            }
            let output = arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(Type::TraitObject(object)) => output_of(&object.bounds),
                GenericArgument::Type(Type::ImplTrait(object)) => output_of(&object.bounds),
                _ => None,
            });
            output.map(|output| (Future::Boxed, output))
        }
        _ => None,
    }
}

/// The `Output` of the bound that is a `Future`.
fn output_of<'a>(bounds: impl IntoIterator<Item = &'a TypeParamBound>) -> Option<Option<Type>> {
    bounds.into_iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            return Some(None);
        };
        Some(arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => {
                Some(output.ty.clone())
            }
            _ => None,
        }))
    })
}

/// The type with `_` in place of `impl …`, and whether there was one.
fn without_impl(mut ty: Type) -> (Type, bool) {
    struct Infer(bool);
    impl VisitMut for Infer {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(_) = ty {
                (*ty, self.0) = (parse_quote!(_), true);
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut infer = Infer(false);
    infer.visit_type_mut(&mut ty);
    (ty, infer.0)
}
