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

fn main() {}
