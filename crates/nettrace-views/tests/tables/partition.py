"""Asks DuckDB and DataFusion about partitioned tables, and about the same tables without
partitions. Fails unless all answers are the same. Prints a line for each query and engine."""

import os
import sys

import datafusion
import duckdb

folder, *hosts = sys.argv[1:]
lake = os.path.join(folder, "lake")
TABLES = {"events": "events", "spans": "spans", "orders": "types/Partition.Test.Order"}

QUERIES = {
    "rows by host and day": "select host, cast(day as varchar), count(*) from events "
    "group by 1, 2",
    "events by provider and name": "select host, provider, name, count(*) from events "
    "group by 1, 2, 3",
    "spans": "select host, cast(day as varchar), name, count(*), max(duration_ns), "
    "sum(duration_ns), count(span_id) from spans group by 1, 2, 3",
    "a join within a recording": "select e.host, count(*), sum(o.number), min(e.span_id) "
    "from events e join orders o on e.host = o.host and e.recording = o.recording "
    "and e.event = o.event group by 1",
    "spans with the events that began them": "select s.host, count(*), min(e.name) "
    "from spans s join events e on e.host = s.host and e.recording = s.recording "
    "and e.event = s.start_event and e.time_ns = s.start_ns group by 1",
}

# Without partitions: the folders of all hosts, with the columns that the names of folders are.
plain = duckdb.connect()
for table, place in TABLES.items():
    time = "start" if table == "spans" else "time"
    # The name of a folder, as a field.
    star = "* exclude (host)" if table == "orders" else "*"
    parts = [
        f"select {star}, strftime(date_trunc('day', {time} at time zone 'UTC'), '%Y-%m-%d') as day, "
        f"'{host}' as host, '{host}' as recording "
        f"from read_parquet('{folder}/{host}/{place}.parquet')"
        for host in hosts
    ]
    plain.sql(f"create view {table} as {' union all '.join(parts)}")

duck = duckdb.connect()
fusion = datafusion.SessionContext()
for table, place in TABLES.items():
    duck.sql(
        f"create view {table} as "
        f"select * from read_parquet('{lake}/{place}/**/*.parquet', hive_partitioning = true)"
    )
    fusion.sql(
        f"create external table {table} stored as parquet "
        f"partitioned by (day, host, recording) location '{lake}/{place}/'"
    )

for name, query in QUERIES.items():
    expected = sorted(map(repr, plain.sql(query).fetchall()))
    assert expected, name
    found = {
        "DuckDB": duck.sql(query).fetchall(),
        "DataFusion": [tuple(row.values()) for row in fusion.sql(query).to_pylist()],
    }
    for engine, rows in found.items():
        rows = sorted(map(repr, rows))
        assert rows == expected, (name, engine, rows, expected)
        print(f"same\t{name}\t{engine}")
