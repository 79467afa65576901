//! The events in a file of `perf`, through the decoder that the format's authors publish.

use std::io::{self, Write};

use tracepoint_decode::{
    EventHeaderEnumeratorContext, PerfConvertOptions, PerfEventHeaderType, PerfSampleEventInfo,
};
use tracepoint_perf::{PerfDataFileEventOrder, PerfDataFileReader};

/// Prints each event as a line: its name, its fields, and what `perf` and the event's header say of
/// it. What is no EventHeader event, and records of losses, are counted on standard error.
pub(super) fn print(file: &str, out: &mut impl Write) -> io::Result<()> {
    let mut reader = PerfDataFileReader::new();
    reader.open_file(file, PerfDataFileEventOrder::Time)?;
    let mut context = EventHeaderEnumeratorContext::new();
    let (mut others, mut losses) = (0_u64, 0_u64);
    while reader.move_next_event()? {
        let event = reader.current_event();
        match event.header.ty {
            PerfEventHeaderType::Sample => {
                let info = reader.get_sample_event_info(&event);
                let info = info.map_err(|error| io::Error::other(format!("{error:?}")))?;
                match line(&mut context, &info) {
                    Some(line) => writeln!(out, "{line}")?,
                    None => others += 1,
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
    if losses > 0 {
        eprintln!("perf could not keep up {losses} times: events are missing");
    }
    Ok(())
}

/// `None`: this is no EventHeader event.
fn line(
    context: &mut EventHeaderEnumeratorContext,
    info: &PerfSampleEventInfo<'_>,
) -> Option<String> {
    let mut enumerator = context.enumerate(info).ok()?;
    let described = enumerator.event_info();
    let mut line = format!("{{\"event\":\"{}\",\"fields\":{{", described.json_identity_display());
    let options = PerfConvertOptions::Default.and_not(PerfConvertOptions::Space);
    enumerator.write_json_item_and_move_next_sibling(&mut line, false, options).ok()?;
    let mut meta = String::new();
    let mut display = described.json_meta_display(Some(info));
    display.convert_options(options);
    display.write_to(&mut meta).ok()?;
    line.push_str(&format!("}},\"meta\":{{{meta}}}}}"));
    Some(line)
}
