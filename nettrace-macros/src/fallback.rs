//! The code for a type whose derive failed: an empty implementation. It prevents a further error at
//! each use of the type.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ast::{Container, Derive};

/// An implementation that compiles but never runs, because the errors beside it stop the build.
pub(crate) fn implementation(container: &Container<'_>, derive: Derive) -> TokenStream {
    let krate = &container.krate;
    let private = quote!(#krate::__private);
    let ident = container.ident;
    let (impl_generics, type_generics, where_clause) = container.generics.split_for_impl();
    match derive {
        Derive::Event => quote! {
            #[automatically_derived]
            impl #impl_generics #private::TraceEvent for #ident #type_generics #where_clause {
                fn event_types() -> &'static [&'static #private::EventType] {
                    &[]
                }

                fn event_type(&self) -> &'static #private::EventType {
                    loop {}
                }

                fn encode<__Encoder: #private::PayloadEncoder>(&self, _: &mut __Encoder) {}
            }
        },
        Derive::Field => quote! {
            #[automatically_derived]
            impl #impl_generics #private::TraceField for #ident #type_generics #where_clause {
                const TYPE: #private::FieldType = #private::FieldType::U8;

                fn encode_field<__Encoder: #private::PayloadEncoder>(&self, _: &mut __Encoder) {}
            }
        },
    }
}
