use super::*;

fn collect() -> Collect {
    let provider = |name: &str, ids: &[u32]| Provider {
        keywords: 0x8000_0000_0000_0001,
        level: 5,
        name: name.to_owned(),
        arguments: "key=\u{1f980}".to_owned(),
        events: EventFilter { wanted: !ids.is_empty(), ids: ids.to_owned() },
    };
    Collect {
        buffer_mb: 64,
        rundown: 0x8002_0139,
        stacks: true,
        providers: vec![provider("Contoso-Shop", &[1, 70_000]), provider("*", &[])],
        buffering: Buffering::Block,
        ..Collect::default()
    }
}

fn request(set: u8, id: u8, payload: &[u8]) -> Result<Request, Refusal> {
    let bytes = message(set, id, payload);
    assert_eq!(size(&bytes), Ok(Some(bytes.len())));
    parse(&bytes)
}

#[test]
fn each_version_of_collect_tracing_reads_back() {
    for version in 1..=6 {
        let mut expected = collect();
        if version < 6 {
            expected.buffering = Buffering::Drop;
        }
        if version < 5 {
            for provider in &mut expected.providers {
                provider.events = EventFilter::default();
            }
        }
        let payload = expected.payload(version);
        let id = event_pipe::COLLECT_TRACING + version - 1;
        assert_eq!(request(set::EVENT_PIPE, id, &payload), Ok(Request::Collect(expected.clone())));
        // A later version may add to it.
        let longer = [&payload[..], &[1, 2, 3]].concat();
        assert_eq!(request(set::EVENT_PIPE, id, &longer), Ok(Request::Collect(expected)));
        for end in 0..payload.len() {
            let refusal = request(set::EVENT_PIPE, id, &payload[..end]).unwrap_err();
            assert_eq!(refusal.code, code::BAD_ENCODING, "{end} of version {version}");
        }
    }
}

#[test]
fn a_session_is_asked_for_by_its_id() {
    let asked = request(set::OWN, own::UNMATCHED, &7_u64.to_le_bytes());
    assert_eq!(asked, Ok(Request::Unmatched(7)));
    let refusal = request(set::OWN, own::UNMATCHED, &[7; 7]).unwrap_err();
    assert_eq!(refusal.code, code::BAD_ENCODING);
}

#[test]
fn the_choice_of_events_is_a_text() {
    let mut payload = Vec::new();
    put_text(&mut payload, "Contoso-*=info");
    let expected = Request::Select("Contoso-*=info".to_owned());
    assert_eq!(request(set::OWN, own::SELECT, &payload), Ok(expected));
    let refusal = request(set::OWN, own::SELECT, &payload[..9]).unwrap_err();
    assert_eq!(refusal.code, code::BAD_ENCODING);
}

#[test]
fn a_session_of_tracepoints_is_recognised_whatever_follows() {
    let mut collect = collect();
    collect.session = SessionType::UserEvents;
    for version in [5, 6] {
        for payload in [collect.payload(version), vec![1, 0, 0, 0]] {
            let read = request(set::EVENT_PIPE, version + 1, &payload);
            let Ok(Request::Collect(read)) = read else { panic!("{read:?}") };
            assert_eq!(read.session, SessionType::UserEvents);
        }
    }
}

#[test]
fn the_size_is_known_after_16_bytes_and_a_wrong_magic_at_its_first_byte() {
    let bytes = message(set::PROCESS, process::INFO, &[7; 300]);
    for end in 0..bytes.len() {
        let expected = (end >= 16).then_some(320);
        assert_eq!(size(&bytes[..end]), Ok(expected), "{end}");
    }
    for at in 0..MAGIC.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        assert_eq!(size(&wrong[..at]), Ok(None));
        assert_eq!(size(&wrong[..=at]).unwrap_err().code, code::UNKNOWN_MAGIC);
    }
}

#[test]
fn lists_take_no_more_memory_than_their_message() {
    // Room for two elements of the least size, of which three are announced.
    for (count, is_list) in [(2_u32, false), (3, true)] {
        let mut payload = collect().payload(1)[..8].to_vec();
        put_u32(&mut payload, count);
        payload.extend([0; 2 * 20 + 19]);
        let words = request(set::EVENT_PIPE, 2, &payload).unwrap_err().words;
        assert_eq!(words.contains("a list of"), is_list, "{words}");
    }
    let mut payload = collect().payload(1)[..8].to_vec();
    put_u32(&mut payload, u32::MAX);
    let words = request(set::EVENT_PIPE, 2, &payload).unwrap_err().words;
    assert!(words.contains("a list of 4294967295 elements is longer"), "{words}");
}

#[test]
fn the_words_of_a_refusal_always_fit() {
    let refusal = Refusal::new(code::FAIL, "\u{1f980}".repeat(100_000));
    let bytes = refusal.message();
    assert_eq!(size(&bytes), Ok(Some(bytes.len())));
    let mut reader = Reader::new(&bytes[HEADER..]);
    assert_eq!(reader.u32(), Ok(code::FAIL));
    assert_eq!(reader.text().unwrap().chars().count(), 2_000);
}
