//! The shop's items and orders, in SQLite.

use std::sync::Arc;

use nettrace_writer::{Context, traced};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::task::spawn_blocking;

use crate::{app::Failure, known::Call, peers};

/// How many items there are.
pub(crate) const ITEMS: u64 = 1_000;

/// The database. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Store(Arc<Mutex<Connection>>);

/// What the shop sells.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) cents: u64,
}

impl Store {
    /// A database in memory with [`ITEMS`] items.
    pub(crate) fn open() -> rusqlite::Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, cents INTEGER NOT NULL);
             CREATE TABLE bought (item INTEGER NOT NULL, customer INTEGER NOT NULL);",
        )?;
        let filling = connection.transaction()?;
        for id in 0..ITEMS {
            let insert = "INSERT INTO item VALUES (?1, ?2, ?3)";
            filling.execute(insert, params![id as i64, format!("item {id}"), 100 + id as i64])?;
        }
        filling.commit()?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// An item, by its number.
    #[traced(provider = "Example-Service", fields = [id], err)]
    #[tracing::instrument(skip_all, fields(id), err)]
    #[cfg_attr(nettrace_peers, fastrace::trace(properties = { "id": "{id}" }))]
    pub(crate) async fn item(&self, caller: Call, id: u64) -> Result<Item, Failure> {
        let call = Call::begin("item", caller);
        self.blocking(move |connection| select(connection, call, id)).await
    }

    /// Notes that a customer has bought an item. Returns how many that customer has bought so far.
    #[traced(provider = "Example-Service", fields = [id, customer])]
    #[tracing::instrument(skip_all, fields(id, customer))]
    #[cfg_attr(
        nettrace_peers,
        fastrace::trace(properties = { "id": "{id}", "customer": "{customer}" })
    )]
    pub(crate) async fn buy(&self, caller: Call, id: u64, customer: u64) -> Result<u64, Failure> {
        let call = Call::begin("buy", caller);
        self.blocking(move |connection| insert(connection, call, id, customer)).await
    }

    /// Does something on a thread that may wait. It is still inside the caller's span.
    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let (store, context, span) = (self.clone(), Context::current(), tracing::Span::current());
        let peer = peers::Scope::current();
        let work = move || {
            let _context = context.enter();
            let _span = span.enter();
            let _peer = peer.enter();
            work(&store.0.lock())
        };
        spawn_blocking(work).await.map_err(|_| Failure::Broken)?
    }
}

#[traced(provider = "Example-Service", fields = [id], err)]
#[tracing::instrument(skip_all, fields(id), err)]
#[cfg_attr(nettrace_peers, fastrace::trace(properties = { "id": "{id}" }))]
fn select(connection: &Connection, caller: Call, id: u64) -> Result<Item, Failure> {
    Call::begin("select", caller);
    let mut select = connection.prepare_cached("SELECT name, cents FROM item WHERE id = ?1")?;
    let found = select.query_row([id as i64], |row| {
        Ok(Item { name: row.get(0)?, cents: row.get::<_, i64>(1)? as u64 })
    });
    found.optional()?.ok_or(Failure::NoItem(id))
}

#[traced(provider = "Example-Service", fields = [id, customer])]
#[tracing::instrument(skip_all, fields(id, customer))]
#[cfg_attr(
    nettrace_peers,
    fastrace::trace(properties = { "id": "{id}", "customer": "{customer}" })
)]
fn insert(connection: &Connection, caller: Call, id: u64, customer: u64) -> Result<u64, Failure> {
    Call::begin("insert", caller);
    let (id, customer) = (id as i64, customer as i64);
    connection.prepare_cached("INSERT INTO bought VALUES (?1, ?2)")?.execute([id, customer])?;
    Ok(connection.changes())
}
