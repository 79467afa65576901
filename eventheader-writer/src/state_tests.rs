//! Tests that use private parts of the state. The process has one state, so they run as one test.

use nettrace_event::{EventSchema, Level, Place, ProviderSchema};

use super::*;
use crate::{sync, sys};

const fn schema(name: &'static str, id: u16) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: "State-Tests", guid: None, group: None },
        name,
        id,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: id as u64,
        opcode: None,
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields: &[],
    }
}

fn tracepoint(name: &str) -> Option<TracepointStatus> {
    status().tracepoints.into_iter().find(|one| one.name == name)
}

#[test]
fn what_fails_is_told_and_what_came_in_between_is_made_up_for() {
    static FIRST_SCHEMA: EventSchema = schema("First", 1);
    static FIRST: EventType = EventType::new(&FIRST_SCHEMA);
    static SECOND_SCHEMA: EventSchema = schema("Second", 2);
    static SECOND: EventType = EventType::new(&SECOND_SCHEMA);
    static THIRD_SCHEMA: EventSchema = schema("Third", 3);
    static THIRD: EventType = EventType::new(&THIRD_SCHEMA);

    // A thread makes the calls, because the process has more than one thread.
    sync::spawn("another", || {
        loop {
            sync::pause();
        }
    })
    .unwrap();
    // A kernel that refuses: this file takes no registrations.
    let file = File::options().write(true).open("/dev/null").unwrap();
    let path = PathBuf::from("/dev/null");
    // ENOTTY by a kernel; emulators of one do not know the call at all.
    let refusal = sys::unregister(raw(&file), FIRST.enabled_word(), 31).unwrap_err();
    let refusal = refusal.raw_os_error().unwrap();
    lock().target = Some(EventTarget { file, names: None, path: path.clone() });
    install();
    registry::register(&FIRST).unwrap();
    let refused = |name| tracepoint(name).map(|one| (one.error, one.enabled, one.write_index));
    assert_eq!(refused("State_Tests_L4K1"), Some((Some(refusal), false, None)));
    assert_eq!(status().availability, Availability::Failed { path, errno: refusal });
    assert_eq!(FIRST.enabled(), 0);
    // It is too soon to try the first again, but the second has not been tried.
    registry::register(&SECOND).unwrap();
    assert_eq!(refused("State_Tests_L4K2"), Some((Some(refusal), false, None)));

    // The registering thread is given up, and tries again when it can.
    lock().entries.iter_mut().for_each(|entry| entry.error = Some(libc::ETIMEDOUT));
    assert!(registrar::lose());
    assert!(lock().entries.iter().all(|entry| entry.error == Some(refusal)));

    // A handler that runs on this thread while it holds the lock.
    let locked = lock();
    registry::register(&THIRD).unwrap();
    assert!(!settle(), "it would wait for itself");
    assert_eq!(locked.entries.len(), 2);
    drop(locked);
    assert!(tracepoint("State_Tests_L4K3").is_some(), "made up for");
    assert!(settle());

    redirect(File::options().write(true).open("/dev/null").unwrap()).unwrap();
    assert_eq!(status().availability, Availability::Redirected);
    for ty in [&FIRST, &SECOND, &THIRD] {
        assert_eq!(ty.enabled(), KERNEL);
    }
    assert!(status().tracepoints.iter().all(|one| one.error.is_none() && one.enabled));

    // At the end everything is unregistered, even if a thread panicked while holding the lock.
    // Types that come later wait for ever.
    let held = std::panic::catch_unwind(|| {
        let _locked = lock();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(held.is_err() && STATE.is_poisoned());
    process::at_unload();
    assert!([&FIRST, &SECOND, &THIRD].iter().all(|ty| ty.enabled() == 0));
    let parts = Parts { provider: "State-Tests".into(), group: None, level: 1, keywords: 0 };
    let (late, name) = register_runtime(parts);
    assert_eq!(name, "State_Tests_L1K0");
    assert_eq!(late.word.load(Ordering::Relaxed), 0);
    assert_eq!(tracepoint("State_Tests_L1K0").and_then(|one| one.write_index), None);
    unregister_runtime(late);
    assert!(tracepoint("State_Tests_L1K0").is_none());
}

#[test]
fn a_name_that_another_process_has_with_other_fields_is_left_to_it() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    static CHANNEL: Channel = Channel::new();
    let mut names = Names::new();
    let parts = Parts { provider: "Shop".into(), group: None, level: 4, keywords: 1 };
    let (name, renamed) = names.take(&parts);
    let (word, channel) = (&WORD, &CHANNEL);
    let mut entry =
        WordEntry { parts, name, renamed, word, channel, is_registered: false, error: None };
    let taken = |_: &str| Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
    // Everything is taken: the error is told under the own name, so a later try begins with it.
    let error = with_free_name(&mut entry, &mut names, taken).unwrap_err();
    assert_eq!((error.raw_os_error(), &*entry.name), (Some(libc::EADDRINUSE), "Shop_L4K1"));
    let only_own = |name: &str| if name == "Shop_L4K1" { taken(name) } else { Ok(7) };
    assert_eq!(with_free_name(&mut entry, &mut names, only_own).unwrap(), 7);
    assert!(entry.name.starts_with("Shop_x") && entry.name.ends_with("_L4K1"), "{}", entry.name);
    let reason = entry.renamed.as_deref().unwrap();
    assert_eq!(reason, "another process has `Shop_L4K1` with other fields");
    // Another error is only told.
    let refused = |_: &str| Err(io::Error::from_raw_os_error(libc::EPERM));
    let error = with_free_name(&mut entry, &mut names, refused).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
}
