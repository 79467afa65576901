//! Network addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::{encode::PayloadEncoder, field::TraceField, schema::FieldType};

macro_rules! address {
    ($($ty:ty => $kind:ident, $method:ident;)+) => {$(
        impl TraceField for $ty {
            const TYPE: FieldType = FieldType::$kind;

            #[inline]
            fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
                encoder.$method(&$kind::from(*self));
            }
        }
    )+};
}

address! {
    IpAddr => IpAddr, ip_addr;
    Ipv4Addr => IpAddr, ip_addr;
    Ipv6Addr => IpAddr, ip_addr;
    SocketAddr => SocketAddr, socket_addr;
    SocketAddrV4 => SocketAddr, socket_addr;
    SocketAddrV6 => SocketAddr, socket_addr;
}
