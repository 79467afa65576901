//! The columns of a table of events of one type: the type of each, and its values so far.

use std::{collections::HashMap, fmt::Write, sync::Arc};

use arrow_array::{
    ArrayRef, ListArray, StructArray,
    builder::{BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder},
    types::{
        ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use nettrace_reader::{Metadata, Type, Value, WallTime};

use crate::{
    model::{FileTime, Guid, RustTypes, Stated, unix_nanos},
    tables::{columns::times, names::Unique, size_of},
};

/// How deep lists and structs may be nested. Some engines fail on deeper ones.
const DEPTH: usize = size_of(16, 3);

/// How many columns a table has at most, counting those in lists and structs.
const COLUMNS: usize = size_of(1000, 24);

/// A value that its column cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

type Fit = Result<(), Misfit>;

/// The values of one column so far.
#[derive(Debug)]
pub(crate) enum Column {
    Bool(BooleanBuilder),
    I8(PrimitiveBuilder<Int8Type>),
    I16(PrimitiveBuilder<Int16Type>),
    I32(PrimitiveBuilder<Int32Type>),
    I64(PrimitiveBuilder<Int64Type>),
    U8(PrimitiveBuilder<UInt8Type>),
    U16(PrimitiveBuilder<UInt16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    U64(PrimitiveBuilder<UInt64Type>),
    F32(PrimitiveBuilder<Float32Type>),
    F64(PrimitiveBuilder<Float64Type>),
    /// A time, in nanoseconds since 1970: [two columns](times), or in a list these numbers alone.
    Time(PrimitiveBuilder<Int64Type>),
    /// Text, and values with a form as text that loses nothing.
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    List(List),
    Struct(Struct),
    /// A value or none: in the format, an array with at most one element.
    Option(Box<Column>, IsWrapped),
}

/// A column of lists, or of options of options: there, no element is null.
#[derive(Debug)]
pub(crate) struct List {
    item: Box<Column>,
    is_option: bool,
    wrapped: IsWrapped,
    field: FieldRef,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// A column of objects.
#[derive(Debug)]
pub(crate) struct Struct {
    members: Vec<Column>,
    fields: Fields,
    nulls: NullBufferBuilder,
}

/// Whether an array or option in an array or option is the only field of an object. The format
/// describes it so because readers fail on arrays of arrays.
type IsWrapped = bool;

/// How many columns there may still be.
#[derive(Debug)]
struct Planner {
    left: usize,
}

/// The columns for the fields of an event type. A field without one is too deeply nested, or one of
/// too many. `taken` has the names that are in use.
pub(crate) fn plan(
    metadata: &Metadata,
    taken: &mut Unique,
) -> (Vec<FieldRef>, Vec<Option<Column>>) {
    let (types, mut planner) = (RustTypes::of(metadata), Planner { left: COLUMNS });
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for field in &metadata.fields {
        let stated = types.field(&field.name);
        let before = planner.left;
        let column = planner.column(&field.ty, &stated, DEPTH);
        if let Some((column, data_type)) = &column {
            fields.extend(column.fields(&field.name, data_type, &stated, taken));
        } else {
            planner.left = before;
        }
        columns.push(column.map(|(column, _)| column));
    }
    (fields, columns)
}

/// What a column says of its values beside its type.
fn facts(stated: &Stated<'_>) -> HashMap<String, String> {
    match stated.option().as_ref().unwrap_or(stated).is("Duration") {
        true => [("unit".to_owned(), "ns".to_owned())].into(),
        false => HashMap::new(),
    }
}

impl Planner {
    /// The column for values of a type, and its type. `None` if there is none.
    fn column(
        &mut self,
        ty: &Type,
        stated: &Stated<'_>,
        depth: usize,
    ) -> Option<(Column, DataType)> {
        self.left = self.left.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        Some(match ty {
            Type::Boolean | Type::Boolean8 => {
                (Column::Bool(BooleanBuilder::with_capacity(0)), DataType::Boolean)
            }
            Type::Int8 => (Column::I8(numbers()), DataType::Int8),
            Type::Int16 => (Column::I16(numbers()), DataType::Int16),
            Type::Int32 => (Column::I32(numbers()), DataType::Int32),
            Type::Int64 if stated.is("SystemTime") => self.time()?,
            Type::Int64 | Type::VarInt => (Column::I64(numbers()), DataType::Int64),
            Type::UInt8 | Type::Utf8CodeUnit => (Column::U8(numbers()), DataType::UInt8),
            Type::UInt16 | Type::Utf16CodeUnit => (Column::U16(numbers()), DataType::UInt16),
            Type::UInt32 => (Column::U32(numbers()), DataType::UInt32),
            Type::UInt64 | Type::VarUInt => (Column::U64(numbers()), DataType::UInt64),
            Type::Single => (Column::F32(numbers()), DataType::Float32),
            Type::Double => (Column::F64(numbers()), DataType::Float64),
            Type::DateTime => self.time()?,
            Type::Guid | Type::Decimal | Type::Utf16String | Type::Utf8String => text(),
            Type::Object(fields) => self.object(fields, stated, depth)?,
            _ => match ty.element() {
                Some(element) => self.array(element, stated, depth)?,
                // The rest of the payload.
                None => (Column::Bytes(BinaryBuilder::with_capacity(0, 0)), DataType::Binary),
            },
        })
    }

    /// A time has two columns.
    fn time(&mut self) -> Option<(Column, DataType)> {
        self.left = self.left.checked_sub(1)?;
        Some((Column::Time(numbers()), DataType::Int64))
    }

    fn array(
        &mut self,
        element: &Type,
        stated: &Stated<'_>,
        depth: usize,
    ) -> Option<(Column, DataType)> {
        let is_text = matches!(element, Type::Utf16CodeUnit | Type::Utf8CodeUnit);
        if is_text {
            return Some(text());
        }
        let option = stated.option();
        let is_twice = option.as_ref().is_some_and(|inner| inner.option().is_some());
        if let Some(inner) = option.as_ref().filter(|_| !is_twice) {
            let wrapped = inner.unwrapped(element, "value");
            let (column, data_type) = self.column(wrapped.unwrap_or(element), inner, depth)?;
            return Some((Column::Option(Box::new(column), wrapped.is_some()), data_type));
        }
        if *element == Type::UInt8 {
            return Some((Column::Bytes(BinaryBuilder::with_capacity(0, 0)), DataType::Binary));
        }
        let inner = option.unwrap_or_else(|| stated.element());
        let wrapped = inner.unwrapped(element, if is_twice { "value" } else { "items" });
        let (item, data_type) = self.column(wrapped.unwrap_or(element), &inner, depth)?;
        let field = Arc::new(Field::new("item", data_type, true));
        let data_type = DataType::List(Arc::clone(&field));
        let (offsets, nulls) = (vec![0], NullBufferBuilder::new(0));
        let wrapped = wrapped.is_some();
        let is_option = is_twice;
        let list = List { item: Box::new(item), is_option, wrapped, field, offsets, nulls };
        Some((Column::List(list), data_type))
    }

    fn object(
        &mut self,
        fields: &[nettrace_reader::Field],
        stated: &Stated<'_>,
        depth: usize,
    ) -> Option<(Column, DataType)> {
        if fields.is_empty() {
            // Parquet has no structs without fields: such a value is there, or it is not.
            return Some((Column::Bool(BooleanBuilder::with_capacity(0)), DataType::Boolean));
        }
        let mut names = Unique::default();
        let (mut members, mut arrow) = (Vec::new(), Vec::new());
        for field in fields {
            let stated = stated.member(&field.name);
            let (column, data_type) = self.column(&field.ty, &stated, depth)?;
            arrow.extend(column.fields(&field.name, &data_type, &stated, &mut names));
            members.push(column);
        }
        let fields = Fields::from(arrow);
        let data_type = DataType::Struct(fields.clone());
        let nulls = NullBufferBuilder::new(0);
        Some((Column::Struct(Struct { members, fields, nulls }), data_type))
    }
}

/// Without memory for rows: most types of a trace can have few.
fn numbers<T: ArrowPrimitiveType>() -> PrimitiveBuilder<T> {
    PrimitiveBuilder::with_capacity(0)
}

fn text() -> (Column, DataType) {
    (Column::Text(StringBuilder::with_capacity(0, 0)), DataType::Utf8)
}

impl Column {
    /// The fields of Arrow's schema for a field: two if it is a time.
    fn fields(
        &self,
        name: &str,
        data_type: &DataType,
        stated: &Stated<'_>,
        taken: &mut Unique,
    ) -> Vec<FieldRef> {
        let own = taken.unique(name);
        if self.is_time() {
            let nanos = taken.unique(&times::nanos_name(&own));
            return times::fields([own, nanos], true).into();
        }
        vec![Arc::new(Field::new(own, data_type.clone(), true).with_metadata(facts(stated)))]
    }

    fn is_time(&self) -> bool {
        match self {
            Self::Time(_) => true,
            Self::Option(inner, _) => inner.is_time(),
            _ => false,
        }
    }

    /// Adds a value. One that does not fit becomes null.
    pub(crate) fn push(&mut self, value: &Value<'_>) -> Fit {
        match (&mut *self, value) {
            (Self::Bool(column), Value::Bool(value)) => column.append_value(*value),
            (Self::Bool(column), Value::Object(_)) => column.append_value(true),
            (Self::I8(column), Value::I8(value)) => column.append_value(*value),
            (Self::I16(column), Value::I16(value)) => column.append_value(*value),
            (Self::I32(column), Value::I32(value)) => column.append_value(*value),
            (Self::I64(column), Value::I64(value)) => column.append_value(*value),
            (Self::U8(column), Value::U8(value)) => column.append_value(*value),
            (Self::U8(column), Value::Utf8CodeUnit(value)) => column.append_value(*value),
            (Self::U16(column), Value::U16(value)) => column.append_value(*value),
            (Self::U16(column), Value::Utf16CodeUnit(value)) => column.append_value(*value),
            (Self::U32(column), Value::U32(value)) => column.append_value(*value),
            (Self::U64(column), Value::U64(value)) => column.append_value(*value),
            (Self::F32(column), Value::F32(value)) => column.append_value(*value),
            (Self::F64(column), Value::F64(value)) => column.append_value(*value),
            (Self::Time(column), Value::I64(nanos)) => column.append_value(*nanos),
            (Self::Time(column), Value::FileTime(units)) => {
                return optional(column, FileTime(*units).unix_nanos().try_into().ok());
            }
            (Self::Time(column), Value::DateTime(time)) => {
                return optional(column, nanos_of(time));
            }
            (Self::Text(column), Value::Text(text)) => {
                column.append_value(text);
                // The reader has replaced what is not valid Unicode.
                if text.contains('\u{FFFD}') {
                    return Err(Misfit);
                }
            }
            (Self::Text(column), Value::Guid(bytes)) => {
                column.append_value(Guid(bytes).to_string())
            }
            (Self::Text(column), Value::Decimal(number)) => {
                // Writing to a builder cannot fail.
                let _ = write!(column, "{number}");
                column.append_value("");
            }
            (Self::Bytes(column), Value::Bytes(bytes)) => column.append_value(bytes),
            (Self::List(list), Value::Array(values)) => return list.push(values),
            (Self::Struct(object), Value::Object(fields)) => return object.push(fields),
            (Self::Option(inner, wrapped), value) => return option(inner, *wrapped, value),
            _ => {
                self.push_null();
                return Err(Misfit);
            }
        }
        Ok(())
    }

    /// Adds a value that is absent.
    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Bool(column) => column.append_null(),
            Self::I8(column) => column.append_null(),
            Self::I16(column) => column.append_null(),
            Self::I32(column) => column.append_null(),
            Self::I64(column) => column.append_null(),
            Self::U8(column) => column.append_null(),
            Self::U16(column) => column.append_null(),
            Self::U32(column) => column.append_null(),
            Self::U64(column) => column.append_null(),
            Self::F32(column) => column.append_null(),
            Self::F64(column) => column.append_null(),
            Self::Time(column) => column.append_null(),
            Self::Text(column) => column.append_null(),
            Self::Bytes(column) => column.append_null(),
            Self::List(list) => list.end(false),
            Self::Struct(object) => {
                object.members.iter_mut().for_each(Self::push_null);
                object.nulls.append_null();
            }
            Self::Option(inner, _) => inner.push_null(),
        }
    }

    /// Takes the values as the arrays of its [fields](Self::fields).
    pub(crate) fn finish_into(&mut self, columns: &mut Vec<ArrayRef>) {
        match self {
            Self::Time(nanos) => columns.extend(times::columns(nanos.finish())),
            Self::Option(inner, _) => inner.finish_into(columns),
            _ => columns.push(self.finish()),
        }
    }

    /// Takes the values as one array.
    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()) as ArrayRef,
            Self::I8(column) => Arc::new(column.finish()),
            Self::I16(column) => Arc::new(column.finish()),
            Self::I32(column) => Arc::new(column.finish()),
            Self::I64(column) => Arc::new(column.finish()),
            Self::U8(column) => Arc::new(column.finish()),
            Self::U16(column) => Arc::new(column.finish()),
            Self::U32(column) => Arc::new(column.finish()),
            Self::U64(column) => Arc::new(column.finish()),
            Self::F32(column) => Arc::new(column.finish()),
            Self::F64(column) => Arc::new(column.finish()),
            Self::Time(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
            Self::Bytes(column) => Arc::new(column.finish()),
            Self::List(list) => {
                let offsets = std::mem::replace(&mut list.offsets, vec![0]);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let (field, nulls) = (Arc::clone(&list.field), list.nulls.finish());
                Arc::new(ListArray::new(field, offsets, list.item.finish(), nulls))
            }
            Self::Struct(object) => {
                let mut members = Vec::with_capacity(object.fields.len());
                object.members.iter_mut().for_each(|member| member.finish_into(&mut members));
                let (fields, nulls) = (object.fields.clone(), object.nulls.finish());
                Arc::new(StructArray::new(fields, members, nulls))
            }
            Self::Option(inner, _) => inner.finish(),
        }
    }
}

impl List {
    fn push(&mut self, values: &[Value<'_>]) -> Fit {
        if self.is_option && values.is_empty() {
            self.end(false);
            return Ok(());
        }
        let mut fit = Ok(());
        for value in values {
            fit = fit.and(self.item.push(content(value, self.wrapped)));
        }
        let last = self.offsets.last().copied().unwrap_or(0);
        // A batch has far fewer than 2^31 bytes of payload.
        self.offsets.push(last.saturating_add(values.len() as i32));
        self.nulls.append_non_null();
        fit
    }

    fn end(&mut self, is_valid: bool) {
        self.offsets.push(self.offsets.last().copied().unwrap_or(0));
        self.nulls.append(is_valid);
    }
}

impl Struct {
    fn push(&mut self, values: &[(&str, Value<'_>)]) -> Fit {
        let mut fit = Ok(());
        let mut values = values.iter();
        for member in &mut self.members {
            match values.next() {
                Some((_, value)) => fit = fit.and(member.push(value)),
                None => {
                    member.push_null();
                    fit = Err(Misfit);
                }
            }
        }
        self.nulls.append_non_null();
        fit
    }
}

/// The value in the object that wraps it.
fn content<'v, 'a>(value: &'v Value<'a>, wrapped: IsWrapped) -> &'v Value<'a> {
    match value {
        Value::Object(fields) if wrapped => match &**fields {
            [(_, value)] => value,
            _ => value,
        },
        _ => value,
    }
}

/// Adds an array with at most one element as that element.
fn option(inner: &mut Column, wrapped: IsWrapped, value: &Value<'_>) -> Fit {
    match value {
        Value::Array(values) => match &**values {
            [] => inner.push_null(),
            [value] => return inner.push(content(value, wrapped)),
            _ => {
                inner.push_null();
                return Err(Misfit);
            }
        },
        Value::Bytes([]) => inner.push_null(),
        Value::Bytes([byte]) => return inner.push(&Value::U8(*byte)),
        _ => {
            inner.push_null();
            return Err(Misfit);
        }
    }
    Ok(())
}

fn optional<T: ArrowPrimitiveType>(
    column: &mut PrimitiveBuilder<T>,
    value: Option<T::Native>,
) -> Fit {
    column.append_option(value);
    value.map(|_| ()).ok_or(Misfit)
}

/// A time in eight parts, if it exists and nanoseconds since 1970 can express it.
fn nanos_of(time: &WallTime) -> Option<i64> {
    unix_nanos(time).and_then(|nanos| i64::try_from(nanos).ok())
}
