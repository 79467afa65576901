use nettrace_macros::traced;

#[traced(provider = "Contoso")]
struct Request;

#[traced(provider = "Contoso")]
impl Request {
    fn answer(&self) {}
}

#[traced]
trait Answer {
    fn answer(&self);
}

fn main() {}
