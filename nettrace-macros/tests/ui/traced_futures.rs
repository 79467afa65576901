use std::pin::Pin;

use nettrace_macros::traced;

type Boxed = Pin<Box<dyn Future<Output = u8>>>;

async fn one() -> u8 {
    1
}

#[traced]
fn another(early: bool) -> Pin<Box<dyn Future<Output = u8>>> {
    if early {
        return Box::pin(one());
    }
    Box::pin(async move { 2 })
}

#[traced]
fn made() -> Pin<Box<dyn Future<Output = u8>>> {
    make()
}

#[traced(ret)]
#[track_caller]
fn caller() -> u8 {
    1
}

#[traced]
fn nothing(never: bool) -> Pin<Box<dyn Future<Output = u8>>> {
    while !never {}
    loop {}
}

#[traced(polls)]
fn alias() -> Boxed {
    make()
}

fn make() -> Boxed {
    Box::pin(one())
}

fn main() {}
