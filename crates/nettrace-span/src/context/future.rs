//! Futures that have a context of their own: each poll puts it in force and ends it.

use std::{
    pin::Pin,
    task::{self, Poll},
};

use pin_project_lite::pin_project;

use super::current::Context;

pin_project! {
    /// A future with a [`Context`] of its own: see [`FutureExt::with_context`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is polled"]
    pub struct WithContext<F> {
        context: Context,
        // `None` once it is dropped.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for WithContext<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                // Destructors of what the future holds may emit.
                this.context.within(|| this.future.set(None));
            }
        }
    }
}

impl<F> WithContext<F> {
    pub(crate) fn new(future: F, context: Context) -> Self {
        Self { context, future: Some(future) }
    }
}

impl<F: Future> Future for WithContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        match this.future.as_mut().as_pin_mut() {
            Some(future) => this.context.within(|| future.poll(cx)),
            None => Poll::Pending, // never: it is `None` only while this is being dropped
        }
    }
}
