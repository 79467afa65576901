// Types that read events, with `nettrace-reader` and its feature `derive`: for instance
// `reader.events::<NAME>()`. Made by `nettrace schema --rust`.

/// A request was answered.
#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "Schema-Shop", name = "Answered")]
pub struct Answered {
    /// The path.
    pub url: String,
    pub status: u16,
    pub agent: String,
    pub host: String,
    pub took: std::time::Duration,
    pub customer: Option<String>,
    pub parts: Vec<(u8, i128)>,
    pub three: [f32; 3],
    pub numbers: Vec<u32>,
    pub body: String,
    pub from: std::net::IpAddr,
    pub letter: char,
    pub count: u64,
    pub flag: bool,
    pub lists: Vec<Vec<String>>,
    pub maybe: Option<Vec<Option<u8>>>,
}

/// `Load` begins.
#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "Schema-Shop", name = "LoadStart")]
pub struct LoadStart {
    pub page: u64,
}

/// It ends.
#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "Schema-Shop", name = "LoadStop")]
pub struct LoadStop {
    pub duration: std::time::Duration,
    pub outcome: String,
    pub polls: u32,
    pub busy: std::time::Duration,
}

/// A call of `check_out` begins.
#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "Schema-Shop", name = "check_outStart")]
pub struct CheckOutStart {
    pub cart: u64,
}

/// It ends.
#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]
#[trace_event(provider = "Schema-Shop", name = "check_outStop")]
pub struct CheckOutStop {
    pub duration: std::time::Duration,
    pub outcome: String,
}
