//! Tuples: objects whose fields are named `0`, `1` and so on, as in Rust. Tuple structs use the
//! same names, so that code, schema and message template agree.

use crate::{
    encode::PayloadEncoder,
    field::{TraceField, part},
    schema::FieldType,
};

macro_rules! tuple {
    ($($($ty:ident $index:tt),+;)+) => {$(
        impl<As, $($ty: TraceField<As>),+> TraceField<As> for ($($ty,)+) {
            const TYPE: FieldType = FieldType::Object(&[
                $(part::<$ty, As>(stringify!($index))),+
            ]);

            #[inline]
            fn encode_field<Encoder: PayloadEncoder>(&self, encoder: &mut Encoder) {
                $(self.$index.encode_field(encoder);)+
            }
        }
    )+};
}

tuple! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}
