//! The checks of the target `report`.

use nettrace_views::report::{NamesOnly, Options, Report};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Way, bounded};

/// What is checked of the data in a page.
#[derive(Deserialize)]
struct Data {
    events: u64,
    spans: u64,
    spans_without_end: u64,
    damage: Option<String>,
    latencies: Vec<Latency>,
    slowest: Vec<Slow>,
    flame: Option<Frames>,
    samples: Option<Frames>,
}

#[derive(Deserialize)]
struct Latency {
    count: u64,
}

#[derive(Deserialize)]
struct Slow {
    spans: Vec<IgnoredAny>,
}

/// A flame graph: for each frame its name, its parent, its value with all below, and its count.
#[derive(Deserialize)]
struct Frames {
    names: Vec<IgnoredAny>,
    nodes: Vec<(usize, usize, u64, u64)>,
    /// The value of the first frame, which has all.
    total: u64,
}

impl Frames {
    /// Each frame comes after its parent, and all below a frame have no more than it, unless values
    /// are too large to be added.
    fn check(&self) {
        if self.total == u64::MAX {
            return;
        }
        let mut left: Vec<_> = self.nodes.iter().map(|(.., value, _)| *value).collect();
        left[0] = self.total;
        for (place, &(name, parent, value, _)) in self.nodes.iter().enumerate().skip(1) {
            assert!(name < self.names.len() && parent < place);
            left[parent] = left[parent].checked_sub(value).expect("no more than the parent");
        }
    }
}

/// Writes a report of a stream. Its data must be JSON that nothing in it can leave, and count what
/// the reader has counted.
pub fn check_report(way: Way, bytes: &[u8]) {
    bounded(|| {
        let options = way.options().keep_thread_totals(true);
        let Ok(reader) = options.open(bytes) else { return };
        let mut events = reader.sorted();
        let report = Report::read(&mut events, &mut NamesOnly, &Options::new("</script>"));
        let mut page = Vec::new();
        report.write(&mut page).expect("a Vec");
        let page = std::str::from_utf8(&page).expect("UTF-8");
        assert!(page.ends_with("</html>\n"));
        let (_, data) = page.split_once("id=\"data\">").expect("the page has data");
        let (data, _) = data.split_once("</script>").expect("the data has an end");
        assert!(!data.contains(['<', '>', '&']));
        let data: Data = serde_json::from_str(data).expect("JSON");
        assert_eq!(data.events, events.totals().events);
        assert_eq!(data.damage.is_some(), report.damage().is_some());
        assert!(data.spans <= data.events && data.spans_without_end <= data.spans);
        let timed: u64 = data.latencies.iter().map(|latency| latency.count).sum();
        assert!(timed <= data.events, "{timed} durations of {} events", data.events);
        for frames in data.flame.iter().chain(&data.samples) {
            frames.check();
        }
        for slow in &data.slowest {
            assert!(!slow.spans.is_empty());
        }
    });
}
