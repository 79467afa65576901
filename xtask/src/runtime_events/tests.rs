use testkit::{reference::dotnet_traces, runtime_events};

use super::*;

/// A manifest with every construct that the program reads, beside what it does not read.
const MANIFEST: &str = r##"<?xml version="1.0" encoding="utf-8"?>
<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation xmlns:win="http://manifests.microsoft.com/win/2004/08/windows/events">
  <events>
   <!-- A comment with <event value="9"/> in it. -->
   <provider name="Shop" guid="{00000000-0000-0000-0000-000000000001}">
    <keywords><keyword name="Sales" mask="0x1"/></keywords>
    <tasks><task name="Sale" value="1"><opcodes><opcode name="X" value="11"/></opcodes>
    </task></tasks>
    <maps>
     <valueMap name="Kind"><map value="0" message="$(string.kind)"/></valueMap>
     <bitMap name="Flags"><map value="0x1" message="$(string.flag)"/></bitMap>
    </maps>
    <templates>
     <template tid="all">
      <data name="a" inType="win:Int8"/><data name="b" inType="win:UInt8" map="Kind"/>
      <data name="c" inType="win:Int16"/><data name="d" inType="win:UInt16"/>
      <data name="e" inType="win:Int32"/><data name="f" inType="win:UInt32" map="Flags"/>
      <data name="g" inType="win:HexInt32"/><data name="h" inType="win:Int64"/>
      <data name="i" inType="win:UInt64" outType="win:HexInt64"/>
      <data name="j" inType="win:HexInt64"/><data name="k" inType="win:Float"/>
      <data name="l" inType="win:Double"/><data name="m" inType="win:Boolean"/>
      <data name="n" inType="win:Pointer"/><data name="o" inType="win:GUID"/>
      <data name="p" inType="win:FILETIME"/><data name="q" inType="win:UnicodeString"/>
      <data name="r" inType="win:AnsiString"/>
      <UserData><all xmlns="myNs"><a> %1 </a></all></UserData>
     </template>
     <template tid="arrays">
      <data name="Count" inType="win:UInt16"/>
      <data name="one" count="1" inType="win:UInt8"/>
      <data name="two" count="2" inType="win:UInt32"/>
      <data name="many" count="Count" inType="win:Pointer"/>
      <data name="bytes" length="Count" inType="win:Binary"/>
      <data name="wide" length="Count" inType="win:UnicodeString"/>
      <data name="narrow" length="8" inType="win:AnsiString"/>
      <struct name="Values" count="Count">
       <data name="Inner" inType="win:UInt32"/>
       <struct name="Deep" count="Inner" aligned="true"><data name="x" inType="win:UInt8"/></struct>
      </struct>
     </template>
     <template tid="v0"><data name="a" inType="win:UInt32"/></template>
     <template tid="v1">
      <data name="a" inType="win:UInt32"/><data name="b" inType="win:UInt32"/>
     </template>
     <template tid="v2"><data name="b" inType="win:UInt32"/></template>
    </templates>
    <events>
     <event value="0x2" version="1" level="win:Informational" template="v1" symbol="Sale_V1"/>
     <event value="2" version="0" template="v0" symbol="Sale"/>
     <event value="2" version="2" template="v2" symbol="Sale_V2" message="$(string.sale)"/>
     <event value="1" template="all" symbol="All" opcode="win:Start" task="Sale" keywords="Sales"/>
     <event value="10" version="0" template="arrays" symbol="Arrays"/>
     <event value="65535" version="255" symbol="Empty_V255"/>
    </events>
   </provider>
   <provider name="Other"><events><event value="0" symbol="Named_Very"/></events></provider>
  </events>
 </instrumentation>
 <localization><resources culture="en-US"><stringTable><string id="sale" value="A sale"/>
 </stringTable></resources></localization>
</instrumentationManifest>"##;

fn made(manifests: &[&str], names: &str) -> std::result::Result<Made, String> {
    let manifests: Vec<_> = manifests.iter().map(|text| ("a.man", (*text).to_owned())).collect();
    make(&manifests, names)
}

#[test]
fn every_construct() {
    let made = made(&[MANIFEST], "Shop\t2\tSale/Done\n").unwrap();
    let lines: Vec<_> = made.table.lines().filter(|line| !line.starts_with('#')).collect();
    let all = "Shop 00001 000 All a:i8 b:u8 c:i16 d:u16 e:i32 f:u32 g:u32 h:i64 i:u64 j:u64 k:f32 \
               l:f64 m:bool n:ptr o:guid p:filetime q:utf16 r:utf8";
    let arrays = "Shop 00010 000 Arrays Count:u16 one:u8 two[2]:u32 many[Count]:ptr \
                  bytes[Count]:u8 wide[Count]:char16 narrow[8]:char8 \
                  Values[Count]{ Inner:u32 Deep[Inner]:aligned{ x:u8 } }";
    let expected = [
        "Other 00000 000 Named_Very",
        all,
        // Version 0 has the first fields of version 1.
        "Shop 00002 001 Sale/Done a:u32 b:u32",
        "Shop 00002 002 Sale/Done b:u32",
        arrays,
        "Shop 65535 255 Empty",
    ];
    assert_eq!(lines, expected);
    assert_eq!(made.events, lines.len());
    assert!(made.notes.is_empty());
    // A reader searches the lines as they are.
    let all: Vec<_> = made.table.lines().collect();
    assert!(all.is_sorted(), "{all:?}");
}

#[test]
fn the_first_manifest_counts() {
    let other = r#"<m><provider name="Shop"><template tid="t"><data name="z" inType="win:Int8"/>
        </template><event value="2" version="2" template="t"/><event value="3" symbol="New"/>
        <event value="65535" version="255"/></provider></m>"#;
    let table = |made: &Made| made.table.clone();
    let (first, second) = (made(&[MANIFEST], "").unwrap(), made(&[MANIFEST, other], "").unwrap());
    assert_eq!(second.notes, ["Shop 2 2: the one of a.man is not taken"]);
    assert_eq!(table(&second).replace("Shop 00003 000 New\n", ""), table(&first));
    assert!(table(&second).contains("Shop 00003 000 New\n"));
}

#[test]
fn mistakes_are_named() {
    let provider = |inner: &str| format!(r#"<m><provider name="P">{inner}</provider></m>"#);
    let of_data = |data: &str| {
        provider(&format!(r#"<template tid="t">{data}</template><event value="1" template="t"/>"#))
    };
    for (text, expected) in [
        ("no".to_owned(), "it is not XML"),
        ("<m/>".to_owned(), "no event"),
        ("<m><provider/></m>".to_owned(), "<provider> has no attribute name"),
        (provider("<event/>"), "<event> has no attribute value"),
        (provider(r#"<event value="65536"/>"#), "no 16-bit number"),
        (provider(r#"<event value="1" version="256"/>"#), "version 256"),
        (provider(r#"<event value="1" template="x"/>"#), "there is no template x"),
        (provider(r#"<event value="1"/>"#), "the name \"\" does not fit"),
        (of_data("<data/>"), "<data> has no attribute name"),
        (of_data(r#"<data name="a" inType="win:SID"/>"#), "a has the unknown type win:SID"),
        (of_data(r#"<data name="a" inType="win:Binary"/>"#), "the unknown type win:Binary"),
        (
            of_data(r#"<data name="a" inType="win:Binary" length="2" count="2"/>"#),
            "both a length and a count",
        ),
        (
            of_data(r#"<data name="a" inType="win:Int8" count="b"/>"#),
            "event 1 of P: the count b of a is no earlier field",
        ),
        (of_data(r#"<data name="a b" inType="win:Int8"/>"#), "\"a b\" does not fit"),
    ] {
        let names = if text.contains("data") { "P\t1\tName" } else { "" };
        let error = made(&[&text], names).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert!(made(&[MANIFEST], "Shop 1").is_err());
}

/// The parts of the table that need no runtime are those of the manifests beside this program.
#[test]
fn the_table_has_what_the_manifests_here_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let manifests = ["ClrEtwAll-excerpt.man", "sample-profiler.man"]
        .map(|name| (name, read(&format!("xtask/runtime-events/{name}"))));
    let made = make(&manifests, &read(NAMES)).unwrap();
    let table = read(TABLE);
    let checked_in: Vec<_> = table.lines().collect();
    assert!(checked_in.is_sorted());
    for line in made.table.lines() {
        assert!(checked_in.contains(&line), "{line}\nis not in the table; make it again");
    }
}

/// The whole table is what the program makes of the manifests that the help names.
#[test]
fn the_table_is_what_the_manifests_say() {
    let Some(trace) = dotnet_traces().pop() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = runtime_events::manifests(&trace, folder.path()) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let own = root.join("xtask/runtime-events");
    let paths = [
        own.join("ClrEtwAll-excerpt.man"),
        own.join("sample-profiler.man"),
        folder.path().join("NativeRuntimeEventSource.man"),
        folder.path().join("TplEventSource.man"),
    ];
    let texts: Vec<_> = paths.iter().map(|path| ("", fs::read_to_string(path).unwrap())).collect();
    let names = fs::read_to_string(root.join(NAMES)).unwrap();
    assert_eq!(runtime_events::names(&trace).unwrap(), names);
    let made = make(&texts, &names).unwrap();
    assert_eq!(made.table, fs::read_to_string(root.join(TABLE)).unwrap());
}
