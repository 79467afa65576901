//! The events of a request, and what becomes known of it before it ends.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use nettrace_writer::{
    Elapsed, Emit, End, Outcome, Session, SpanEvents, TraceEvent,
    bridge::{Made, is_left_out},
    event::EventType,
};

use crate::headers;

/// The provider of all events of this crate.
///
/// ```
/// use nettrace_tower::{KEYWORD_SERVER, PROVIDER};
/// use nettrace_writer::ProviderFilter;
///
/// // The requests that this process answers, not those that it makes.
/// let filter = ProviderFilter::new(PROVIDER).keywords(KEYWORD_SERVER);
/// ```
pub const PROVIDER: &str = "NetTrace-Tower";

/// The keyword of requests that a [`ServerLayer`](crate::ServerLayer) answers.
pub const KEYWORD_SERVER: u64 = 0x1;

/// The keyword of requests that a [`ClientLayer`](crate::ClientLayer) makes.
pub const KEYWORD_CLIENT: u64 = 0x2;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// A request that is answered here.
#[derive(TraceEvent)]
#[trace_event(provider = "NetTrace-Tower", name = "ServerRequest", keywords = 0x1)]
pub(crate) enum Server<'a> {
    /// A request came in.
    #[trace_event(
        opcode = Start,
        message = "{method} {route} from {peer}",
        key_values = [("nettrace.dimension", "route")]
    )]
    Start {
        /// Such as `GET`.
        method: &'a str,
        /// The pattern that matched the path. Empty if it is not known.
        route: &'a str,
        /// Who sent it.
        peer: Option<SocketAddr>,
    },
    /// The response was sent, or given up.
    #[trace_event(opcode = Stop, message = "{status} after {duration}: {outcome}")]
    Stop {
        /// Since the start.
        duration: Elapsed,
        /// How it ended.
        outcome: Outcome,
        /// How often the response and its body were polled.
        polls: u32,
        /// The time in these polls.
        busy: Elapsed,
        /// The status of the response. 0 if there was none.
        status: u16,
        /// The bytes of the request's body, if the request said how many there are.
        request_bytes: Option<u64>,
        /// The bytes of the response's body that were sent.
        response_bytes: u64,
        /// The status of a call of gRPC, such as 5 for `NOT_FOUND`.
        grpc_status: Option<u16>,
    },
}

/// A request to another service.
#[derive(TraceEvent)]
#[trace_event(provider = "NetTrace-Tower", name = "ClientRequest", keywords = 0x2)]
pub(crate) enum Client<'a> {
    /// A request goes out.
    #[trace_event(
        opcode = Start,
        message = "{method} {route} to {authority}",
        key_values = [("nettrace.dimension", "route")]
    )]
    Start {
        /// Such as `GET`.
        method: &'a str,
        /// The pattern of the path. Empty if it is not known.
        route: &'a str,
        /// Whom it goes to: host and port. Empty if the request does not say.
        authority: &'a str,
    },
    /// The response was received, or given up.
    #[trace_event(opcode = Stop, message = "{status} after {duration}: {outcome}")]
    Stop {
        /// Since the start.
        duration: Elapsed,
        /// How it ended.
        outcome: Outcome,
        /// How often the response and its body were polled.
        polls: u32,
        /// The time in these polls.
        busy: Elapsed,
        /// The status of the response. 0 if there was none.
        status: u16,
        /// The bytes of the request's body, if the request said how many there are.
        request_bytes: Option<u64>,
        /// The bytes of the response's body that were received.
        response_bytes: u64,
        /// The status of a call of gRPC, such as 5 for `NOT_FOUND`.
        grpc_status: Option<u16>,
    },
}

/// The side of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestSide {
    Server,
    Client,
}

impl RequestSide {
    /// Makes the events known to the process, so that from now on [`is_listened_to`] is exact and
    /// filters find their provider.
    ///
    /// [`is_listened_to`]: Self::is_listened_to
    pub(crate) fn register(self) {
        let builder = Session::builder();
        drop(match self {
            Self::Server => builder.register::<Server<'_>>(),
            Self::Client => builder.register::<Client<'_>>(),
        });
    }

    /// Whether somebody listens: one load and one branch. Both events have the same provider, level
    /// and keywords, so whoever listens to one listens to the other.
    #[inline]
    pub(crate) fn is_listened_to(self) -> bool {
        self.start().enabled() != 0
    }

    /// Whether the span that is in force is sampled out. Its Start is counted then.
    #[inline]
    pub(crate) fn is_left_out(self) -> bool {
        let start = self.start();
        is_left_out(start, start.enabled())
    }

    /// The type of the Start.
    #[inline]
    fn start(self) -> &'static EventType {
        match self {
            Self::Server => Server::event_types()[0],
            Self::Client => Client::event_types()[0],
        }
    }
}

/// Facts about a request that become known before it ends. It is moved with the request's future,
/// so it is small.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// [`UNKNOWN`], or how long the request's body is.
    request_bytes: u64,
    response_bytes: u64,
    /// The length of the response's body, if the head states it. Otherwise [`UNKNOWN`].
    expected_bytes: u64,
    status: u16,
    /// 0 if there is none.
    grpc_status: u16,
    has_grpc_status: bool,
    is_error: bool,
    side: RequestSide,
    bodiless: Bodiless,
}

/// No body has so many bytes.
const UNKNOWN: u64 = u64::MAX;

/// Responses without a body, by the method of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bodiless {
    /// None.
    Never,
    /// All: `HEAD`.
    Always,
    /// Those of success: `CONNECT`.
    IfSuccess,
}

impl Exchange {
    pub(crate) fn new(side: RequestSide, method: &Method, request_bytes: Option<u64>) -> Self {
        Self {
            request_bytes: request_bytes.unwrap_or(UNKNOWN),
            response_bytes: 0,
            expected_bytes: UNKNOWN,
            status: 0,
            grpc_status: 0,
            has_grpc_status: false,
            is_error: false,
            side,
            bodiless: match *method {
                Method::HEAD => Bodiless::Always,
                Method::CONNECT => Bodiless::IfSuccess,
                _ => Bodiless::Never,
            },
        }
    }

    /// The head of the response is here. Returns whether a body follows.
    pub(crate) fn head(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        expected_bytes: Option<u64>,
    ) -> bool {
        self.status = status.as_u16();
        self.is_error = match self.side {
            RequestSide::Server => status.is_server_error(),
            RequestSide::Client => status.is_server_error() || status.is_client_error(),
        };
        self.trailers(headers);
        self.expected_bytes = expected_bytes.unwrap_or(UNKNOWN);
        let is_bodiless = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        !(is_bodiless
            || match self.bodiless {
                Bodiless::Never => false,
                Bodiless::Always => true,
                Bodiless::IfSuccess => status.is_success(),
            })
    }

    /// Some bytes of the response's body.
    pub(crate) fn data(&mut self, bytes: usize) {
        self.response_bytes = self.response_bytes.saturating_add(bytes as u64);
    }

    /// Headers that can have the status of a call of gRPC: those after the body, and those of a
    /// response without a body.
    pub(crate) fn trailers(&mut self, headers: &HeaderMap) {
        if headers::has(headers, &GRPC_STATUS) {
            self.grpc(headers);
        }
    }

    /// The status of a call of gRPC, which is here.
    #[inline(never)]
    fn grpc(&mut self, headers: &HeaderMap) {
        let Some(status) = headers.get(&GRPC_STATUS) else { return };
        // What is no number is UNKNOWN.
        let status = status.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(2);
        (self.grpc_status, self.has_grpc_status) = (status, true);
        self.is_error |= match self.side {
            // UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS are
            // the server's faults, as 500 and above are in HTTP.
            RequestSide::Server => matches!(status, 2 | 4 | 12 | 13 | 14 | 15),
            RequestSide::Client => status != 0,
        };
    }

    /// The outcome if its body has ended.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.is_error { Outcome::Err } else { Outcome::Ok }
    }

    /// The outcome if its body is dropped.
    pub(crate) fn outcome_if_dropped(&self) -> Outcome {
        // Whoever writes a body of known length may not ask for its end.
        let is_complete = self.response_bytes >= self.expected_bytes;
        // A client that has its answer may not want the body.
        let is_answered = self.side == RequestSide::Client && self.status != 0;
        if is_complete || is_answered { self.outcome() } else { Outcome::Cancelled }
    }
}

impl SpanEvents for Exchange {
    fn tells_polls() -> bool {
        false
    }

    fn stop(&mut self, end: &End) {
        let End { duration, outcome, polls, busy, .. } = *end;
        let Self { status, response_bytes, .. } = *self;
        let request_bytes = Some(self.request_bytes).filter(|bytes| *bytes != UNKNOWN);
        let grpc_status = self.has_grpc_status.then_some(self.grpc_status);
        match self.side {
            RequestSide::Server => Made(|| Server::Stop {
                duration,
                outcome,
                polls,
                busy,
                status,
                request_bytes,
                response_bytes,
                grpc_status,
            })
            .emit(),
            RequestSide::Client => Made(|| Client::Stop {
                duration,
                outcome,
                polls,
                busy,
                status,
                request_bytes,
                response_bytes,
                grpc_status,
            })
            .emit(),
        }
    }
}
