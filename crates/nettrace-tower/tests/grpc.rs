//! Calls of gRPC over loopback, by tonic: its health service, whose answers are known.
#![allow(clippy::disallowed_methods, reason = "the seam is for the library, not for its tests")]

mod support;

use nettrace_tower::{ClientLayer, ServerLayer};
use support::{Seen, named, record};
use tokio::{net::TcpListener, sync::oneshot};
use tonic::transport::{
    Endpoint, Server,
    server::{TcpConnectInfo, TcpIncoming},
};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::health_reporter,
};
use tower::ServiceBuilder;

/// Asks for the health of a service that there is, of one that there is not, and for one answer of
/// a stream without an end.
/// Returns where that was.
async fn ask() -> String {
    let (reporter, health) = health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let layer = ServerLayer::new()
        .trust_callers()
        .peer(|request| request.extensions.get::<TcpConnectInfo>()?.remote_addr());
    let server = Server::builder()
        .layer(layer)
        .add_service(health)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), async { drop(stopped.await) });
    let server = tokio::spawn(server);

    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let origin = endpoint.uri().clone();
    let channel = endpoint.connect().await.unwrap();
    let channel = ServiceBuilder::new().layer(ClientLayer::new()).service(channel);
    let mut client = HealthClient::with_origin(channel, origin);
    let of = |service: &str| HealthCheckRequest { service: service.to_owned() };
    client.check(of("shop")).await.unwrap();
    client.check(of("bank")).await.unwrap_err();
    let mut changes = client.watch(of("shop")).await.unwrap().into_inner();
    changes.message().await.unwrap().unwrap();
    drop((changes, client));
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    address.to_string()
}

/// The Starts and Stops of a side, in the order of the Starts.
fn calls<'a>(events: &'a [Seen], side: &str) -> Vec<(&'a Seen, &'a Seen)> {
    let stops = named(events, &format!("{side}RequestStop"));
    let stop_of = |start: &&Seen| *stops.iter().find(|stop| stop.span == start.span).unwrap();
    let starts = named(events, &format!("{side}RequestStart"));
    starts.into_iter().map(|start| (start, stop_of(&start))).collect()
}

#[test]
fn calls_of_grpc_tell_their_method_and_their_status() {
    let (address, events) = record(2, ask());
    let (clients, servers) = (calls(&events, "Client"), calls(&events, "Server"));
    for (start, _) in &clients {
        assert_eq!(start.field("authority"), address);
    }

    let methods = ["Check", "Check", "Watch"].map(|name| format!("/grpc.health.v1.Health/{name}"));
    for side in [&clients, &servers] {
        let routes: Vec<_> = side.iter().map(|(start, _)| start.field("route")).collect();
        assert_eq!(routes, methods);
    }
    for ((start, _), (of_client, _)) in servers.iter().zip(&clients) {
        assert_eq!((start.trace, start.parent), (of_client.trace, of_client.span));
        assert!(start.field("peer").contains("127.0.0.1"), "{start:?}");
    }

    let told = |(_, stop): &(&Seen, &Seen)| {
        ["status", "grpc_status", "outcome"].map(|field| stop.field(field).to_owned())
    };
    // NOT_FOUND is the caller's fault. The stream has no status: the client leaves before its end.
    let expected = [["200", "0", "ok"], ["200", "5", "err"], ["200", "", "ok"]];
    assert_eq!(clients.iter().map(told).collect::<Vec<_>>(), expected);
    let expected = [["200", "0", "ok"], ["200", "5", "ok"], ["200", "", "cancelled"]];
    assert_eq!(servers.iter().map(told).collect::<Vec<_>>(), expected);
}
