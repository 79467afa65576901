use nettrace_reader::{ReadEvent, ReadField};

#[derive(ReadEvent)]
#[trace_event(provider = "Shop")]
struct Borrowed<'a> {
    name: &'a str,
}

#[derive(ReadField)]
enum WithFields {
    One(u8),
}

#[derive(ReadField)]
union Either {
    one: u8,
}

#[derive(ReadEvent)]
#[trace_event(provider = "Shop")]
struct Generic<T> {
    value: Vec<T>,
}

fn read(_: impl ReadEvent) {}

fn uses() {
    read(Generic { value: vec![7_u8] });
    read(Generic { value: vec!["seven"] });
}

fn main() {}
