//! `emit!` takes whatever `.emit()` takes, and evaluates it only if somebody listens.

use std::{
    cell::{Cell, RefCell},
    num::ParseIntError,
    sync::Mutex,
};

use nettrace_writer::{Session, TraceEvent, emit, sink::MemorySink};

#[derive(TraceEvent)]
#[trace_event(provider = "Emit-Macro")]
struct Fetched<'a> {
    url: &'a str,
    sizes: &'a [u64],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Emit-Macro")]
enum Owned {
    Text(String),
}

thread_local! {
    static EVALUATED: Cell<u32> = const { Cell::new(0) };
}

fn url() -> String {
    EVALUATED.set(EVALUATED.get() + 1);
    "/cart".to_owned()
}

/// Emits eight events, if the text is a number.
fn emit_all(text: &str) -> Result<(), ParseIntError> {
    emit!(Fetched { url: &format!("{}/{text}", url()), sizes: &[1, 2] });
    emit!(Fetched { url: url().as_str(), sizes: &Vec::from([1, 2]) });
    let locked = Mutex::new(url());
    emit!(Fetched { url: &locked.lock().unwrap(), sizes: &[] });
    // The guard is gone.
    assert!(locked.try_lock().is_ok());
    let cell = RefCell::new(url());
    let () = { emit!(Fetched { url: &cell.borrow(), sizes: &[] }) };
    if let Some(url) = Some(url()).as_deref() {
        emit!(Fetched { url, sizes: &[] })
    }
    emit!(Fetched { url: "/", sizes: &[text.parse()?] });
    let moved = url();
    emit!(Owned::Text(moved));
    let event = Fetched { url: text, sizes: &[] };
    emit!(&event);
    Ok(())
}

/// The future is `Send`.
fn sent(future: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send {
    future
}

async fn size() -> u64 {
    5
}

#[test]
fn an_event_may_borrow_from_temporary_values() {
    // The first events of a type are evaluated, to set it aside for sessions that may come.
    emit_all("7").unwrap();
    EVALUATED.set(0);
    emit_all("7").unwrap();
    // Two are calls within the macro.
    assert_eq!(EVALUATED.take(), 4, "nobody listens");
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    emit_all("7").unwrap();
    assert_eq!(EVALUATED.take(), 6);
    assert!(emit_all("seven").is_err());
    let future = sent(async { emit!(Fetched { url: "/", sizes: &[size().await] }) });
    let mut future = std::pin::pin!(future);
    let polled =
        future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(polled.is_ready());
    assert_eq!(session.finish().unwrap().written, 8 + 5 + 1);
}
