//! Event types, and the table of each.

use std::{rc::Rc, sync::Arc};

use arrow_array::{ArrayRef, builder::BinaryBuilder};
use arrow_schema::{DataType, Field, Schema};
use foldhash::HashMap;
use nettrace_event::keys;
use nettrace_reader::{Event, Metadata};

use crate::{
    model::{EndFields, PerType, dimension, event_name, role_of, span_name, walk},
    tables::{
        BATCH, BATCH_BYTES,
        columns::{
            events::{Common, Row},
            payload::{self, Column},
        },
        facts::TypeFacts,
        names::{Unique, escaped},
        partition::{self, Day},
        size_of,
        table::{Layout, Place, Table},
    },
    text::EventType,
};

/// How many event types have tables of their own.
const TABLES: usize = size_of(10_000, 6);

/// How many columns all these tables have together, about.
const COLUMNS: usize = size_of(100_000, 80);

/// All event types of a trace.
#[derive(Debug, Default)]
pub(crate) struct Types {
    known: PerType<Rc<TypeFacts>>,
    shapes: Shapes,
}

/// Which types have tables.
#[derive(Debug, Default)]
struct Shapes {
    tables: HashMap<Shape, usize>,
    /// Those of all tables.
    columns: usize,
    names: Unique,
}

/// Types of one shape share a table.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    provider: String,
    name: String,
    fields: String,
}

/// The rows of one event type that wait to be written.
pub(crate) struct TypeTable {
    pub(crate) table: Table,
    common: Common,
    columns: Vec<Option<Column>>,
    payloads: BinaryBuilder,
    waiting: usize,
}

impl Types {
    /// The type of an event. A type that is new gets a table through `make`, which returns how many
    /// columns it has.
    #[inline]
    pub(crate) fn of(
        &mut self,
        event: &Event<'_>,
        version: u32,
        make: impl FnOnce(&Metadata, &str, Place) -> usize,
    ) -> Rc<TypeFacts> {
        let Self { known, shapes } = self;
        Rc::clone(known.of(event, |metadata| Rc::new(shapes.add(metadata, version, make))))
    }
}

impl Shapes {
    fn add(
        &mut self,
        metadata: &Metadata,
        version: u32,
        make: impl FnOnce(&Metadata, &str, Place) -> usize,
    ) -> TypeFacts {
        let name = event_name(metadata);
        let shape = Shape {
            provider: metadata.provider.clone(),
            name: name.clone().into_owned(),
            fields: shape_of(metadata),
        };
        let next = self.tables.len();
        let table = match self.tables.get(&shape) {
            Some(number) => Some(*number),
            None if next < TABLES && self.columns < COLUMNS => {
                let event = match &*metadata.name {
                    "" => metadata.event_id.to_string(),
                    name => name.to_owned(),
                };
                let table = format!("{}.{event}", metadata.provider);
                let file = self.names.file(&table);
                self.columns +=
                    make(metadata, &name, Place { folder: "types", table: escaped(&table), file });
                self.tables.insert(shape, next);
                Some(next)
            }
            None => None,
        };
        TypeFacts {
            provider: metadata.provider.clone(),
            span: span_name(&name).to_owned(),
            name: name.into_owned(),
            id: metadata.event_id,
            version: metadata.version,
            level: metadata.level,
            opcode: metadata.opcode.or_else(|| metadata.implied_opcode()).unwrap_or(0),
            keywords: metadata.keywords,
            role: role_of(metadata, None, version),
            end: EndFields::of(metadata),
            fields: EventType::of(metadata),
            dimension: dimension(metadata, None),
            table,
        }
    }
}

/// What decides the columns of a type's table.
fn shape_of(metadata: &Metadata) -> String {
    let stated = metadata.key_values.iter().filter(|(key, _)| key.starts_with(keys::RUST_TYPE));
    format!("{:?} {:?}", metadata.fields, stated.collect::<Vec<_>>())
}

impl TypeTable {
    /// The table of a type. Its first rows are of `day`.
    pub(crate) fn new(
        layout: &Layout,
        metadata: &Metadata,
        name: &str,
        place: Place,
        day: Day,
    ) -> Self {
        let mut names = Unique::default();
        let folders = layout.partition.iter().flat_map(|_| partition::COLUMNS);
        Common::NAMES.into_iter().chain(folders).for_each(|name| {
            names.unique(name);
        });
        let payload = names.unique("payload");
        let (fields, columns) = payload::plan(metadata, &mut names);
        let mut all = Common::fields();
        all.extend(fields);
        all.push(Arc::new(Field::new(payload, DataType::Binary, true)));
        let mut facts = vec![
            ("nettrace.provider".to_owned(), metadata.provider.clone()),
            ("nettrace.event".to_owned(), name.to_owned()),
        ];
        if let Some(template) = &metadata.message_template {
            facts.push(("nettrace.message_template".to_owned(), template.clone()));
        }
        if let Some(description) = &metadata.description {
            facts.push(("nettrace.description".to_owned(), description.clone()));
        }
        Self {
            table: Table::new(Arc::new(Schema::new(all)), place, day, facts),
            common: Common::default(),
            columns,
            payloads: BinaryBuilder::with_capacity(0, 0),
            waiting: 0,
        }
    }

    /// Adds an event. Returns whether all its fields can be decoded.
    pub(crate) fn push(&mut self, row: &Row, event: &Event<'_>) -> bool {
        self.common.push(row);
        // Whether all values are in their columns.
        let mut is_whole = true;
        let mut columns = self.columns.iter_mut();
        let mut taken = 0;
        let used = walk(event, |place, value| {
            // Those between could not be decoded.
            let missing = columns.by_ref().take(place - taken);
            missing.flatten().for_each(Column::push_null);
            taken = place + 1;
            match columns.next() {
                Some(Some(column)) => is_whole &= column.push(&value).is_ok(),
                _ => is_whole = false,
            }
        });
        columns.flatten().for_each(Column::push_null);
        let is_decoded = used.is_ok();
        if is_whole && used.is_ok_and(|used| used >= event.payload.len()) {
            self.payloads.append_null();
        } else {
            self.payloads.append_value(event.payload);
        }
        self.waiting += event.payload.len() + row.thread.size();
        is_decoded
    }

    /// Whether enough rows wait to be written.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.common.len() >= BATCH || self.waiting >= BATCH_BYTES
    }

    /// About how many bytes the rows take that wait.
    pub(crate) fn waiting(&self) -> usize {
        2 * self.waiting + 64 * self.common.len()
    }

    /// Takes the rows that wait.
    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        self.waiting = 0;
        let mut columns = self.common.finish();
        self.columns.iter_mut().flatten().for_each(|column| column.finish_into(&mut columns));
        columns.push(Arc::new(self.payloads.finish()));
        columns
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.common.len() == 0
    }

    /// How many columns it has, with those in lists and structs.
    pub(crate) fn width(&self) -> usize {
        self.table.width()
    }
}
