use nettrace_macros::traced;

#[traced(provider = "Contoso")]
struct Request;

fn main() {}
