//! A trace whose names and values contain everything that formats have rules for.

use std::collections::HashMap;

use super::{EventType, Row, Stream, string, utf16z, varuint};

/// Hostile names.
pub fn names() -> Vec<String> {
    vec![
        "\"quotes\" 'and' \\ \r\n\t</script><!-- ]]> &amp; ;|`$(x) {}[]%n#2".to_owned(),
        "a\u{1}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202E}\u{FEFF}\u{FFFE}\u{FFFF}\u{10FFFF}é\
         \u{9b}2J\u{61c}\u{200f}\u{2066}\u{200d}\u{ad}\u{e0041}"
            .to_owned(),
        "=cmd|' /C calc'!A0\u{2029}".to_owned(),
        "-1+\u{1b}]0;title\u{7}".to_owned(),
        "@SUM(1)\u{200b}".to_owned(),
        "before\0behind".to_owned(),
        "long ".repeat(1_800),
    ]
}

/// Each name as that of a provider, a span, an event, a field, a thread, a function, a file, a
/// counter and a unit; values with all of them.
pub fn trace() -> Vec<u8> {
    let names = names();
    let facts: Vec<_> = names.iter().map(|name| (&**name, &**name)).collect();
    let mut stream =
        Stream::with_keys(&[&facts[..], &[("ProcessId", "18446744073709551615")]].concat());
    let mut rows = Vec::new();
    let mut row = |thread: u64, at: u64, ty: u32, payload: &[u8]| {
        rows.push(Row::new(thread, 0, at).metadata(ty).payload(payload));
        rows.len() - 1
    };
    let mut labelled = Vec::new();
    for (number, name) in (0_u32..).zip(&names) {
        let thread = u64::MAX - u64::from(number);
        let mut of_thread = Vec::new();
        varuint(&mut of_thread, thread);
        of_thread.push(1);
        string(&mut of_thread, name);
        for kind in [2, 3] {
            of_thread.push(kind);
            varuint(&mut of_thread, thread);
        }
        of_thread.push(4);
        string(&mut of_thread, name);
        string(&mut of_thread, name);
        stream.thread_row(&of_thread);
        let (first, id) = (u64::from(number) * 4 + 1, u64::from(u32::MAX - number));
        let span = EventType::new(first, name, id, name);
        let span = span.optional_text(6, &["nettrace.span", "single"]);
        let span = span.optional_text(6, &[name, name]).optional_text(5, &[name]);
        let template = format!("{name} {{outcome}} {{{name}}}");
        let span = span.optional_text(4, &[&template]);
        let span = span.field("started", &[11]).field("duration", &[12]).field("outcome", &[18]);
        stream.metadata(&span);
        // The name itself as the name of a field, twice.
        let event = EventType::new(first + 1, name, id, name).field(name, &[18]).field(name, &[14]);
        let event = event.optional_text(4, &[&template]).optional_text(5, &[name]);
        stream.metadata(&event);
        let counter =
            EventType::new(first + 2, "System.Diagnostics.Metrics", 1, "GaugeValuePublished");
        let counter = ["meterName", "instrumentName", "unit", "tags", "lastValue"]
            .into_iter()
            .fold(counter, |ty, field| ty.field(field, &[18]));
        stream.metadata(&counter);
        let at = 10_000 * (u64::from(number) + 1);
        let stop = [&[0; 8][..], &5_000_u64.to_le_bytes(), &utf16z(name)].concat();
        labelled.push(row(thread, at + 5_000, first as u32, &stop));
        // Text of 64 KiB, and a surrogate alone.
        let surrogate = [0xD800_u16.to_le_bytes(), [0; 2]].concat();
        let text = [&utf16z(name)[..], &f64::NAN.to_bits().to_le_bytes()].concat();
        row(thread, at + 6_000, first as u32 + 1, &text);
        row(thread, at + 7_000, first as u32 + 1, &[&surrogate[..], &[0xFF; 8]].concat());
        let long = [&utf16z(&long_text())[..], &[0; 8]].concat();
        row(thread, at + 8_000, first as u32 + 1, &long);
        let texts = [name, name, name, name, "1.5"].map(utf16z).concat();
        row(thread, at + 9_000, first as u32 + 2, &texts);
    }
    let (sample, mapping, symbol) = (100, 101, 102);
    stream.metadata(&EventType::new(sample.into(), "Universal.Events", 1, "cpu"));
    stream.metadata(&EventType::new(mapping.into(), "Universal.System", 3, "ProcessMapping"));
    stream.metadata(&EventType::new(symbol.into(), "Universal.System", 4, "ProcessSymbol"));
    let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let mut samples = Vec::new();
    for (number, name) in (0_u64..).zip(&names) {
        let numbers = |numbers: &[u64]| {
            let mut out = Vec::new();
            numbers.iter().for_each(|number| varuint(&mut out, *number));
            out
        };
        let (thread, start) = (u64::MAX - number, (number + 1) << 20);
        let file = [numbers(&[number, start, start + 0x1000, 0]), text(name), vec![0]].concat();
        row(thread, 90_000, mapping, &file);
        let function = [numbers(&[number, number, start, start + 0xFF]), text(name)].concat();
        row(thread, 90_001, symbol, &function);
        samples.push((row(thread, 91_000, sample, &[]), vec![start + 1, u64::MAX, 0]));
    }
    let stacks: Vec<&[u64]> = samples.iter().map(|(_, stack)| &**stack).collect();
    stream.stacks(u32::MAX - 8, &stacks);
    for (number, (place, _)) in (0..).zip(&samples) {
        rows[*place].stack = u32::MAX - 8 + number;
    }
    let ids: Vec<_> = (0..names.len() as u64)
        .map(|number| {
            let span = [&[4][..], &(u64::MAX - number).to_le_bytes()].concat();
            let trace = [&[3][..], &[0xFF; 16]].concat();
            let mut text = vec![5];
            string(&mut text, &names[number as usize]);
            string(&mut text, &names[number as usize]);
            vec![trace, span, text]
        })
        .collect();
    let ids: Vec<&[Vec<u8>]> = ids.iter().map(|list| &**list).collect();
    stream.label_lists(1, &ids);
    for (number, place) in (1..).zip(&labelled) {
        rows[*place].labels = number;
    }
    let mut sequence = HashMap::new();
    for row in &mut rows {
        let last = sequence.entry(row.thread).or_insert(0);
        *last += 1;
        row.sequence = *last;
    }
    stream.events(&rows).end()
}

/// More than 64 KiB in any encoding.
pub fn long_text() -> String {
    "é".repeat(70_000)
}
