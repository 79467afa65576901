//! The output of a session: a file, or a sink.

use std::{path::PathBuf, sync::Arc};

use crate::{
    shared::error::Error,
    sink::{Existing, FileOptions, Sink, file_name, ring::Ring},
};

/// Where the trace goes.
#[derive(Default)]
pub(crate) struct OutputSettings {
    target: Option<OutputTarget>,
    pub(crate) existing: Existing,
    /// The memory of a flight recorder, which is the sink then.
    pub(crate) ring: Option<Arc<Ring>>,
}

enum OutputTarget {
    File(PathBuf),
    Sink(Box<dyn Sink>),
}

impl OutputSettings {
    pub(crate) fn set_file(&mut self, path: PathBuf) {
        (self.target, self.ring) = (Some(OutputTarget::File(path)), None);
    }

    pub(crate) fn set_sink(&mut self, sink: impl Sink + 'static) {
        (self.target, self.ring) = (Some(OutputTarget::Sink(Box::new(sink))), None);
    }

    /// The sink, and the path of a file.
    pub(crate) fn build(&mut self) -> Result<(Box<dyn Sink>, Option<PathBuf>), Error> {
        match self.target.take() {
            Some(OutputTarget::File(path)) => {
                let path = file_name::expand_path(&path)?;
                let file = FileOptions::new(path).existing(self.existing).build();
                let path = file.path().to_owned();
                Ok((Box::new(file), Some(path)))
            }
            Some(OutputTarget::Sink(_)) if self.existing != Existing::Stays => {
                Err(Error::OverwriteWithoutFile)
            }
            Some(OutputTarget::Sink(sink)) => Ok((sink, None)),
            None => Err(Error::NoSink),
        }
    }
}
