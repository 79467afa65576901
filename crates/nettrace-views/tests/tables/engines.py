"""Reads all tables of a result with DuckDB, PyArrow and DataFusion.

Fails unless all three find the same rows. Prints each table and how many rows it has, then the
events of each provider and name, as each engine counts them."""

import os
import sys

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


def plain(table):
    """Values in forms that do not depend on the engine."""
    columns = []
    for column in table.columns:
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        ty = column.type
        if pa.types.is_dictionary(ty):
            column = column.cast(ty.value_type)
        if pa.types.is_timestamp(ty):
            assert ty.unit == "us", ty
            column = column.cast(pa.int64())
        columns.append([repr(value) for value in column.to_pylist()])
    return columns


def tables(folder):
    for where, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = os.path.join(where, name)
            yield os.path.relpath(path, folder).removesuffix(".parquet"), path


folder = sys.argv[1]
duck = duckdb.connect()
for name, path in tables(folder):
    arrow = pq.read_table(path, partitioning=None)
    fusion = datafusion.SessionContext()
    fusion.register_parquet("t", path)
    others = {
        "DuckDB": duck.sql("select * from read_parquet($1)", params=[path]).to_arrow_table(),
        "DataFusion": pa.Table.from_batches(
            fusion.table("t").collect(), schema=fusion.table("t").schema()
        ),
    }
    expected = plain(arrow)
    for engine, table in others.items():
        assert table.num_rows == arrow.num_rows, (name, engine, table.num_rows, arrow.num_rows)
        assert len(table.columns) == len(arrow.columns), (name, engine)
        for field, mine, theirs in zip(arrow.schema, expected, plain(table)):
            for row, (a, b) in enumerate(zip(mine, theirs)):
                assert a == b, (name, engine, field.name, row, a, b)
    print(f"rows\t{name}\t{arrow.num_rows}")

events = os.path.join(folder, "events.parquet")
query = "select provider, name, count(*) as n from t group by provider, name order by 1, 2"
fusion = datafusion.SessionContext()
fusion.register_parquet("t", events)
counts = [
    duck.sql(query.replace(" t ", f" '{events}' ")).fetchall(),
    [tuple(row.values()) for row in fusion.sql(query).to_pylist()],
]
assert counts[0] == counts[1], counts
for provider, name, count in counts[0]:
    # What statistics let an engine pass over is not lost.
    where = {"provider": provider, "name": name}
    filters = [(column, "=", value) for column, value in where.items()]
    duck_query = f"select count(*) from '{events}' where provider = ? and name = ?"
    found = [
        duck.execute(duck_query, [provider, name]).fetchone()[0],
        pq.read_table(events, columns=["event"], filters=filters, partitioning=None).num_rows,
    ]
    assert found == [count] * 2, (provider, name, count, found)
    print(f"count\t{provider}\t{name}\t{count}")
