//! Arguments and locals of traced functions are dropped in Rust's order.

use std::{
    cell::RefCell,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use nettrace_writer::{Session, sink::MemorySink, traced};

thread_local! {
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Says when it is dropped.
struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
    }
}

struct Pair {
    first: Noisy,
    second: Noisy,
}

/// The same functions without and with the attribute.
macro_rules! plain_and_traced {
    ($($function:item)*) => {
        mod plain {
            use super::*;
            $($function)*
        }

        mod with_spans {
            use super::*;
            $(#[traced(provider = "Drops")] $function)*
        }
    };
}

plain_and_traced! {
    pub(super) fn guard_alone(first: Noisy, second: Noisy) {
        let _local = Noisy("local");
        let _ = (&first, &second);
    }

    pub(super) fn both(first: Noisy, second: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        let _ = (&first, &second);
        Ok(())
    }

    pub(super) fn last_unused(first: Noisy, _second: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        let _ = &first;
        Ok(())
    }

    pub(super) fn first_unused(_first: Noisy, second: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        let _ = &second;
        Ok(())
    }

    pub(super) fn last_ignored(first: Noisy, _: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        let _ = &first;
        Ok(())
    }

    pub(super) fn in_a_text(first: Noisy, second: Noisy) -> Result<(), ()> {
        let _ = second.0.len();
        let _ = format!("{first}");
        Ok(())
    }

    pub(super) fn moved_at_times(first: Noisy, second: Noisy) -> Result<(), Noisy> {
        let _local = Noisy("local");
        if second.0.is_empty() { Err(first) } else { Ok(()) }
    }

    pub(super) fn moved(first: Noisy, second: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        drop(first);
        let _ = &second;
        Ok(())
    }

    pub(super) fn partly_moved(pair: Pair, other: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        drop(pair.second);
        let _ = &pair.first;
        let _ = other.0.len();
        Ok(())
    }

    pub(super) fn early(first: Noisy, second: Noisy) -> Result<(), ()> {
        if second.0.len() > 1 {
            Err(())?;
        }
        let _ = first;
        Ok(())
    }

    pub(super) async fn of_a_future(first: Noisy, second: Noisy) {
        let _local = Noisy("local");
        std::future::ready(()).await;
        let _ = (&first, &second);
    }

    pub(super) async fn of_a_future_unused(_first: Noisy, second: Noisy) {
        let _local = Noisy("local");
        std::future::ready(()).await;
        let _ = &second;
    }

    pub(super) async fn of_a_future_ignored(_: Noisy, second: Noisy, _: Noisy) -> Result<(), ()> {
        let _local = Noisy("local");
        std::future::ready(()).await;
        let _ = &second;
        Ok(())
    }

    pub(super) async fn cancelled(first: Noisy, second: Noisy) {
        let _local = Noisy("local");
        std::future::pending::<()>().await;
        let _ = (&first, &second);
    }
}

impl std::fmt::Display for Noisy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Noisy {
    #[traced(provider = "Drops")]
    fn of_self(self, other: Self) -> Result<(), ()> {
        let _ = (&other, &self);
        Ok(())
    }
}

/// What is dropped while a call runs.
fn dropped(call: impl FnOnce()) -> Vec<&'static str> {
    call();
    DROPPED.take()
}

/// Polls a future once, and drops it.
fn poll(future: impl Future) {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    let _ = matches!(polled, Poll::Ready(_));
}

macro_rules! compare {
    ($($function:ident($($argument:expr),*))*) => {
        $(assert_eq!(
            dropped(|| { let _ = with_spans::$function($($argument),*); }),
            dropped(|| { let _ = plain::$function($($argument),*); }),
            stringify!($function)
        );)*
    };
}

macro_rules! compare_futures {
    ($($function:ident($($argument:expr),*))*) => {
        $(
            assert_eq!(
                dropped(|| poll(with_spans::$function($($argument),*))),
                dropped(|| poll(plain::$function($($argument),*))),
                stringify!($function)
            );
            // Before the first poll.
            assert_eq!(
                dropped(|| drop(with_spans::$function($($argument),*))),
                dropped(|| drop(plain::$function($($argument),*))),
                stringify!($function)
            );
        )*
    };
}

fn compare_all() {
    compare! {
        guard_alone(Noisy("first"), Noisy("second"))
        both(Noisy("first"), Noisy("second"))
        last_unused(Noisy("first"), Noisy("second"))
        first_unused(Noisy("first"), Noisy("second"))
        last_ignored(Noisy("first"), Noisy("second"))
        in_a_text(Noisy("first"), Noisy("second"))
        moved_at_times(Noisy("first"), Noisy("second"))
        moved_at_times(Noisy("first"), Noisy(""))
        moved(Noisy("first"), Noisy("second"))
        partly_moved(Pair { first: Noisy("a"), second: Noisy("b") }, Noisy("second"))
        early(Noisy("first"), Noisy("second"))
        early(Noisy("first"), Noisy(""))
    }
    compare_futures! {
        of_a_future(Noisy("first"), Noisy("second"))
        of_a_future_unused(Noisy("first"), Noisy("second"))
        of_a_future_ignored(Noisy("first"), Noisy("second"), Noisy("third"))
        cancelled(Noisy("first"), Noisy("second"))
    }
    let of_self = dropped(|| Noisy("self").of_self(Noisy("other")).unwrap());
    assert_eq!(of_self, ["other", "self"]);
}

#[test]
fn drops_come_in_the_order_of_plain_functions() {
    compare_all();
    let session = Session::builder().sink(MemorySink::new()).start().unwrap();
    compare_all();
    session.finish().unwrap();
}
