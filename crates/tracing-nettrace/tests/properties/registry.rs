//! The notes of a layer of `tracing-subscriber`'s registry, to see that the reference is one.

use std::sync::{Arc, Mutex};

use tracing::{
    Event, Id, Subscriber,
    span::{Attributes, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

use crate::model::{Note, Notes, Values, number, thread_name, values};

/// What has happened, in the registry's words.
#[derive(Clone, Default)]
pub(crate) struct Noting(pub(crate) Arc<Mutex<Notes>>);

/// What the layer keeps of a span.
struct Kept {
    number: u64,
    recorded: Values,
}

impl Noting {
    fn note(&self, note: Note) {
        self.0.lock().unwrap().entry(thread_name()).or_default().push(note);
    }
}

fn number_of<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> u64 {
    span.extensions().get::<Kept>().unwrap().number
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Noting {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let values = values(|visitor| attributes.record(visitor));
        let number = number(&values);
        span.extensions_mut().insert(Kept { number, recorded: Values::new() });
        let parent = span.parent().map(|parent| number_of(&parent));
        self.note(Note::Start { span: number, parent, name: span.name(), values });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let values = values(|visitor| record.record(visitor));
        let span = context.span(id).unwrap();
        span.extensions_mut().get_mut::<Kept>().unwrap().recorded.extend(values);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let span = context.event_span(event).map(|span| number_of(&span));
        self.note(Note::Event { span, values: values(|visitor| event.record(visitor)) });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let kept = span.extensions_mut().remove::<Kept>().unwrap();
        self.note(Note::Stop { span: kept.number, recorded: kept.recorded });
    }
}
