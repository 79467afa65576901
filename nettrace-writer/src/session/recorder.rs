//! A flight recorder: a session that keeps the last events in memory, and writes them when asked.

use std::{sync::Arc, time::SystemTime};

use nettrace_format::Transcoder;

use crate::{
    protocol::clock::Stopwatch,
    session::flush,
    shared::{Shared, error::Error, locks},
    sink::{
        Sink,
        ring::{Dump, Past, Ring},
        staged::StagedSink,
    },
};

/// A session that keeps the last events, as seen by those who make dumps.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) ring: Arc<Ring>,
    pub(crate) shared: Arc<Shared>,
}

impl Recorder {
    /// Writes what is kept. `asked` is when somebody asked for it.
    pub(crate) fn dump(
        &self,
        past: Past,
        sink: &mut dyn Sink,
        key_values: &[(&str, &str)],
        asked: SystemTime,
    ) -> Result<Dump, Error> {
        let since = Stopwatch::start();
        flush(&self.shared)?;
        let past = match past {
            // Counted from when it was asked for.
            Past::Last(time) => Past::Last(time.saturating_add(since.elapsed())),
            past => past,
        };
        let snapshot = locks::holding_locks(|| self.ring.snapshot(past));
        let snapshot = snapshot.ok_or(Error::InSignalHandler)?.map_err(Error::Sink)?;
        let Some(stage) = Transcoder::stage(self.shared.format) else {
            return snapshot.write(sink, key_values, asked).map_err(Error::Sink);
        };
        let types = self.shared.known_types();
        let types = types.into_iter().map(|it| (it.ty.index().into(), it.schema)).collect();
        let mut staged = StagedSink::new(sink, stage, types);
        let mut dump = snapshot.write(&mut staged, key_values, asked).map_err(Error::Sink)?;
        dump.events -= staged.refused;
        (dump.bytes, dump.not_in_format) = (staged.bytes, staged.left_out());
        Ok(dump)
    }
}
