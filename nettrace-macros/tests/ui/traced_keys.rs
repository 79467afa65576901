use nettrace_macros::traced;

#[traced(levle = Error)]
fn unknown() {}

#[traced(polls, ret, err)]
fn nothing() {}

#[traced(ret = hex)]
fn text() -> u8 {
    1
}

#[traced(err)]
fn optional() -> Option<u8> {
    None
}

#[traced(err = debug)]
async fn number() -> u8 {
    1
}

#[traced(err)]
fn pair() -> (u8, u8) {
    (1, 1)
}

struct Connection;

#[traced(fields = [connection])]
fn open(connection: Connection) {}

fn main() {}
