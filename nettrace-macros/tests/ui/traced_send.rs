use std::rc::Rc;

use nettrace_macros::traced;

#[traced]
async fn hold(shared: Rc<u8>) -> u8 {
    std::future::ready(()).await;
    *shared
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(hold(Rc::new(1)));
}
