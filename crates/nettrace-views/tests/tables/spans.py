"""Asks DuckDB and DataFusion for fields of spans, which are in one column for all types."""

import sys

import datafusion
import duckdb

path = f"{sys.argv[1]}/spans.parquet"
query = """
    select fields['route'] as route, cast(fields['id'] as bigint) as id,
        cast(fields['status'] as bigint) as status
    from spans where duration_ns > 25000 and fields['status'] is not null
        and fields['route'] is not null
"""
fusion = datafusion.SessionContext()
fusion.register_parquet("spans", path)
print(*duckdb.sql(query.replace("from spans", f"from '{path}'")).fetchall()[0])
print(*fusion.sql(query).to_pylist()[0].values())
