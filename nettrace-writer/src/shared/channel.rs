//! Channels: commands to a flusher, and its answers.
//!
//! One side sends, the other receives. Either can end, and the other notices. A channel is a queue
//! under a lock: the flusher takes commands a few times a second. A channel of the standard library
//! cannot wait for room for a bounded time, and brings three kinds of channels of each type into
//! the program.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::sync::{Condvar, Mutex};

/// Makes a channel for `capacity` values that nobody has received yet.
pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Queue { values: VecDeque::with_capacity(capacity), capacity, is_open: true };
    let channel = Arc::new(Channel { queue: Mutex::new(queue), changed: Condvar::new() });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// Why a value was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There was no room.
    Full,
    /// The receiver has gone.
    Gone,
}

/// Why no value was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecvError {
    /// None came in time.
    Late,
    /// None is left, and the sender has gone.
    Gone,
}

#[derive(Debug)]
struct Channel<T> {
    queue: Mutex<Queue<T>>,
    /// Values came or went, or a side has gone.
    changed: Condvar,
}

#[derive(Debug)]
struct Queue<T> {
    /// It has room for `capacity` values, so that a sender never allocates.
    values: VecDeque<T>,
    capacity: usize,
    /// Whether both sides are there.
    is_open: bool,
}

impl<T> Queue<T> {
    /// `value` comes back if it cannot be sent.
    fn put(&mut self, value: T) -> Result<(), (T, Refused)> {
        if !self.is_open {
            return Err((value, Refused::Gone));
        }
        if self.values.len() == self.capacity {
            return Err((value, Refused::Full));
        }
        self.values.push_back(value);
        Ok(())
    }
}

/// The side that sends.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Waits for room if it must. Fails if the receiver has gone.
    pub(crate) fn send(&self, value: T) -> Result<(), Refused> {
        self.send_until(value, None)
    }

    /// As [`send`](Self::send), but waits for `patience` at most.
    pub(crate) fn send_timeout(&self, value: T, patience: Duration) -> Result<(), Refused> {
        self.send_until(value, Instant::now().checked_add(patience))
    }

    fn send_until(&self, mut value: T, deadline: Option<Instant>) -> Result<(), Refused> {
        let locked = match deadline {
            None => Some(self.0.queue.lock()),
            // Whoever holds the lock may have been stopped.
            Some(_) => self.0.queue.try_lock_for(time_left(deadline)),
        };
        let Some(mut queue) = locked else { return Err(Refused::Full) };
        loop {
            let refused;
            (value, refused) = match queue.put(value) {
                Ok(()) => {
                    self.0.changed.notify_all();
                    return Ok(());
                }
                Err(returned) => returned,
            };
            let left = time_left(deadline);
            if refused == Refused::Gone || left.is_zero() {
                // Its destructor may use this channel.
                drop(queue);
                return Err(refused);
            }
            queue = self.0.changed.wait_for(queue, left);
        }
    }

    /// Does not wait for room, and for the lock as long as `patience` says. Can be called by a
    /// signal handler that has interrupted a call of this channel: then there is no room.
    pub(crate) fn try_send(&self, value: T, patience: Duration) -> Result<(), Refused> {
        let Some(mut queue) = self.0.queue.try_lock_for(patience) else {
            return Err(Refused::Full);
        };
        let put = queue.put(value);
        drop(queue);
        self.0.changed.notify_all();
        put.map_err(|(_, refused)| refused)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.queue.lock().is_open = false;
        self.0.changed.notify_all();
    }
}

/// The side that receives.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    /// Waits for a value. Fails if the sender has gone.
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(None)
    }

    /// As [`recv`](Self::recv), but waits for `patience` at most.
    pub(crate) fn recv_timeout(&self, patience: Duration) -> Result<T, RecvError> {
        self.recv_until(Instant::now().checked_add(patience))
    }

    /// As [`recv`](Self::recv), but does not wait.
    pub(crate) fn try_recv(&self) -> Result<T, RecvError> {
        self.recv_timeout(Duration::ZERO)
    }

    /// `None` means for ever.
    pub(crate) fn recv_until(&self, deadline: Option<Instant>) -> Result<T, RecvError> {
        let mut queue = self.0.queue.lock();
        loop {
            if let Some(value) = queue.values.pop_front() {
                self.0.changed.notify_all();
                return Ok(value);
            }
            if !queue.is_open {
                return Err(RecvError::Gone);
            }
            let left = time_left(deadline);
            if left.is_zero() {
                return Err(RecvError::Late);
            }
            queue = self.0.changed.wait_for(queue, left);
        }
    }

    /// Whether nothing was sent that has not been received.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.queue.lock().values.is_empty()
    }
}

impl<T> Drop for Receiver<T> {
    /// Drops the values that were not received: they can be the senders of answers.
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.is_open = false;
        let values = std::mem::take(&mut queue.values);
        drop(queue);
        self.0.changed.notify_all();
        drop(values);
    }
}

/// `None` means for ever. Whoever waits looks again after an hour, which a condition variable of
/// every system can wait.
fn time_left(deadline: Option<Instant>) -> Duration {
    const HOUR: Duration = Duration::from_secs(3600);
    deadline.map_or(HOUR, |deadline| deadline.saturating_duration_since(Instant::now()).min(HOUR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn values_come_in_order_and_a_full_channel_waits_for_room() {
        let (sender, receiver) = bounded(2);
        assert_eq!(receiver.try_recv(), Err(RecvError::Late));
        assert_eq!([sender.try_send(0, MINUTE), sender.send(1)], [Ok(()); 2]);
        assert_eq!(sender.try_send(9, MINUTE), Err(Refused::Full));
        assert_eq!(sender.send_timeout(9, Duration::from_millis(1)), Err(Refused::Full));
        let sending = thread::spawn(move || {
            for number in 2..100 {
                sender.send_timeout(number, MINUTE).unwrap();
            }
        });
        let received: Vec<i32> =
            std::iter::from_fn(|| receiver.recv_timeout(MINUTE).ok()).collect();
        assert_eq!(received, (0..100).collect::<Vec<_>>());
        sending.join().unwrap();
        assert_eq!(receiver.recv(), Err(RecvError::Gone));
        assert_eq!(receiver.try_recv(), Err(RecvError::Gone));
    }

    #[test]
    fn what_was_sent_outlives_its_sender() {
        let (sender, receiver) = bounded(1);
        sender.send(5).unwrap();
        drop(sender);
        assert!(!receiver.is_empty());
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(5), Err(RecvError::Gone)));
    }

    #[test]
    fn whoever_waits_notices_that_the_other_side_has_gone() {
        let (sender, receiver) = bounded::<()>(1);
        let waiting = thread::spawn(move || receiver.recv());
        drop(sender);
        assert_eq!(waiting.join().unwrap(), Err(RecvError::Gone));

        let (sender, receiver) = bounded(1);
        sender.send(()).unwrap();
        let waiting = thread::spawn(move || sender.send(()));
        drop(receiver);
        assert_eq!(waiting.join().unwrap(), Err(Refused::Gone));
    }

    #[test]
    fn a_question_that_nobody_reads_has_no_answer() {
        let (commands, inbox) = bounded(1);
        let (done, answer) = bounded::<()>(1);
        commands.send(done).unwrap();
        drop(inbox);
        assert_eq!(answer.recv(), Err(RecvError::Gone));
    }

    #[test]
    fn a_handler_that_interrupts_a_call_does_not_wait_for_ever() {
        let (sender, receiver) = bounded(1);
        let interrupted = sender.0.queue.lock();
        assert_eq!(sender.try_send((), Duration::ZERO), Err(Refused::Full));
        let moment = Duration::from_millis(5);
        assert_eq!(sender.try_send((), moment), Err(Refused::Full));
        assert_eq!(sender.send_timeout((), moment), Err(Refused::Full));
        drop(interrupted);
        assert_eq!(receiver.try_recv(), Err(RecvError::Late));
    }
}
