//! Prints the events in a file of `perf`, using the decoder that the format's authors publish.

use std::{
    fmt,
    io::{self, Write},
};

use tracepoint_decode::{
    EventHeaderEnumerator, EventHeaderEnumeratorContext, EventHeaderEnumeratorError,
    EventHeaderEnumeratorState, PerfConvertOptions, PerfEventHeaderType, PerfSampleEventInfo,
};
use tracepoint_perf::{PerfDataFileEventOrder, PerfDataFileReader};

/// Prints each event as a line: its name, its fields, and the details of `perf` and of the event's
/// header. Counts on standard error: damaged events, events that are not EventHeader events, and
/// records of losses.
pub(super) fn print(file: &str, out: &mut impl Write) -> io::Result<()> {
    let mut reader = PerfDataFileReader::new();
    reader.open_file(file, PerfDataFileEventOrder::Time).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            let text = "this is no file that `perf record` wrote, or its head is damaged";
            io::Error::new(io::ErrorKind::InvalidData, text)
        }
        _ => error,
    })?;
    let mut context = EventHeaderEnumeratorContext::new();
    let (mut others, mut damaged, mut losses) = (0_u64, 0_u64, 0_u64);
    while reader.move_next_event()? {
        let event = reader.current_event();
        match event.header.ty {
            PerfEventHeaderType::Sample => {
                let info = reader.get_sample_event_info(&event);
                let info = info.map_err(|error| io::Error::other(format!("{error:?}")))?;
                match line(&mut context, &info) {
                    Ok(line) => writeln!(out, "{}", Printable(&line))?,
                    Err(EventHeaderEnumeratorError::NotEventHeader) => others += 1,
                    Err(_) => damaged += 1,
                }
            }
            PerfEventHeaderType::Lost | PerfEventHeaderType::LostSamples => losses += 1,
            _ => {}
        }
    }
    out.flush()?;
    if others > 0 {
        eprintln!("{others} events of other kinds were left out");
    }
    if damaged > 0 {
        eprintln!("{damaged} events are damaged and were left out");
    }
    if losses > 0 {
        eprintln!("perf could not keep up {losses} times: events are missing");
    }
    Ok(())
}

/// The most steps that the decoder may take for one event. A valid event needs about ten thousand
/// at most; a damaged one can claim any number of elements.
const MAX_STEPS: u32 = 1 << 20;

fn line(
    context: &mut EventHeaderEnumeratorContext,
    info: &PerfSampleEventInfo<'_>,
) -> Result<String, EventHeaderEnumeratorError> {
    let mut enumerator = context.enumerate_with_limit(info, MAX_STEPS)?;
    let mut line = name_and_fields(&mut enumerator)?;
    let described = enumerator.event_info();
    let mut display = described.json_meta_display(Some(info));
    display.convert_options(options());
    line.push_str(",\"meta\":{");
    display.write_to(&mut line).expect("a string takes everything");
    line.push_str("}}");
    Ok(line)
}

/// JSON of the decoder, whose texts may be of any process. It escapes the controls of ASCII alone.
/// What else Rust does not print is escaped here: C1 controls and bidirectional ones among them.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| matches!(c, ' '..='~') || c.escape_debug().len() == 1;
        for part in self.0.split_inclusive(|c| !is_plain(c)) {
            let mut chars = part.chars();
            match chars.next_back().filter(|c| !is_plain(*c)) {
                None => f.write_str(part)?,
                Some(c) => {
                    f.write_str(chars.as_str())?;
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(f, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Splits off the start of a JSON object.
fn name_and_fields(
    enumerator: &mut EventHeaderEnumerator<'_, '_, '_>,
) -> Result<String, EventHeaderEnumeratorError> {
    let name = enumerator.event_info().json_identity_display();
    let mut out = format!("{{\"event\":\"{name}\",\"fields\":{{");
    enumerator
        .write_json_item_and_move_next_sibling(&mut out, false, options())
        .expect("a string takes everything");
    out.push('}');
    match enumerator.state() {
        EventHeaderEnumeratorState::AfterLastItem => Ok(out),
        _ => Err(enumerator.last_error()),
    }
}

fn options() -> PerfConvertOptions {
    PerfConvertOptions::Default.and_not(PerfConvertOptions::Space)
}

#[cfg(test)]
mod tests {
    use eventheader_writer::{Context, TraceEvent, TraceField, encoded};

    use super::*;

    #[derive(Clone, TraceField)]
    struct Element {
        value: u8,
    }

    #[derive(TraceEvent)]
    #[trace_event(provider = "Decode-Tests")]
    struct Many {
        elements: Vec<Element>,
        last: u32,
    }

    fn decode(event: &[u8]) -> Result<String, EventHeaderEnumeratorError> {
        let mut context = EventHeaderEnumeratorContext::new();
        let name = "Decode_Tests_L4K0";
        name_and_fields(&mut context.enumerate_with_name_and_data(name, event, MAX_STEPS)?)
    }

    #[test]
    fn lines_of_json_can_be_printed() {
        let text = "{\"a\":\"\\u001b \u{9b}\u{202e}é💡\u{e0041}\u{2028}\u{7f}\"}";
        let line = Printable(text).to_string();
        let shown = r#"{"a":"\u001b \u009b\u202eé💡\udb40\udc41\u2028\u007f"}"#;
        assert_eq!(line, shown);
        let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        assert_eq!(read(&line), read(text));
    }

    #[test]
    fn an_event_of_many_structs_is_shown_whole_and_a_damaged_one_not_at_all() {
        let event = Many { elements: vec![Element { value: 1 }; 8_000], last: 7 };
        let mut event = encoded(&event, &Context::new()).unwrap();
        let line = decode(&event).unwrap() + "}";
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["event"], "Decode_Tests:Many");
        assert_eq!(line["fields"]["elements"].as_array().map(Vec::len), Some(8_000));
        assert_eq!(line["fields"]["last"], 7);
        event.truncate(event.len() - 1);
        assert!(decode(&event).is_err());
    }
}
