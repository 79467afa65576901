//! The machine, and what others did on it meanwhile, as Linux knows it.

use std::{fs, thread, time::Instant};

/// What the figures depend on.
pub(crate) struct Machine {
    processor: String,
    processors: usize,
}

impl Machine {
    pub(crate) fn of_this_one() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim());
        let processors = thread::available_parallelism().map_or(0, |count| count.get());
        Self { processor: model.unwrap_or("unknown").to_owned(), processors }
    }

    /// One line about it. `uses` are processors that others kept busy, run by run.
    pub(crate) fn line(&self, uses: &[f64]) -> String {
        let Self { processor, processors } = self;
        let mut uses: Vec<_> = uses.iter().copied().filter(|used| used.is_finite()).collect();
        uses.sort_by(f64::total_cmp);
        let others = match uses.last() {
            None => "nobody can say what else it did".to_owned(),
            Some(most) => {
                let median = uses[uses.len() / 2];
                let quiet = if median > 0.1 { "NOT QUIET: " } else { "" };
                format!("{quiet}others kept {median:.2} of them busy (median), {most:.2} at most")
            }
        };
        format!("{processor}, {processors} processors; {others}.")
    }
}

/// Processor time until a moment, in hundredths of a second.
pub(crate) struct Use {
    when: Instant,
    /// Of the whole machine, with what its host took.
    all: Option<f64>,
    /// Of the children of this program that have ended.
    children: Option<f64>,
}

impl Use {
    pub(crate) fn so_far() -> Self {
        let sum = |fields: &[&str]| {
            let numbers = fields.iter().map(|field| field.parse::<f64>().ok());
            numbers.sum::<Option<f64>>()
        };
        let all = fs::read_to_string("/proc/stat").ok();
        let all = all.and_then(|text| {
            // user, nice, system, idle, iowait, irq, softirq, steal
            let fields: Vec<_> = text.lines().next()?.split_ascii_whitespace().skip(1).collect();
            Some(sum(fields.get(..3)?)? + sum(fields.get(5..8)?)?)
        });
        let own = fs::read_to_string("/proc/self/stat").ok();
        let children = own.and_then(|text| {
            let (_, rest) = text.rsplit_once(')')?;
            let fields: Vec<_> = rest.split_ascii_whitespace().collect();
            sum(fields.get(13..15)?)
        });
        Self { when: Instant::now(), all, children }
    }

    /// How many processors others have kept busy since then. Not a number if nobody can say.
    pub(crate) fn by_others_until_now(&self) -> f64 {
        let now = Self::so_far();
        let grown = |then: Option<f64>, now: Option<f64>| Some(now? - then?);
        match (grown(self.all, now.all), grown(self.children, now.children)) {
            (Some(all), Some(children)) => {
                (all - children).max(0.0) / 100.0 / self.when.elapsed().as_secs_f64()
            }
            _ => f64::NAN,
        }
    }
}
