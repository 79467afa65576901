//! Errors of the compiler: each error is in the user's own tokens.
use std::num::ParseIntError;

use nettrace_macros::traced;

struct Connection;

#[traced(ret, err)]
fn open(connection: u8) -> Result<Connection, Connection> {
    if connection > 0 { Ok(Connection) } else { Err(Connection) }
}

#[traced(fields = [size = names.len(), first: u64 = names[0]], parent = 1, enabled_if = 2)]
fn values(names: &Connection) {}

impl Connection {
    fn len(&self) -> u8 {
        1
    }
}

#[traced]
fn wrong(text: &str) -> Result<u8, ParseIntError> {
    let number: u16 = text.parse()?;
    Ok(number)
}

#[traced]
async fn wrong_too(text: &str) -> Result<u8, ParseIntError> {
    let number: u16 = text.parse()?;
    Ok(number)
}

mod own {
    #[derive(Debug)]
    pub struct Result<T>(pub T);
}

#[traced(ret)]
fn own_result() -> own::Result<u8> {
    own::Result(1)
}

fn main() {}
