"""Reads a trace as JSON lines and as CSV, with Python's readers of these formats.

Fails unless both have the same events, and each hostile name and text where it was put."""

import csv
import json
import os
import sys

folder = sys.argv[1]
with open(os.path.join(folder, "expected"), encoding="utf-8") as file:
    expected = json.load(file)
# A line ends with a line feed alone, whatever else Unicode takes for the end of a line.
with open(os.path.join(folder, "jsonl"), encoding="utf-8", newline="\n") as file:
    lines = [json.loads(line) for line in file]
csv.field_size_limit(1 << 24)
with open(os.path.join(folder, "csv"), encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, strict=True))
assert len(lines) == len(rows), (len(lines), len(rows))
cells = dict(zip(expected["names"], expected["cells"]))
for line, row in zip(lines, rows):
    assert None not in row and None not in row.values(), row
    for column in ("provider", "name"):
        cell = cells.get(line[column], line[column])
        assert cell == row[column], (column, cell, row[column])
    assert line["fields"] == json.loads(row["fields"]), row
for name in expected["names"]:
    own = [line for line in lines if line["provider"] == name]
    # A span and three events.
    assert len(own) == 4, (name, len(own))
    assert all(line["name"] == name for line in own), name
    found = {text for line in own for text in line["fields"].values() if isinstance(text, str)}
    # A text in a payload ends with NUL.
    assert name.split("\0")[0] in found, name
    assert any(name in line["fields"] for line in own), name
    assert expected["text"] in found, name
print(f"{len(lines)} events")
