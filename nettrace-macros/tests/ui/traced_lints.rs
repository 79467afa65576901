//! Lints that hold for a function hold also if it is traced.
#![deny(dead_code, unused_variables, unused_mut, unreachable_code)]

use nettrace_writer::traced;

#[traced]
fn unused() {}

#[traced]
fn result() -> Result<u8, ()> {
    Ok(1)
}

#[traced]
async fn future(argument: String, _other: String) {}

#[traced]
pub fn variables(argument: String, mut other: String) -> Result<(), String> {
    return Err(other);
    Ok(())
}

fn main() {
    drop(variables(String::new(), String::new()));
}
