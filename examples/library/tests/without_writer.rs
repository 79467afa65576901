//! An application that uses the library and no writer.

use library::{Pool, PoolEvent};
use nettrace_event::{TraceEvent, registry};

#[test]
fn events_cost_nothing_and_nothing_breaks() {
    assert!(PoolEvent::is_any_enabled(), "the first events have yet to come");
    for _ in 0..3 {
        let mut pool = Pool::new("db-1");
        let connection = pool.acquire();
        pool.give_back(connection);
        let connection = pool.acquire();
        pool.give_back(connection);
        pool.close();
        assert!(PoolEvent::event_types().iter().all(|ty| ty.enabled() == 0));
        assert!(!PoolEvent::is_any_enabled());
    }
    assert_eq!(registry::types().count(), 0);
}
