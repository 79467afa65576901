//! Stands for the recorder file where there is none.

use std::{io, path::Path, ptr::NonNull};

use nettrace_event::EventSchema;

use super::{Recovered, UnattributedCounter};
use crate::{
    process::thread::ThreadRef,
    protocol::pool::{Layout, Pool},
    sink::ring::Log,
};

/// There is none.
#[derive(Debug)]
pub(crate) enum Persistent {}

impl Persistent {
    pub(crate) fn create(
        _: &Path,
        _: Layout,
        _: usize,
        _: Option<&Path>,
    ) -> io::Result<(Self, Pool, Option<Recovered>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn log(&self) -> io::Result<Log> {
        match *self {}
    }

    pub(crate) fn take_slot(&self, _: &ThreadRef) -> Option<(u32, NonNull<u8>)> {
        match *self {}
    }

    pub(crate) fn slot_is_used(&self, _: u32) {
        match *self {}
    }

    pub(crate) fn give_slot(&self, _: u32) {
        match *self {}
    }

    pub(crate) fn add_type(&self, _: u32, _: &EventSchema) {
        match *self {}
    }

    pub(crate) fn begin_stream(&self, _: u64, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn set_path(&self, _: u64, _: &Path) {
        match *self {}
    }

    pub(crate) fn set_index(&self, _: u32, _: u64) {
        match *self {}
    }

    pub(crate) fn set_base(&self, _: u32, _: u64, _: u64) {
        match *self {}
    }

    pub(crate) fn set_done(&self, _: u32, _: u64) {
        match *self {}
    }

    pub(crate) fn set_attempted(&self, _: UnattributedCounter, _: u64) {
        match *self {}
    }

    pub(crate) fn numbers_are_noted(&self) {
        match *self {}
    }

    pub(crate) fn has_begun(&self) {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }
}
