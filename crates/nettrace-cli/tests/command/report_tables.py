"""Prints the numbers of a report as DuckDB computes them from the tables of the same trace."""

import sys

import duckdb

folder = sys.argv[1]
for provider, count in duckdb.sql(
    f"select provider, count(*) from '{folder}/events.parquet' group by 1"
).fetchall():
    print(f"events\t{provider}\t{count}")
for row in duckdb.sql(
    "select provider, name, count(duration_ns), count(*) - count(duration_ns), "
    + ", ".join(f"quantile_disc(duration_ns, {q})" for q in (0.5, 0.9, 0.99))
    + f", max(duration_ns), sum(duration_ns) from '{folder}/spans.parquet' group by 1, 2"
).fetchall():
    print("span", *row, sep="\t")
