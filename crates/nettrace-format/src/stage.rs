//! Stages: what turns a stream of version 6 into another stream, while it is written.
//!
//! A session writes version 6 and nothing else. A [`Stage`] stands between it and its sink if the
//! trace is to have another format, or must not have some values.

use alloc::vec::Vec;
use core::fmt::Debug;

use nettrace_event::EventSchema;

use crate::{
    content::TraceInfo, error::FormatError, stage::transcoder::TranscoderMark,
    stream_end::StreamEnd, writer::LeftOut,
};

mod output;
mod read_types;
mod tables;
mod threads;
mod transcoder;

pub use self::transcoder::Transcoder;

/// A position in the output of a stage, between two blocks, that [`Stage::rewind`] can go back to.
///
/// [`Stage::rewind`] has an example.
#[derive(Clone, Copy, Debug)]
pub struct StageMark(TranscoderMark);

/// Turns a stream of version 6 into another one, block by block.
///
/// The input is what a session writes: whole blocks, of which each defines what it refers to in
/// blocks before. Event types come as [schemas](Self::define), because payloads are converted by
/// them.
///
/// # Memory
///
/// A stage remembers the threads, stacks and label lists to which later rows may refer, up to
/// bounds that the implementation states. After a [mark](Self::mark) it logs its changes, until
/// [`settle`](Self::settle).
pub trait Stage: Debug + Send {
    /// Starts a stream: appends its first bytes. What an earlier stream defined is forgotten. What
    /// it did not tell of losses stays [untold](Self::untold_losses).
    ///
    /// # Errors
    /// [`FormatError`] if the output cannot have `info`.
    fn begin(&mut self, info: &TraceInfo<'_>, out: &mut Vec<u8>) -> Result<(), FormatError>;

    /// Describes event types, each under the metadata id of its rows. Takes the place of Metadata
    /// blocks.
    ///
    /// # Errors
    /// [`FormatError`] if a type [cannot be described](crate::Format::check).
    fn define(
        &mut self,
        types: &[(u32, &'static EventSchema)],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;

    /// Converts whole blocks. Returns how many rows the output cannot have. Those show as gaps in
    /// the numbers of their threads, and count in [`LeftOut::events`].
    ///
    /// # Errors
    /// [`FormatError::MalformedBlock`] if the blocks are not what a session writes, and those of
    /// the output's format. What is appended then is not whole.
    fn blocks(&mut self, blocks: &[u8], out: &mut Vec<u8>) -> Result<u64, FormatError>;

    /// Appends what the stream must tell before it [ends](Self::end).
    ///
    /// # Errors
    /// Those of the output's format.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), FormatError>;

    /// What a complete stream ends with.
    fn end(&self) -> StreamEnd;

    /// The most bytes that it takes to end the stream: a sequence point of all threads so far,
    /// their removal, and [`finish`](Self::finish).
    fn closing_size(&self) -> u64;

    /// Whether there are losses that only a sequence point can tell, or so many threads have ended,
    /// or label lists and stacks are remembered, that one should come soon.
    fn wants_point(&self) -> bool;

    /// How many lost events no stream has told so far.
    fn untold_losses(&self) -> u64;

    /// Counts what the output has left out so far.
    fn left_out(&self) -> LeftOut;

    /// Restores the counts of [`left_out`](Self::left_out), because everything since is converted
    /// again.
    fn set_left_out(&mut self, left_out: LeftOut);

    /// The names of values to keep out that nothing has had so far.
    fn unused_names(&self) -> Vec<&str>;

    /// Marks the current position, between two calls.
    fn mark(&mut self) -> StageMark;

    /// Goes back to a mark since the last [`settle`](Self::settle), because the output after it is
    /// dropped. [`LeftOut::events`] keeps its value: those events do not come again.
    ///
    /// ```
    /// use nettrace_format::{
    ///     Format, Transcoder,
    ///     v6::{SequencePointFlags, sequence_point},
    /// };
    /// # use nettrace_format::example::INFO;
    ///
    /// let mut stage = Transcoder::stage(Format::V5).expect("version 5 is not version 6");
    /// let mut trace = Vec::new();
    /// stage.begin(&INFO, &mut trace)?;
    /// let mark = stage.mark();
    /// let mut point = Vec::new();
    /// sequence_point(7_000, SequencePointFlags::default(), &[], &mut point)?;
    /// let mut batch = Vec::new();
    /// stage.blocks(&point, &mut batch)?;
    /// // The disk is full, so the batch is dropped.
    /// stage.rewind(&mark);
    /// stage.blocks(&point, &mut trace)?;
    /// stage.finish(&mut trace)?;
    /// trace.extend(stage.end().bytes());
    /// assert!(nettrace_reader::verify(&trace[..])?.is_sound());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn rewind(&mut self, mark: &StageMark);

    /// Drops all marks and their log, because everything so far has reached its destination.
    fn settle(&mut self);
}
