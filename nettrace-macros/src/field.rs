//! Writes the code of `#[derive(TraceField)]`: structs as objects, field-less enums by name or
//! number.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Fields, GenericArgument, Ident, LitStr, PathArguments, Type};

use crate::{
    ast::{Body, Container, Derive, Variant},
    error::Errors,
    expand::{allowed_lints, assertion, encode_values, encoder_ident, field_schemas, self_place},
    valid::{Encoding, Value, values, variant_name},
};

/// The implementations of `TraceField`. Mistakes go to `errors`.
pub(crate) fn trace_field(container: &Container<'_>, errors: &mut Errors) -> TokenStream {
    match &container.body {
        Body::Struct(fields) => {
            let values = values(fields, Derive::Field, errors);
            match (container.attrs.key("transparent"), values.as_slice()) {
                (Some(_), [value]) => transparent(container, value, errors),
                (Some(key), _) => {
                    errors.on(
                        key,
                        format!(
                            "a `transparent` struct is recorded as its one field; this one has {} \
                             (not counting skipped ones)",
                            values.len()
                        ),
                    );
                    TokenStream::new()
                }
                (None, []) => {
                    errors.on(container.ident, "a struct without fields has nothing to record");
                    TokenStream::new()
                }
                (None, _) => object(container, &values, errors),
            }
        }
        Body::Enum(variants) => choice(container, variants, errors),
        Body::Union => {
            errors.on(
                container.ident,
                "a union cannot be recorded: which of its fields is set is not known",
            );
            TokenStream::new()
        }
    }
}

fn object(container: &Container<'_>, values: &[Value<'_>], errors: &mut Errors) -> TokenStream {
    let is_natural = |value: &&Value<'_>| !matches!(value.encoding, Encoding::Text(_));
    for value in values.iter().filter(is_natural).filter(|value| contains(value.ty, container)) {
        errors.on(
            value.ty,
            format!(
                "`{}` contains itself, but an object has a list of fields that ends: record the \
                 field's text with `encoding = debug`, leave it out with `skip`, or emit an event \
                 for each element, with the id of the one that it belongs to",
                container.ident
            ),
        );
    }
    let private = private(container);
    let schemas = field_schemas(values, &private);
    let encoder = encoder_ident();
    let encode = encode_values(values, self_place(container), &private);
    let bounds =
        values.iter().filter(|value| mentions_parameter(container, value.ty)).map(|value| {
            let ty = value.ty;
            match &value.encoding {
                Encoding::As(marker) => {
                    quote!(#ty: #private::TraceField<#private::encoding::#marker>)
                }
                Encoding::Text(marker) => {
                    quote!(#ty: #private::TextField<#private::encoding::#marker>)
                }
                _ => quote!(#ty: #private::TraceField),
            }
        });
    in_anonymous_const(
        container,
        &implementation(
            container,
            &quote!(),
            bounds.collect(),
            &quote! {
                // With braces the slice is promoted to a static; otherwise it would be a temporary
                // value.
                const TYPE: #private::FieldType =
                    #private::FieldType::Object { 0: &[#(#schemas),*] };

                #[inline(always)]
                fn encode_field<__Encoder: #private::PayloadEncoder>(
                    &self,
                    #encoder: &mut __Encoder,
                ) {
                    #encode
                }
            },
        ),
    )
}

/// The implementations of a struct that is recorded as its only field, in every encoding of that.
fn transparent(container: &Container<'_>, value: &Value<'_>, errors: &mut Errors) -> TokenStream {
    let private = private(container);
    let (ty, encoder) = (value.ty, encoder_ident());
    let place = self_place(container)(0, value);
    if let Encoding::As(marker) | Encoding::Text(marker) = &value.encoding {
        errors.on(
            marker,
            "the field of a `transparent` struct is recorded as the event that holds the struct \
             says: write `encoding = …` there",
        );
    }
    let bounds = vec![quote!(#ty: #private::TraceField<__As>)];
    in_anonymous_const(
        container,
        &implementation(
            container,
            &quote!(__As),
            bounds,
            &quote! {
                const TYPE: #private::FieldType = <#ty as #private::TraceField<__As>>::TYPE;
                const IS_SECRET: ::core::primitive::bool =
                    <#ty as #private::TraceField<__As>>::IS_SECRET;

                #[inline(always)]
                fn encode_field<__Encoder: #private::PayloadEncoder>(
                    &self,
                    #encoder: &mut __Encoder,
                ) {
                    <#ty as #private::TraceField<__As>>::encode_field(#place, #encoder);
                }
            },
        ),
    )
}

fn choice(container: &Container<'_>, variants: &[Variant<'_>], errors: &mut Errors) -> TokenStream {
    if variants.is_empty() {
        errors.on(container.ident, "an enum without variants has no value to record");
    }
    for variant in variants {
        match &variant.node.fields {
            Fields::Unit => {}
            fields if fields.is_empty() => {
                errors.on(fields, "write the variant as a bare name, so that it has a number");
            }
            fields => errors.on(
                fields,
                "a field of an event cannot be an enum whose variants have fields: derive \
                 `TraceEvent` to make each variant an event, or record a struct of options",
            ),
        }
    }
    let names: Vec<LitStr> = variants.iter().map(|v| variant_name(v, errors)).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].iter().any(|earlier| earlier.value() == name.value()) {
            errors.on(name, format!("two variants are named `{}`", name.value()));
        }
    }
    let by_number = container.attrs.word("encoding", ["name", "number"], errors);
    let by_number = by_number.is_some_and(|word| word == "number");

    let private = private(container);
    let idents: Vec<&Ident> = variants.iter().map(|variant| &variant.node.ident).collect();
    let (integer, numbers, constants) = numbers(container, &idents, &private);
    let text = quote!(::core::primitive::str);
    let name = (
        quote!(<#text as #private::TraceField>),
        quote!(match self { #(Self::#idents => #names,)* }),
    );
    let number = (
        quote!(<#integer as #private::TraceField>),
        quote!(&match self { #(Self::#idents => #numbers,)* }),
    );
    let natural = if by_number { &number } else { &name };
    let parts = [("Natural", natural), ("Name", &name), ("Number", &number)];
    let implementations = parts.map(|(marker, (inner, value))| {
        let marker = Ident::new(marker, Span::call_site());
        let encoder = encoder_ident();
        implementation(
            container,
            &quote!(#private::encoding::#marker),
            Vec::new(),
            &quote! {
                const TYPE: #private::FieldType = #inner::TYPE;

                #[inline(always)]
                fn encode_field<__Encoder: #private::PayloadEncoder>(
                        &self,
                        #encoder: &mut __Encoder,
                    ) {
                    #inner::encode_field(#value, #encoder);
                }
            },
        )
    });
    in_anonymous_const(container, &quote!(#constants #(#implementations)*))
}

/// The integer type of an enum's discriminants, an expression of that type for each, and the
/// constants that the expressions name.
fn numbers(
    container: &Container<'_>,
    idents: &[&Ident],
    private: &TokenStream,
) -> (TokenStream, Vec<TokenStream>, TokenStream) {
    const INTEGERS: &[&str] =
        &["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
    let repr = container.reprs().into_iter().find(|word| INTEGERS.iter().any(|i| word == i));
    if let Some(integer) = repr {
        let integer = Ident::new(&integer.to_string(), Span::call_site());
        let integer = quote!(::core::primitive::#integer);
        let numbers = idents.iter().map(|ident| quote!(Self::#ident as #integer)).collect();
        return (integer, numbers, TokenStream::new());
    }
    let integer = quote!(::core::primitive::i32);
    let enumeration = container.derived_ident();
    let names: Vec<Ident> =
        (0..idents.len()).map(|at| format_ident!("__TRACE_FIELD_NUMBER_{at}")).collect();
    let constants = names.iter().zip(idents).map(|(name, ident)| {
        let number = quote! {
            #private::check::discriminant(#enumeration::#ident as ::core::primitive::isize)
        };
        let message = format!(
            "the number of `{ident}` does not fit into an `i32`: write `#[repr(i64)]` or the like \
             on the enum"
        );
        let assertion = assertion(ident.span(), &quote!(#number.is_some()), &message, private);
        quote! {
            const #name: #integer = {
                #assertion
                match #number {
                    ::core::option::Option::Some(__number) => __number,
                    ::core::option::Option::None => 0,
                }
            };
        }
    });
    let constants = quote!(#(#constants)*);
    (integer, names.iter().map(|name| quote!(#name)).collect(), constants)
}

fn implementation(
    container: &Container<'_>,
    marker: &TokenStream,
    bounds: Vec<TokenStream>,
    body: &TokenStream,
) -> TokenStream {
    let private = private(container);
    let ident = container.derived_ident();
    let mut generics = container.generics.clone();
    let mut bound = quote!(#private::TraceField);
    if !marker.is_empty() {
        bound = quote!(#private::TraceField<#marker>);
        if marker.to_string() == "__As" {
            generics.params.push(syn::parse_quote!(__As));
        }
    }
    if !bounds.is_empty() {
        let clause = generics.make_where_clause();
        clause.predicates.extend(
            bounds.into_iter().map::<syn::WherePredicate, _>(|bound| syn::parse_quote!(#bound)),
        );
    }
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, type_generics, _) = container.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #bound for #ident #type_generics #where_clause {
            #body
        }
    }
}

fn in_anonymous_const(container: &Container<'_>, items: &TokenStream) -> TokenStream {
    let allowed = allowed_lints(container.input);
    quote! {
        #(#[allow(#allowed)])*
        const _: () = { #items };
    }
}

/// Whether the type of a field is made of the container: that is written, perhaps in collections
/// and pointers of the standard library. Other generic types, such as ids, may only name it.
fn contains(ty: &Type, container: &Container<'_>) -> bool {
    const MADE_OF: [&str; 9] =
        ["Arc", "BTreeMap", "Box", "Cow", "HashMap", "Option", "Rc", "Vec", "VecDeque"];
    match ty {
        Type::Array(array) => contains(&array.elem, container),
        Type::Group(group) => contains(&group.elem, container),
        Type::Paren(paren) => contains(&paren.elem, container),
        Type::Reference(reference) => contains(&reference.elem, container),
        Type::Slice(slice) => contains(&slice.elem, container),
        Type::Tuple(tuple) => tuple.elems.iter().any(|ty| contains(ty, container)),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return false };
            if path.path.segments.len() == 1
                && (last.ident == *container.ident || last.ident == "Self")
            {
                return true;
            }
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
            MADE_OF.iter().any(|name| last.ident == name)
                && arguments.args.iter().any(|argument| match argument {
                    GenericArgument::Type(ty) => contains(ty, container),
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Whether a field's type contains a type parameter, so that each use of the struct decides.
pub(crate) fn mentions_parameter(container: &Container<'_>, ty: &Type) -> bool {
    fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(other) => other == *ident,
            proc_macro2::TokenTree::Group(group) => mentions(group.stream(), ident),
            _ => false,
        })
    }
    container.generics.type_params().any(|parameter| mentions(quote!(#ty), &parameter.ident))
}

fn private(container: &Container<'_>) -> TokenStream {
    let krate = &container.krate;
    quote!(#krate::__private)
}
