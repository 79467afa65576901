//! Secrets: what is recorded of them, and that nothing else is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nettrace_writer::{
    Emit, Format, Keep, Secret, Session, TraceEvent, TraceField, TraceSpan, assert_event,
    assert_span, record_panics,
    secret::{Hashed, Length},
    sink::MemorySink,
    testing, traced,
};
use testkit::process::alone;

const HIDDEN: &str = "correct-horse-battery";
const NUMBER: u64 = 0x7a6b_5c4d_3e2f_1a0b;

#[derive(TraceField)]
struct Account<'a> {
    name: Secret<&'a str>,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Secrets")]
struct LoggedIn<'a> {
    password: Secret<&'a str>,
    customer: Secret<&'a str, Hashed>,
    again: Option<Secret<String, Hashed>>,
    number: Secret<u64, Hashed>,
    token: Secret<&'a str, Length>,
    bytes: Secret<Vec<u8>, Length>,
    list: Vec<Secret<&'a str>>,
    account: Account<'a>,
    #[trace_event(encoding = debug)]
    shown: Secret<Account<'a>>,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Testing-Secrets", later = [token: Secret<String, Hashed>])]
struct Login {
    password: Secret<String>,
}

#[traced(provider = "Testing-Secrets", fields = [token], ret, err = debug)]
fn check(token: Secret<String>, ok: bool) -> Result<Secret<String>, Secret<String>> {
    if ok { Ok(token) } else { Err(token) }
}

#[traced(provider = "Testing-Secrets", mode = single, fields = [token])]
async fn kept(token: Secret<String, Hashed>) -> usize {
    token.expose().len()
}

fn work() {
    let secret = || Secret::new(HIDDEN.to_owned());
    let account = || Account { name: Secret::new(HIDDEN) };
    LoggedIn {
        password: HIDDEN.into(),
        customer: Secret::new(HIDDEN),
        again: Some(HIDDEN.to_owned().into()),
        number: NUMBER.into(),
        token: HIDDEN.into(),
        bytes: HIDDEN.as_bytes().to_vec().into(),
        list: vec![HIDDEN.into(), "".into()],
        account: account(),
        shown: Secret::new(account()),
    }
    .emit();
    let mut login = Login { password: secret() }.enter();
    login.record_token(HIDDEN.to_owned().into());
    let _ = (check(secret(), true), check(secret(), false));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(kept(HIDDEN.to_owned().into())), HIDDEN.len());
}

#[test]
fn of_a_secret_only_its_hash_or_its_length_is_recorded() {
    let events = testing::capture();
    work();
    let logged_in = assert_event!(
        events,
        LoggedIn { password: "***", token: 21, bytes: 21, list: ["***", "***"], shown: "***", .. }
    );
    let hash: String = logged_in.get("customer");
    assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
    assert_eq!(logged_in.get::<String>("again"), hash, "the same value");
    assert_ne!(logged_in.get::<String>("number"), hash);
    assert_span!(events, Login { password: "***", "token": &hash, .. });
    assert_span!(events, "check" { token: "***", ret: "***", outcome: "ok", .. });
    assert_span!(events, "check" { token: "***", err: "***", outcome: "err", .. });
    assert_span!(events, "kept" { token: &hash, outcome: "ok", .. });
}

#[test]
fn no_byte_of_a_secret_leaves_the_process() {
    if !alone("secrets::no_byte_of_a_secret_leaves_the_process") {
        return;
    }
    record_panics();
    let mut traces = Vec::new();
    for format in [Format::V6, Format::V5, Format::V4, Format::Heph] {
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).format(format).start().unwrap();
        work();
        let shown = Secret::<_>::new(HIDDEN);
        let panic = catch_unwind(AssertUnwindSafe(|| panic!("the password is {shown:?}")));
        assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "the password is ***");
        assert_eq!(session.finish().unwrap().dropped(), 0);
        traces.push(memory.bytes());
    }
    let keep = Keep::last(std::time::Duration::from_secs(3_600)).within(1 << 20);
    let session = Session::builder().flight_recorder(keep).start().unwrap();
    work();
    let memory = MemorySink::new();
    assert!(session.dump(memory.clone()).unwrap().events > 5);
    traces.push(memory.bytes());

    let utf16: Vec<_> = HIDDEN.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let number = NUMBER.to_le_bytes();
    // A part of it would be too much.
    let parts = HIDDEN.as_bytes().windows(6).chain(utf16.windows(12)).chain(number.windows(4));
    for (place, trace) in traces.iter().enumerate() {
        let has = |part: &[u8]| trace.windows(part.len()).any(|bytes| bytes == part);
        assert!(has(b"*\0*\0*\0") || has(b"***"), "{place}");
        if let Some(part) = parts.clone().find(|part| has(part)) {
            panic!("{place}: {:?}", String::from_utf8_lossy(part));
        }
    }
}
