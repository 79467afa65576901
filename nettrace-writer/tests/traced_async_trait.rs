//! `#[traced]` on methods under the crate `async-trait`.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]

mod span_support;

use async_trait::async_trait;
use nettrace_writer::traced;

use crate::span_support::{block_on, inside, pending, poll_and_drop, seen};

#[async_trait]
trait Store: Sync {
    async fn load(&self, key: &str) -> Result<String, ()>;

    /// A method with a body in the trait.
    #[traced(provider = "Calls", fields = [key])]
    async fn warm(&self, key: &str) -> usize
    where
        Self: Send,
    {
        self.load(key).await.map_or(0, |value| value.len())
    }
}

struct Memory {
    prefix: String,
}

#[async_trait]
impl Store for Memory {
    #[traced(provider = "Calls", ret, fields = [key, prefix: &str = &self.prefix])]
    async fn load(&self, key: &str) -> Result<String, ()> {
        pending(1).await;
        inside(1);
        if key.is_empty() {
            return Err(());
        }
        Ok(format!("{}{key}", self.prefix))
    }
}

#[async_trait(?Send)]
trait Local {
    async fn bump(&mut self, by: u32) -> u32;
}

struct Counter(std::rc::Rc<std::cell::Cell<u32>>);

#[async_trait(?Send)]
impl Local for Counter {
    #[traced(provider = "Calls", mode = single, fields = [by])]
    async fn bump(&mut self, by: u32) -> u32 {
        pending(1).await;
        self.0.set(self.0.get() + by);
        self.0.get()
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn methods_are_spans() {
    let events = seen(|| {
        let memory = Memory { prefix: "p-".to_owned() };
        assert_eq!(block_on(is_send(memory.warm("key"))), 5);
        let store: &dyn Store = &memory;
        assert_eq!(block_on(is_send(store.load(""))), Err(()));
        poll_and_drop(store.load("x"), 1);
        assert_eq!(block_on(Counter(std::rc::Rc::default()).bump(3)), 3);
    });
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    assert_eq!(
        texts,
        [
            "warmStart(key=key)",
            "loadStart(key=key, prefix=p-)",
            "Inside(number=1)",
            "loadStop(outcome=ok, polls=2, ret=[\"p-key\"])",
            "warmStop(outcome=ok, polls=2)",
            "loadStart(key=, prefix=p-)",
            "Inside(number=1)",
            "loadStop(outcome=err, polls=2, ret=[])",
            "loadStart(key=x, prefix=p-)",
            "loadStop(outcome=cancelled, polls=1, ret=[])",
            "bump(outcome=ok, polls=2, by=3)",
        ]
    );
    assert_eq!(events[1].related, events[0].activity);
    assert_eq!((events[2].span, events[3].span), (events[1].span, events[1].span));
}
