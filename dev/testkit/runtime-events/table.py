"""Makes the table of the .NET runtime's events: crates/nettrace-reader/src/runtime/events.txt.

Usage: table.py MANIFEST ... >crates/nettrace-reader/src/runtime/events.txt

The table has the names and fields of the events that the runtime does not describe in its traces:
a line for each event and version, sorted by its bytes, so that a reader can search it as it is:

    Microsoft-Windows-DotNETRuntime 00002 001 GC/Stop Count:u32 Depth:u32 ClrInstanceID:u16

A field is `name:type`, `name[count]:type`, `name[count]{fields}` or `name[count]:aligned{fields}`,
whose structures have the padding of C. A count is a number, or the name of an earlier field of the
same structure.

A MANIFEST is an instrumentation manifest of Windows (XML). If two describe the same version of an
event, the first one counts, and a line tells if they differ. Names are those of names.tsv, else the
event's symbol without its version. The table was made from these, in this order:

    ClrEtwAll-excerpt.man    a part of the runtime's own manifest
    sample-profiler.man      the sampler, which has no manifest
    NativeRuntimeEventSource.man, TplEventSource.man
                             what EventSource.GenerateManifest of .NET 10.0.12 returns (MIT)

`reference.py manifests FOLDER` writes the last two, and `reference.py names` prints names.tsv: the
names that TraceEvent 4.0.0 (MIT) shows. For a newer runtime, add src/coreclr/vm/ClrEtwAll.man of
https://github.com/dotnet/runtime after the first two.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

HEAD = """\
# Events of the .NET runtime. Written by `dev/testkit/runtime-events/table.py`; do not edit.
# The lines are sorted: provider, event id, version, name, fields.
"""

# The types of manifests, without `win:`, and their names in the table.
TYPES = {
    "Int8": "i8", "UInt8": "u8", "Int16": "i16", "UInt16": "u16", "Int32": "i32", "UInt32": "u32",
    "HexInt32": "u32", "Int64": "i64", "UInt64": "u64", "HexInt64": "u64", "Float": "f32",
    "Double": "f64", "Boolean": "bool", "Pointer": "ptr", "GUID": "guid", "FILETIME": "filetime",
    "UnicodeString": "utf16", "AnsiString": "utf8",
}
# The types of the elements of texts and bytes whose length a field states.
COUNTED = {"UnicodeString": "char16", "AnsiString": "char8", "Binary": "u8"}


def local(node):
    """The name of an element without its namespace."""
    return node.tag.rpartition("}")[2]


def named(node, name):
    return [inner for inner in node.iter() if local(inner) == name]


def word(name):
    """A name, if it cannot be taken for anything else in a line."""
    assert re.fullmatch(r"[^\s:\[\]{}]+", name) and name.isascii(), f"{name!r} does not fit"
    return name


def fields(template):
    """The fields of a template or structure, as the table has them."""
    words, earlier = [], set()
    for node in template:
        if local(node) not in ("data", "struct"):
            continue
        name, count, ends = word(node.get("name")), node.get("count", "1"), []
        if local(node) == "struct":
            kind = ":aligned{" if node.get("aligned") == "true" else "{"
            ends = fields(node) + ["}"]
        else:
            types, length = TYPES, node.get("length", "1")
            if length != "1":
                assert count == "1", f"{name} has both a length and a count"
                types, count = COUNTED, length
            kind = ":" + types[node.get("inType").removeprefix("win:")]
        known = count.isdecimal() or count in earlier
        assert known, f"the count {count} of {name} is no earlier field"
        earlier.add(name)
        words += [name + ("" if count == "1" else f"[{count}]") + kind] + ends
    return words


def read(path, events):
    """Adds the events of a manifest: a symbol and fields by provider, id and version."""
    for provider in named(ElementTree.parse(path).getroot(), "provider"):
        templates = {node.get("tid"): fields(node) for node in named(provider, "template")}
        templates[None] = []
        for event in named(provider, "event"):
            number = int(event.get("value"), 0)
            key = provider.get("name"), number, int(event.get("version", "0"))
            new = event.get("symbol", ""), templates[event.get("template")]
            if events.setdefault(key, new)[1] != new[1]:
                print(*key, f"the one of {path} is not taken", file=sys.stderr)


def table(events, names):
    kept = []
    for key, (symbol, fields) in sorted(events.items()):
        # A version whose fields begin those of the next one is left out. A reader takes the next
        # one, and finds the payload at its end before the further fields.
        if kept and kept[-1][0][:2] == key[:2] and fields[: len(kept[-1][2])] == kept[-1][2]:
            kept.pop()
        name = names.get(key[:2]) or re.sub(r"_V\d+$", "", symbol)
        kept.append((key, name, fields))
    lines = [
        " ".join([f"{word(provider)} {id:05} {version:03} {word(name)}"] + fields) + "\n"
        for (provider, id, version), name, fields in kept
    ]
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    events = {}
    for path in sys.argv[1:]:
        read(path, events)
    with open(os.path.join(os.path.dirname(__file__), "names.tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    sys.stdout.write(table(events, {(provider, int(id)): name for provider, id, name in rows}))
