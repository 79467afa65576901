//! Random programs: trees of spans, on several threads that take turns.

use std::{
    sync::{Mutex, mpsc},
    thread,
};

use proptest::prelude::*;
use tracing::{
    Dispatch, Id, Span, debug_span, dispatcher::set_default, error_span, event, field::Empty,
    info_span, span::EnteredSpan,
};

/// How many threads there are.
pub(crate) const THREADS: usize = 3;

/// The names of the spans.
pub(crate) const NAMES: [&str; 6] =
    ["plain", "plain_below", "with_more", "with_more_below", "of_all", "of_all_below"];

/// A step, and the thread that does it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    thread: usize,
    what: What,
}

/// What a step does. Handles of spans and entered spans are known by their place among those that
/// there are, modulo their number.
#[derive(Clone, Debug)]
enum What {
    Span { parent: Parent, kind: usize },
    Event { parent: Parent, kind: usize },
    Enter(usize),
    Exit(usize),
    Clone(usize),
    Drop(usize),
    Record { span: usize, field: usize, value: i64 },
    Follow { span: usize, from: usize },
}

/// What is said about the parent.
#[derive(Clone, Debug)]
enum Parent {
    Current,
    None,
    Of(usize),
}

/// A random program.
pub(crate) fn programs() -> impl Strategy<Value = Vec<Step>> {
    let parent = || {
        prop_oneof![
            3 => Just(Parent::Current),
            1 => Just(Parent::None),
            1 => any::<usize>().prop_map(Parent::Of),
        ]
    };
    let what = prop_oneof![
        4 => (parent(), 0..3_usize).prop_map(|(parent, kind)| What::Span { parent, kind }),
        4 => (parent(), 0..2_usize).prop_map(|(parent, kind)| What::Event { parent, kind }),
        4 => any::<usize>().prop_map(What::Enter),
        3 => any::<usize>().prop_map(What::Exit),
        1 => any::<usize>().prop_map(What::Clone),
        3 => any::<usize>().prop_map(What::Drop),
        1 => (any::<usize>(), 0..2_usize, any::<i64>())
            .prop_map(|(span, field, value)| What::Record { span, field, value }),
        1 => any::<(usize, usize)>().prop_map(|(span, from)| What::Follow { span, from }),
    ];
    prop::collection::vec(
        (0..THREADS, what).prop_map(|(thread, what)| Step { thread, what }),
        1..80,
    )
}

/// Does the steps, one after the other, on threads with the names `thread-0` and so on. At the end
/// no span goes on.
pub(crate) fn run(steps: &[Step], dispatch: &Dispatch) {
    let handles = Mutex::new(Handles::default());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (send, receive) = mpsc::channel::<Option<What>>();
                let (done, wait) = mpsc::channel();
                let (handles, builder) =
                    (&handles, thread::Builder::new().name(format!("thread-{number}")));
                let work = move || {
                    let _default = set_default(dispatch);
                    let mut entered = Vec::new();
                    for what in receive {
                        match what {
                            Some(what) => handles.lock().unwrap().step(&what, &mut entered),
                            // The first to be entered is the first to be exited.
                            None => entered.drain(..).for_each(drop),
                        }
                        done.send(()).unwrap();
                    }
                };
                builder.spawn_scoped(scope, work).unwrap();
                (send, wait)
            })
            .collect();
        let tell = |thread: usize, what| {
            let (send, wait) = &workers[thread];
            send.send(what).unwrap();
            wait.recv().unwrap();
        };
        for Step { thread, what } in steps {
            tell(*thread, Some(what.clone()));
        }
        for thread in 0..THREADS {
            tell(thread, None);
        }
        let mut thread = 0;
        while !handles.lock().unwrap().spans.is_empty() {
            tell(thread, Some(What::Drop(thread)));
            thread = (thread + 1) % THREADS;
        }
    });
}

#[derive(Default)]
struct Handles {
    spans: Vec<Span>,
    /// The number of the next span or event.
    next: u64,
}

impl Handles {
    fn place(&self, number: usize) -> Option<usize> {
        number.checked_rem(self.spans.len())
    }

    fn step(&mut self, what: &What, entered: &mut Vec<EnteredSpan>) {
        match *what {
            What::Span { ref parent, kind } => {
                let span = self.span(parent, kind);
                self.spans.push(span);
            }
            What::Event { ref parent, kind } => self.event(parent, kind),
            What::Enter(number) => {
                if let Some(place) = self.place(number) {
                    entered.push(self.spans[place].clone().entered());
                }
            }
            What::Exit(number) => {
                if let Some(place) = number.checked_rem(entered.len()) {
                    drop(entered.remove(place));
                }
            }
            What::Clone(number) => {
                if let Some(place) = self.place(number) {
                    self.spans.push(self.spans[place].clone());
                }
            }
            What::Drop(number) => {
                if let Some(place) = self.place(number) {
                    drop(self.spans.swap_remove(place));
                }
            }
            What::Record { span, field, value } => {
                if let Some(place) = self.place(span) {
                    self.spans[place].record(["later", "last"][field], value);
                }
            }
            What::Follow { span, from } => {
                if let (Some(span), Some(from)) = (self.place(span), self.place(from)) {
                    self.spans[span].follows_from(&self.spans[from]);
                }
            }
        }
    }

    /// `None` if it is the thread's current span.
    fn parent(&self, parent: &Parent) -> Option<Option<Id>> {
        match parent {
            Parent::Current => None,
            Parent::None => Some(None),
            Parent::Of(number) => Some(self.place(*number).and_then(|at| self.spans[at].id())),
        }
    }

    fn span(&mut self, parent: &Parent, kind: usize) -> Span {
        let parent = self.parent(parent);
        self.next += 1;
        let number = self.next;
        let half = number as f64 / 2.0;
        match (kind, parent) {
            (0, None) => info_span!("plain", number),
            (0, Some(parent)) => info_span!(parent: parent, "plain_below", number),
            (1, None) => {
                debug_span!("with_more", number, text = %half, later = Empty, last = Empty)
            }
            (1, Some(parent)) => debug_span!(
                parent: parent,
                "with_more_below",
                later = Empty,
                number,
                last = Empty
            ),
            (_, None) => error_span!("of_all", number, half, is_odd = number % 2 == 1),
            (_, Some(parent)) => error_span!(
                parent: parent,
                "of_all_below",
                number,
                negative = -(number as i64),
                text = ?Some("")
            ),
        }
    }

    fn event(&mut self, parent: &Parent, kind: usize) {
        use tracing::Level;

        let parent = self.parent(parent);
        self.next += 1;
        let number = self.next;
        match (kind, parent) {
            (0, None) => event!(Level::INFO, number),
            (0, Some(parent)) => event!(parent: parent, Level::WARN, number, text = "of a parent"),
            (_, None) => event!(Level::TRACE, number, half = number as f64 / 2.0),
            (_, Some(parent)) => event!(parent: parent, Level::DEBUG, number, is_odd = true),
        }
    }
}
