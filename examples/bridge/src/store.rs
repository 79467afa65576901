//! The shop's items and orders, in SQLite, by sqlx. Each connection has a thread.

use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tracing::instrument;

use crate::app::Failure;

/// How many items there are.
pub(crate) const ITEMS: i64 = 100;

/// The database. A clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Store(SqlitePool);

/// What the shop sells.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) cents: i64,
}

impl Store {
    /// A database in memory with [`ITEMS`] items.
    pub(crate) async fn open() -> sqlx::Result<Self> {
        let options: SqliteConnectOptions = "sqlite::memory:".parse()?;
        // A thread's name has 15 bytes.
        let options = options.thread_name(|number| format!("sqlite-{number}"));
        // The database goes with its last connection.
        let pool = SqlitePoolOptions::new().min_connections(1).max_connections(3);
        let pool = pool.idle_timeout(None).max_lifetime(None).connect_with(options).await?;
        sqlx::query(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, cents INTEGER)",
        )
        .execute(&pool)
        .await?;
        sqlx::query("CREATE TABLE bought (item INTEGER NOT NULL, customer INTEGER NOT NULL)")
            .execute(&pool)
            .await?;
        let mut filling = pool.begin().await?;
        for id in 0..ITEMS {
            sqlx::query("INSERT INTO item VALUES (?, ?, ?)")
                .bind(id)
                .bind(format!("item {id}"))
                .bind(100 + 13 * id)
                .execute(&mut *filling)
                .await?;
        }
        filling.commit().await?;
        Ok(Self(pool))
    }

    /// An item, by its number.
    #[instrument(level = "debug", skip(self), err(level = "debug"))]
    pub(crate) async fn item(&self, id: i64) -> Result<Item, Failure> {
        let select = sqlx::query_as("SELECT name, cents FROM item WHERE id = ?").bind(id);
        let (name, cents) = select.fetch_optional(&self.0).await?.ok_or(Failure::NoItem(id))?;
        Ok(Item { name, cents })
    }

    /// Notes that a customer has bought an item. Returns how many that customer has bought so far.
    #[instrument(skip(self), ret)]
    pub(crate) async fn buy(&self, item: i64, customer: i64) -> Result<i64, Failure> {
        let mut buying = self.0.begin().await?;
        sqlx::query("INSERT INTO bought VALUES (?, ?)")
            .bind(item)
            .bind(customer)
            .execute(&mut *buying)
            .await?;
        let count = sqlx::query_scalar("SELECT count(*) FROM bought WHERE customer = ?");
        let count = count.bind(customer).fetch_one(&mut *buying).await?;
        buying.commit().await?;
        Ok(count)
    }

    /// Closes all connections.
    pub(crate) async fn close(self) {
        self.0.close().await;
    }
}
