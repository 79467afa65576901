//! A walk returns the encoded values for every type, and no bytes make it panic or loop.

use std::iter;

use nettrace_event::{
    ArrayLayout as Layout, FieldSchema, FieldType as Type, PayloadEncoder as _,
    StrEncoding as Encoding,
};
use nettrace_format::{
    payload::{
        MAX_PAYLOAD, NetTraceEncoder, Refusal, VecBuffer,
        walk::{Mismatch, Text, Value, Visitor, walk},
    },
    v5::{self, Version},
};
use proptest::prelude::*;

use crate::support::{field, schema};

/// A value of any type, as a test encodes it and a walk returns it.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Leaf(String),
    Array(Vec<Tree>),
    Option(Option<Box<Tree>>),
    Object(Vec<(String, Tree)>),
}

/// Builds a tree from the calls of a walk.
#[derive(Debug, Default)]
struct Collector {
    open: Vec<Tree>,
    done: Vec<(String, Tree)>,
    names: Vec<String>,
}

impl Collector {
    fn put(&mut self, tree: Tree) {
        match self.open.last_mut() {
            None => self.done.push((self.names.last().unwrap().clone(), tree)),
            Some(Tree::Array(items)) => items.push(tree),
            Some(Tree::Option(item)) => *item = Some(Box::new(tree)),
            Some(Tree::Object(members)) => {
                members.push((self.names.last().unwrap().clone(), tree));
            }
            Some(Tree::Leaf(_)) => unreachable!("leaves are not open"),
        }
    }

    fn close(&mut self) -> Result<(), Mismatch> {
        let tree = self.open.pop().unwrap();
        self.put(tree);
        Ok(())
    }
}

impl Visitor for Collector {
    type Error = Mismatch;

    fn value(&mut self, value: Value<'_>) -> Result<(), Mismatch> {
        self.put(Tree::Leaf(shown(value)));
        Ok(())
    }

    fn begin_field(&mut self, field: &FieldSchema) -> Result<(), Mismatch> {
        self.names.push(field.name.to_owned());
        Ok(())
    }

    fn end_field(&mut self, field: &FieldSchema) -> Result<(), Mismatch> {
        assert_eq!(self.names.pop().as_deref(), Some(field.name));
        Ok(())
    }

    fn begin_array(&mut self, _: &Type, len: usize) -> Result<(), Mismatch> {
        self.open.push(Tree::Array(Vec::with_capacity(len)));
        Ok(())
    }

    fn end_array(&mut self) -> Result<(), Mismatch> {
        self.close()
    }

    fn begin_option(&mut self, _: &Type, _: bool) -> Result<(), Mismatch> {
        self.open.push(Tree::Option(None));
        Ok(())
    }

    fn end_option(&mut self) -> Result<(), Mismatch> {
        self.close()
    }

    fn begin_object(&mut self, _: &[FieldSchema]) -> Result<(), Mismatch> {
        self.open.push(Tree::Object(Vec::new()));
        Ok(())
    }

    fn end_object(&mut self) -> Result<(), Mismatch> {
        self.close()
    }
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => format!("Text({:?})", text.to_string()),
        other => format!("{other:?}"),
    }
}

/// Types. With `fixed` only those that elements of a location may have.
fn types(fixed: bool) -> BoxedStrategy<Type> {
    use Type as T;
    let leaves = [
        T::Bool,
        T::Bool8,
        T::U8,
        T::U16,
        T::U32,
        T::U64,
        T::U128,
        T::I8,
        T::I16,
        T::I32,
        T::I64,
        T::I128,
        T::F32,
        T::F64,
        T::Utf16Unit,
        T::Guid,
        T::UnixNanos,
        T::DateTime,
        T::DurationNanos,
    ];
    let leaf = prop::sample::select(leaves.to_vec());
    if fixed {
        return leaf.boxed();
    }
    let varying = [
        T::VarUInt,
        T::VarInt,
        T::Char,
        T::IpAddr,
        T::SocketAddr,
        T::Str(Encoding::Utf16),
        T::Str(Encoding::Utf16Nul),
        T::Str(Encoding::Utf8),
    ];
    let located = types(true).prop_flat_map(|element| {
        let element: &'static Type = Box::leak(Box::new(element));
        prop::sample::select(vec![
            T::Array(element, Layout::RelLoc),
            T::Array(element, Layout::DataLoc),
            T::Str(Encoding::Utf16RelLoc),
            T::Str(Encoding::Utf16DataLoc),
            T::Str(Encoding::Utf8RelLoc),
            T::Str(Encoding::Utf8DataLoc),
        ])
    });
    let any = prop_oneof![2 => leaf, 2 => prop::sample::select(varying.to_vec()), 1 => located];
    any.prop_recursive(3, 12, 3, |inner| {
        let boxed = inner.clone().prop_map(|ty| -> &'static Type { Box::leak(Box::new(ty)) });
        prop_oneof![
            boxed.clone().prop_map(|ty| T::Array(ty, Layout::Counted)),
            (boxed.clone(), 1_u16..4).prop_map(|(ty, count)| T::Array(ty, Layout::Fixed(count))),
            boxed.prop_map(T::Option),
            prop::collection::vec(inner, 1..4).prop_map(|types| T::Object(fields_of(types))),
        ]
    })
    .boxed()
}

fn fields_of(types: Vec<Type>) -> &'static [FieldSchema] {
    const NAMES: [&str; 4] = ["a", "b", "c", "é"];
    types.into_iter().zip(NAMES).map(|(ty, name)| field(name, ty)).collect::<Vec<_>>().leak()
}

fn schemas() -> impl Strategy<Value = &'static [FieldSchema]> {
    prop::collection::vec(types(false), 1..4).prop_map(fields_of)
}

/// Encodes values drawn from `seed` and records them as a tree.
struct Writer {
    encoder: NetTraceEncoder<VecBuffer>,
    seed: u64,
    /// Data of locations, to be written after the fields: mark, type, and seed of the elements.
    behind: Vec<(usize, &'static Type, u64)>,
}

impl Writer {
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.seed >> (self.seed >> 59)
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 6] = ["", "a", "é", "\"\\", "🎈", "€z"];
        let count = self.next() % 4;
        (0..count).map(|_| PARTS[(self.next() % 6) as usize]).collect()
    }

    fn value(&mut self, ty: &'static Type) -> Tree {
        let n = self.next();
        let wide = u128::from(n) << 64 | u128::from(self.next());
        let mut guid = [7; 16];
        guid[..8].copy_from_slice(&n.to_le_bytes());
        let e = &mut self.encoder;
        macro_rules! leaf {
            ($method:ident, $variant:ident, $value:expr) => {{
                let value = $value;
                e.$method(value);
                Value::$variant(value)
            }};
        }
        let value = match *ty {
            Type::Bool => leaf!(bool, Bool, n % 2 == 1),
            Type::Bool8 => leaf!(bool8, Bool, n % 2 == 1),
            Type::U8 => leaf!(u8, U8, n as u8),
            Type::U16 => leaf!(u16, U16, n as u16),
            Type::U32 => leaf!(u32, U32, n as u32),
            Type::U64 => leaf!(u64, U64, n),
            Type::U128 => leaf!(u128, U128, wide),
            Type::I8 => leaf!(i8, I8, n as i8),
            Type::I16 => leaf!(i16, I16, n as i16),
            Type::I32 => leaf!(i32, I32, n as i32),
            Type::I64 => leaf!(i64, I64, n as i64),
            Type::I128 => leaf!(i128, I128, wide as i128),
            Type::F32 => leaf!(f32, F32, f32::from_bits(n as u32)),
            Type::F64 => leaf!(f64, F64, f64::from_bits(n)),
            Type::VarUInt => leaf!(var_uint, U64, n),
            Type::VarInt => leaf!(var_int, I64, n as i64),
            Type::Utf16Unit => leaf!(utf16_unit, Utf16Unit, n as u16),
            Type::UnixNanos => leaf!(unix_nanos, I64, n as i64),
            Type::DurationNanos => leaf!(duration_nanos, U64, n),
            Type::Guid => {
                e.guid(&guid);
                Value::Guid(guid)
            }
            Type::DateTime => {
                let millis = (n % 100_000_000_000_000) as i64;
                e.date_time(millis);
                Value::FileTime((millis + 11_644_473_600_000) * 10_000)
            }
            Type::Char => {
                let c = char::from_u32(n as u32 % 0xD7FF + 1).unwrap();
                e.char(c);
                return Tree::Leaf(format!("Text({:?})", c.to_string()));
            }
            Type::IpAddr => {
                let address = (n as u32).to_be_bytes().into();
                e.ip_addr(&address);
                return Tree::Leaf(format!("Text({:?})", address.to_string()));
            }
            Type::SocketAddr => {
                let address = ([1_u16, n as u16, 0, 0, 0, 0, 0, 5], n as u16).into();
                e.socket_addr(&address);
                return Tree::Leaf(format!("Text({:?})", address.to_string()));
            }
            Type::Str(encoding @ (Encoding::Utf16 | Encoding::Utf16Nul | Encoding::Utf8)) => {
                let text = self.text();
                self.encoder.str(&text, encoding);
                return Tree::Leaf(format!("Text({text:?})"));
            }
            Type::Str(_) => {
                let mark = e.begin_location(ty);
                self.behind.push((mark, ty, n));
                // The value that it will have, from the same seed.
                let mut later = Self {
                    encoder: NetTraceEncoder::new(VecBuffer::new()),
                    seed: n,
                    behind: vec![],
                };
                return Tree::Leaf(format!("Text({:?})", later.text()));
            }
            Type::Array(item, Layout::Counted) => {
                let len = (n % 4) as usize;
                e.begin_array(len, Layout::Counted);
                return Tree::Array((0..len).map(|_| self.value(item)).collect());
            }
            Type::Array(item, layout @ Layout::Fixed(count)) => {
                e.begin_array(count.into(), layout);
                return Tree::Array((0..count).map(|_| self.value(item)).collect());
            }
            Type::Array(item, _) => {
                let mark = e.begin_location(ty);
                self.behind.push((mark, ty, n));
                let mut later = Self {
                    encoder: NetTraceEncoder::new(VecBuffer::new()),
                    seed: n,
                    behind: vec![],
                };
                return Tree::Array(later.elements(item));
            }
            Type::Option(item) => {
                let present = n % 2 == 1;
                e.begin_option(present, item);
                return Tree::Option(present.then(|| Box::new(self.value(item))));
            }
            Type::Object(fields) => {
                return Tree::Object(self.fields(fields));
            }
        };
        Tree::Leaf(shown(value))
    }

    fn fields(&mut self, fields: &'static [FieldSchema]) -> Vec<(String, Tree)> {
        fields.iter().map(|field| (field.name.to_owned(), self.value(&field.ty))).collect()
    }

    fn elements(&mut self, item: &'static Type) -> Vec<Tree> {
        let len = self.next() % 4;
        (0..len).map(|_| self.value(item)).collect()
    }

    fn finish(mut self) -> Vec<u8> {
        for (mark, ty, seed) in std::mem::take(&mut self.behind) {
            self.encoder.begin_location_data(mark, ty);
            self.seed = seed;
            match *ty {
                Type::Str(encoding) => {
                    let text = self.text();
                    self.encoder.location_str(&text, encoding);
                }
                Type::Array(item, _) => {
                    self.elements(item);
                }
                _ => unreachable!("not a location"),
            }
            self.encoder.end_location_data(mark, ty);
        }
        self.encoder.finish().into_payload().unwrap()
    }
}

fn encoded(fields: &'static [FieldSchema], seed: u64) -> (Vec<(String, Tree)>, Vec<u8>) {
    let encoder = NetTraceEncoder::new(VecBuffer::new());
    let mut writer = Writer { encoder, seed, behind: Vec::new() };
    let values = writer.fields(fields);
    (values, writer.finish())
}

fn walked(fields: &[FieldSchema], payload: &[u8]) -> Result<Vec<(String, Tree)>, Mismatch> {
    let mut collector = Collector::default();
    walk(fields, payload, &mut collector)?;
    assert!(collector.open.is_empty() && collector.names.is_empty());
    Ok(collector.done)
}

/// The version 6 type with the payload that version 5 has for `ty`.
fn in_version_5(ty: Type) -> Type {
    let boxed = |ty: &Type| -> &'static Type { Box::leak(Box::new(in_version_5(*ty))) };
    match ty {
        Type::Bool8 => Type::Bool,
        Type::VarUInt => Type::U64,
        Type::VarInt => Type::I64,
        Type::Str(Encoding::Utf16Nul) => ty,
        Type::Str(_) => Type::Str(Encoding::Utf16),
        Type::Array(item, _) => Type::Array(boxed(item), Layout::Counted),
        Type::Option(item) => Type::Option(boxed(item)),
        Type::Object(fields) => {
            Type::Object(fields_of(fields.iter().map(|field| in_version_5(field.ty)).collect()))
        }
        other => other,
    }
}

/// The version 6 type with the payload that version 4 has for `ty`.
fn in_version_4(ty: Type) -> Type {
    match in_version_5(ty) {
        Type::Str(_)
        | Type::Char
        | Type::IpAddr
        | Type::SocketAddr
        | Type::Array(..)
        | Type::Option(_) => Type::Str(Encoding::Utf16Nul),
        Type::Object(fields) => {
            Type::Object(fields_of(fields.iter().map(|field| in_version_4(field.ty)).collect()))
        }
        other => other,
    }
}

fn mapped(
    version: Version,
    fields: &'static [FieldSchema],
    payload: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::new();
    v5::map_payload(version, &schema(1, "E", fields), payload, &mut out).map(|_| out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn encoded_values_come_back(fields in schemas(), seed in any::<u64>()) {
        let (values, payload) = encoded(fields, seed);
        prop_assert_eq!(&walked(fields, &payload).unwrap(), &values);
        // A truncated payload is an error, or gives the same values if the missing bytes are not
        // read.
        for len in 0..payload.len() {
            if let Ok(found) = walked(fields, &payload[..len]) {
                prop_assert_eq!(&found, &values);
            }
        }
    }

    /// Version 5 has the same values, in its own types, and in the same bytes if no mapping is
    /// needed.
    #[test]
    fn version_5_holds_the_same_values(fields in schemas(), seed in any::<u64>()) {
        let (values, payload) = encoded(fields, seed);
        let mapped = mapped(Version::V5, fields, &payload).unwrap();
        let types = fields.iter().map(|field| in_version_5(field.ty)).collect();
        let found = walked(fields_of(types), &mapped).unwrap();
        prop_assert_eq!(found, values);
        if !v5::needs_mapping(Version::V5, &schema(1, "E", fields)) {
            prop_assert_eq!(mapped, payload);
        }
    }

    /// Version 4 has the same values where it has types for them, and text elsewhere. Its payload
    /// has exactly the bytes that its types state.
    #[test]
    fn version_4_can_be_walked(fields in schemas(), seed in any::<u64>()) {
        let (values, payload) = encoded(fields, seed);
        let mapped = mapped(Version::V4, fields, &payload).unwrap();
        let types = fields.iter().map(|field| in_version_4(field.ty)).collect();
        let types = fields_of(types);
        let found = walked(types, &mapped).unwrap();
        for (((_, found), (_, value)), field) in found.iter().zip(&values).zip(fields) {
            if !v5::needs_mapping(Version::V4, &schema(1, "E", std::slice::from_ref(field))) {
                prop_assert_eq!(found, value);
            }
        }
        prop_assert!(mapped.is_empty() || walked(types, &mapped[..mapped.len() - 1]).is_err());
    }

    #[test]
    fn any_bytes_are_walked(
        fields in schemas(),
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (_, mut payload) = encoded(fields, seed);
        payload.extend(tail);
        for (at, byte) in changes {
            if !payload.is_empty() {
                let at = at % payload.len();
                payload[at] = byte;
            }
        }
        if let Err(mismatch) = walked(fields, &payload) {
            prop_assert!(mismatch.offset <= payload.len());
        }
        for version in [Version::V4, Version::V5] {
            if let Ok(mapped) = mapped(version, fields, &payload) {
                prop_assert!(mapped.len() <= MAX_PAYLOAD);
            }
        }
    }
}

/// Counts the fields of a walk.
struct Count(u64);

impl Visitor for Count {
    type Error = Mismatch;

    fn value(&mut self, _: Value<'_>) -> Result<(), Mismatch> {
        Ok(())
    }

    fn begin_field(&mut self, _: &FieldSchema) -> Result<(), Mismatch> {
        self.0 += 1;
        Ok(())
    }
}

/// A few bytes that point at the same data many times, or hold many values of size 0, soon end in
/// an error.
#[test]
fn bombs() {
    const NOTHING: Type = Type::Object(&[]);
    const MANY: Type = Type::Array(&NOTHING, Layout::Fixed(u16::MAX));
    const MORE: Type = Type::Array(&MANY, Layout::Fixed(u16::MAX));
    const FIELDS: &[FieldSchema] = &[field("f", Type::Array(&MORE, Layout::Fixed(u16::MAX)))];
    let mut collector = Collector::default();
    assert!(walk(FIELDS, &[], &mut collector).is_err());

    // The most elements, each an object with the most fields that metadata can describe: 300
    // million values.
    const EMPTY: FieldSchema = field("e", NOTHING);
    const WIDE: Type = Type::Object(&[EMPTY; 5_000]);
    const WIDER: &[FieldSchema] = &[field("f", Type::Array(&WIDE, Layout::Fixed(u16::MAX)))];
    let mut count = Count(0);
    assert!(walk(WIDER, &[], &mut count).is_err());
    assert!(count.0 < 2_000, "{}", count.0);

    const BYTES: Type = Type::Array(&Type::U8, Layout::DataLoc);
    const LISTS: &[FieldSchema] = &[field("f", Type::Array(&BYTES, Layout::Counted))];
    let location = (60_000_u32 << 16).to_le_bytes();
    let payload: Vec<u8> =
        [0x98, 0x3A].into_iter().chain(iter::repeat_n(location, 15_000).flatten()).collect();
    assert!(walked(LISTS, &payload).is_err());
}

#[test]
fn mismatches() {
    #[track_caller]
    fn check(ty: Type, payload: &[u8], offset: usize) {
        let fields = [field("before", Type::U8), field("f", ty)];
        let mismatch = walked(&fields, payload).unwrap_err();
        assert_eq!(mismatch.offset, offset, "{ty:?}");
        assert!(mismatch.to_string().contains(&format!("byte {offset} ")));
    }
    check(Type::U8, &[], 0);
    check(Type::U32, &[1, 2, 3, 4], 1);
    check(Type::VarUInt, &[1, 0x80], 1);
    check(Type::VarUInt, &[&[1][..], &[0x80; 11]].concat(), 1);
    check(Type::Str(Encoding::Utf16), &[1, 2, 0, 0, 0, 0], 3);
    check(Type::Str(Encoding::Utf16Nul), &[1, 2, 0, 0], 1);
    check(Type::Option(&Type::U8), &[1, 2, 0, 0, 0], 3);
    check(Type::Array(&Type::U16, Layout::Counted), &[1, 2, 0, 0, 0], 5);
    check(Type::Array(&Type::U8, Layout::DataLoc), &[1, 5, 0, 1, 0], 5);
    check(Type::Array(&Type::U16, Layout::RelLoc), &[1, 0, 0, 1, 0, 9], 5);
    check(Type::Array(&Type::VarUInt, Layout::RelLoc), &[1, 0, 0, 1, 0, 9], 5);
    check(Type::Str(Encoding::Utf16RelLoc), &[1, 0, 0, 1, 0, 9], 5);
}

#[test]
fn text_that_is_not_valid() {
    assert_eq!(Text::Utf8(b"a\xFFb\xF0\x9F").to_string(), "a\u{FFFD}b\u{FFFD}");
    assert_eq!(Text::Utf16(&[0x41, 0, 0, 0xD8, 0x42, 0]).to_string(), "A\u{FFFD}B");
    const FIELDS: &[FieldSchema] = &[field("f", Type::Str(Encoding::Utf8))];
    let written = mapped(Version::V5, FIELDS, b"\x02\x00a\xFF").unwrap();
    assert_eq!(written, [2, 0, 0x61, 0, 0xFD, 0xFF]);
}
