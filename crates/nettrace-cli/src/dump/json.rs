//! One event as a JSON object. Its keys are documented in `docs/json.md`.

use std::io;

use nettrace_views::{
    model::{hex, process_id},
    text::{JsonFields, JsonLabels, Message},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    dump::{Extra, ShownEvent, processor},
    spelling::{self, to_json},
};

pub(super) fn write(shown: &ShownEvent<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    to_json(&mut *out, shown)?;
    out.push(b'\n');
    Ok(())
}

impl Serialize for ShownEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { event, ty, payload, time, .. } = self;
        let (metadata, header, thread) = (event.metadata(), event.header, event.thread());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &time.time)?;
        map.serialize_entry("since_start_ns", &time.since_start)?;
        map.serialize_entry("ticks", &header.timestamp)?;
        map.serialize_entry("provider", &metadata.provider)?;
        map.serialize_entry("name", &spelling::event_name(metadata))?;
        map.serialize_entry("id", &metadata.event_id)?;
        if let Some(place) = self.place {
            map.serialize_entry("place", place)?;
        }
        map.serialize_entry("version", &event.version())?;
        map.serialize_entry("level", &spelling::level(event.level()))?;
        map.serialize_entry("keywords", &event.keywords())?;
        map.serialize_entry("opcode", &event.opcode())?;
        map.serialize_entry("process", &process_id(event))?;
        if let Some(name) = self.process_name() {
            map.serialize_entry("process_name", &name)?;
        }
        map.serialize_entry("thread", &thread.os_thread_id)?;
        map.serialize_entry("thread_index", &thread.index)?;
        if let Some(name) = &thread.name {
            map.serialize_entry("thread_name", name)?;
        }
        map.serialize_entry("cpu", &processor(event))?;
        map.serialize_entry("payload_bytes", &event.payload.len())?;
        for extra in self.extras {
            self.extra(*extra, &mut map)?;
        }
        if let Some(template) = &ty.message {
            map.serialize_entry("message", &Message { template, payload })?;
        }
        let labels = if self.has_labels { event.labels() } else { Default::default() };
        if !labels.is_empty() {
            map.serialize_entry("labels", &JsonLabels(&labels))?;
        }
        map.serialize_entry("fields", &JsonFields(payload))?;
        if let Some(error) = &payload.error {
            map.serialize_entry("fields_error", &error.to_string())?;
        }
        map.end()
    }
}

impl ShownEvent<'_> {
    fn extra<M: SerializeMap>(&self, extra: Extra, map: &mut M) -> Result<(), M::Error> {
        let event = self.event;
        match extra {
            // The labels have them.
            Extra::Ids => Ok(()),
            Extra::CaptureThread => {
                let thread = &event.capture_thread().thread;
                map.serialize_entry("capture_thread", &thread.os_thread_id)?;
                map.serialize_entry("capture_thread_index", &thread.index)
            }
            Extra::Number => map.serialize_entry("number", &event.header.sequence_number),
            Extra::Sorted => map.serialize_entry("is_sorted", &event.header.is_sorted),
            Extra::Stack => {
                let frames = self.frames().map(Iterator::collect::<Vec<_>>);
                map.serialize_entry("stack", &frames)
            }
            Extra::Description => map.serialize_entry("description", &event.metadata().description),
            Extra::Payload => map.serialize_entry("payload", &hex(event.payload)),
        }
    }
}
