//! A stage in front of a sink, for a stream of version 6 that is there as a whole: the dump of a
//! flight recorder.
//!
//! A session that writes a stream for as long as it runs has its stage [elsewhere]: there the
//! stage can go back after a failure, and the flusher knows how much room the result has.
//!
//! [elsewhere]: crate::flusher

use std::{
    collections::HashMap,
    io::{self, IoSlice},
};

use nettrace_event::EventSchema;
use nettrace_format::{
    FormatError, LeftOut, Stage,
    v6::{BlockKind, TraceInfo, read},
};

use crate::sink::{Batch, Sink, StreamEnd, WriteError};

/// A sink that gets what a stage makes of version 6.
pub(crate) struct StagedSink<'a> {
    sink: &'a mut dyn Sink,
    stage: Box<dyn Stage>,
    /// The types that the stream may define, by their metadata ids.
    types: HashMap<u64, &'static EventSchema>,
    /// How many bytes the sink has got, and how many events the stage has refused.
    pub(crate) bytes: u64,
    pub(crate) refused: u64,
}

impl<'a> StagedSink<'a> {
    pub(crate) fn new(
        sink: &'a mut dyn Sink,
        stage: Box<dyn Stage>,
        types: HashMap<u64, &'static EventSchema>,
    ) -> Self {
        Self { sink, stage, types, bytes: 0, refused: 0 }
    }

    /// Counts what the result leaves out.
    pub(crate) fn left_out(&self) -> LeftOut {
        self.stage.left_out()
    }

    fn convert(&mut self, blocks: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        for block in read::blocks(blocks) {
            let block = block?;
            if block.is(BlockKind::Metadata) {
                let ids = read::type_rows(block.body)?.into_iter().map(|(id, _)| id);
                let types = ids.filter_map(|id| Some((id as u32, *self.types.get(&id)?)));
                self.stage.define(&types.collect::<Vec<_>>(), out)?;
            } else {
                self.refused += self.stage.blocks(block.whole, out)?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, out: &[u8]) -> Result<(), WriteError> {
        if out.is_empty() {
            return Ok(());
        }
        self.bytes += out.len() as u64;
        self.sink.write(&Batch::new(&[IoSlice::new(out)], &[out.len() as u64]))
    }
}

impl Sink for StagedSink<'_> {
    fn start(&mut self, header: &[u8], _: StreamEnd) -> io::Result<()> {
        let mut out = Vec::new();
        let begun = read::beginning(header).map_err(FormatError::from).and_then(|trace| {
            let pairs = trace.key_values.iter().map(|(key, value)| (&**key, &**value));
            let info = TraceInfo {
                sync_utc: (&trace.sync_time).into(),
                sync_ticks: trace.sync_ticks,
                ticks_per_second: trace.ticks_per_second,
                pointer_size: trace.pointer_size,
                key_values: &pairs.collect::<Vec<_>>(),
            };
            self.stage.begin(&info, &mut out)
        });
        begun.map_err(io::Error::other)?;
        let end = self.stage.end();
        self.bytes += (out.len() + end.bytes().len()) as u64;
        self.sink.start(&out, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let blocks: Vec<u8> = batch.pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let mut out = Vec::with_capacity(blocks.len());
        self.convert(&blocks, &mut out).map_err(io::Error::other)?;
        self.hand_over(&out)
    }

    fn name_when_whole(&mut self) {
        self.sink.name_when_whole();
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        self.stage.finish(&mut out).map_err(io::Error::other)?;
        self.hand_over(&out).map_err(|error| error.source)?;
        self.sink.finish()
    }
}
