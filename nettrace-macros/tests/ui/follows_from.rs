use nettrace_macros::traced;
use nettrace_writer::Context;

#[traced(parent = none, follows_from = context)]
fn both(context: &Context) {}

#[traced(follows_from)]
fn bare() {}

#[traced(follows_from = number)]
fn wrong(number: &u8) {}

fn main() {}
