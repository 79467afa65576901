//! Requests that a client sends and records, without a network.

mod support;

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::Empty;
use nettrace_tower::{ClientLayer, extract, inject};
use nettrace_writer::Context;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{only, record};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01";

/// So many headers of different names, which are as long as `traceparent`.
fn others(count: usize) -> HeaderMap {
    let name = |number| HeaderName::try_from(format!("x-header-{number:02}")).unwrap();
    (0..count).map(|number| (name(number), "value".parse().unwrap())).collect()
}

#[test]
fn the_callers_headers_are_found_among_few_and_many() {
    for count in 0..20 {
        let mut headers = others(count);
        assert_eq!(extract(&headers), None, "{count}");
        headers.insert("tracestate", "a=1".parse().unwrap());
        assert_eq!(extract(&headers), None, "{count}: a state alone");

        headers.insert("traceparent", PARENT.parse().unwrap());
        headers.append("tracestate", "b=2".parse().unwrap());
        let found = extract(&headers).expect("a valid header");
        assert_eq!(&*found.to_traceparent(), PARENT, "{count}");
        let state = found.state().expect("a valid header");
        assert_eq!(state.as_str(), "a=1,b=2", "{count}");

        headers.remove("tracestate");
        let found = extract(&headers).expect("a valid header");
        assert_eq!((&*found.to_traceparent(), found.state()), (PARENT, None), "{count}");

        headers.append("traceparent", OTHER.parse().unwrap());
        assert_eq!(extract(&headers), None, "{count}: two");
    }
}

#[test]
fn what_is_sent_takes_the_place_of_what_is_there() {
    let mut sent = HeaderMap::new();
    sent.insert("traceparent", PARENT.parse().unwrap());
    let without_state = extract(&sent).expect("a valid header");
    sent.insert("tracestate", "a=1".parse().unwrap());
    let with_state = extract(&sent).expect("a valid header");

    for count in 0..20 {
        for context in [&without_state, &with_state] {
            for name in [None, Some("traceparent"), Some("tracestate")] {
                let mut headers = others(count);
                // Twice, so that more than the first one has to go.
                for value in name.map(|_| [OTHER, OTHER]).into_iter().flatten() {
                    headers.append(name.unwrap_or_default(), value.parse().unwrap());
                }
                inject(&Context::from(context.clone()), &mut headers);
                assert_eq!(extract(&headers).as_ref(), Some(context), "{count} {name:?}");
                let state = headers.get_all("tracestate").iter().count();
                assert_eq!(state, usize::from(context.state().is_some()), "{count} {name:?}");
                assert_eq!(headers.len(), count + 1 + state, "{count} {name:?}");
            }
        }
    }
}

#[test]
fn host_and_port_are_recorded_and_no_password() {
    let client = service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let client = ClientLayer::new().layer(client);
    let cases = [
        ("http://shop/", None, "shop"),
        ("http://shop.example.com:8080/cart", None, "shop.example.com:8080"),
        ("http://tom:secret@shop:8080/", None, "shop:8080"),
        ("http://tom:secret@a-long-name.shop.example.com/", None, "a-long-name.shop.example.com"),
        ("http://tom@[2001:db8::1]:80/", None, "[2001:db8::1]:80"),
        ("/cart", Some("shop:81"), "shop:81"),
        ("/cart", None, ""),
    ];
    for (uri, host, expected) in cases {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Empty::new()).unwrap();
        let (response, events) = record(1, client.oneshot(request));
        drop(response.unwrap());
        assert_eq!(only(&events, "ClientRequestStart").field("authority"), expected, "{uri}");
    }
}
