//! dial9: what tokio does, and no span of the service, into memory and then into nothing.

use std::{
    future::{Future, ready},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dial9::{
    Dial9HandleTokioExt, MemoryBuffer, Recorder, RecorderPipelineExt, TokioAttachOptions,
    core::pipeline::{ProcessError, SegmentData, SegmentProcessor},
    recorder,
};
use tokio::runtime::{Builder, Runtime};

use crate::record::Recorded;

/// The memory of its buffer, in bytes, as in its example.
const MEMORY: u64 = 16 << 20;

/// A recording that has begun.
pub(crate) struct Recording {
    recorder: Recorder,
    bytes: Arc<AtomicU64>,
}

impl Recording {
    pub(crate) fn start() -> io::Result<Self> {
        if !cfg!(tokio_unstable) {
            let message = "dial9 sees all tasks only with `--cfg tokio_unstable`, which cargo \
                           passes in the folder benches/peers";
            return Err(io::Error::other(message));
        }
        let bytes = Arc::new(AtomicU64::new(0));
        let count = Count(Arc::clone(&bytes));
        let recorder = recorder(MemoryBuffer::new(MEMORY)?);
        Ok(Self { recorder: recorder.with_custom_pipeline(|it| it.pipe(count)).build(), bytes })
    }

    pub(crate) fn runtime(&self, builder: Builder) -> io::Result<Runtime> {
        let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
        self.recorder.handle().attach_tokio_runtime(builder, options)
    }

    pub(crate) fn finish(self) -> Recorded {
        self.recorder.graceful_shutdown(Duration::from_secs(5));
        Recorded { bytes: self.bytes.load(Ordering::Relaxed), cpu: None, ..Recorded::default() }
    }
}

/// Counts the bytes of what it gets.
#[derive(Debug)]
struct Count(Arc<AtomicU64>);

impl SegmentProcessor for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn process(
        &mut self,
        data: SegmentData,
    ) -> Pin<Box<dyn Future<Output = Result<SegmentData, ProcessError>> + Send + '_>> {
        self.0.fetch_add(data.payload().len() as u64, Ordering::Relaxed);
        Box::pin(ready(Ok(data)))
    }
}
