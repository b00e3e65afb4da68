//! `ip()` and `cidr()`: addresses and networks.

use std::net::IpAddr;

use cel::common::types::STRING_TYPE;
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::{Answer, Arguments, argument, bool_of, failed, int_of, opaque, string, string_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    length: u8,
}

opaque!(Ip, IP, "net.IP");
opaque!(Cidr, CIDR, "net.CIDR");

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    let of_text: [(&str, cel::common::functions::Function); 5] = [
        ("ip", ip),
        ("isIP", is_ip),
        ("ip.isCanonical", is_canonical),
        ("cidr", cidr),
        ("isCIDR", is_cidr),
    ];
    for (name, function) in of_text {
        environment.add_overload(name, name, vec![STRING_TYPE], function)?;
    }
    environment.add_overload("string", "ip_to_string", vec![IP.to_owned()], ip_text)?;
    environment.add_overload("string", "cidr_to_string", vec![CIDR.to_owned()], cidr_text)?;
    let of_ip: [(&str, cel::common::functions::Function); 6] = [
        ("family", family),
        ("isUnspecified", |arguments| {
            asked(&arguments, IpAddr::is_unspecified)
        }),
        ("isLoopback", |arguments| asked(&arguments, IpAddr::is_loopback)),
        ("isLinkLocalMulticast", |arguments| {
            asked(&arguments, is_link_local_multicast)
        }),
        ("isLinkLocalUnicast", |arguments| {
            asked(&arguments, is_link_local_unicast)
        }),
        ("isGlobalUnicast", |arguments| {
            asked(&arguments, is_global_unicast)
        }),
    ];
    for (name, function) in of_ip {
        environment.add_member_overload(name, &format!("ip.{name}"), IP.to_owned(), vec![], function)?;
    }
    let of_cidr: [(&str, cel::common::functions::Function); 3] = [
        ("ip", cidr_ip),
        ("prefixLength", prefix_length),
        ("masked", masked),
    ];
    for (name, function) in of_cidr {
        environment.add_member_overload(name, &format!("cidr.{name}"), CIDR.to_owned(), vec![], function)?;
    }
    for (id, of) in [
        ("cidr.containsIP.text", STRING_TYPE),
        ("cidr.containsIP", IP.to_owned()),
    ] {
        environment.add_member_overload("containsIP", id, CIDR.to_owned(), vec![of], contains_ip)?;
    }
    for (id, of) in [
        ("cidr.containsCIDR.text", STRING_TYPE),
        ("cidr.containsCIDR", CIDR.to_owned()),
    ] {
        environment.add_member_overload("containsCIDR", id, CIDR.to_owned(), vec![of], contains_cidr)?;
    }
    Ok(())
}

fn parse_ip(text: &str) -> Result<Ip, ExecutionError> {
    let address: IpAddr = text.parse().map_err(|_| {
        let why = format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP");
        failed(why)
    })?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(failed(format!(
            "IPv4-mapped IPv6 address {text:?} is not allowed"
        ))),
        _ => Ok(Ip(address)),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, ExecutionError> {
    let parsed = || {
        let (address, length) = text.split_once('/')?;
        let Ip(address) = parse_ip(address).ok()?;
        let length: u8 = length.parse().ok()?;
        (length <= bits(address)).then_some(Cidr { address, length })
    };
    parsed().ok_or_else(|| {
        failed(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?})"
        ))
    })
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Cidr {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.length))
                    .unwrap_or_default();
                IpAddr::V4((u32::from(v4) & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.length))
                    .unwrap_or_default();
                IpAddr::V6((u128::from(v6) & mask).into())
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        let within = Self {
            address,
            length: self.length,
        };
        address.is_ipv4() == self.address.is_ipv4() && within.masked() == self.masked()
    }
}

fn ip<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(parse_ip(string(&arguments, 0)?)?))
}

fn is_ip<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(parse_ip(string(&arguments, 0)?).is_ok())
}

fn is_canonical<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&arguments, 0)?;
    bool_of(parse_ip(text)?.0.to_string() == text)
}

fn ip_text<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    string_of(argument::<Ip>(&arguments, 0)?.0.to_string())
}

fn family<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    int_of(if argument::<Ip>(&arguments, 0)?.0.is_ipv4() {
        4
    } else {
        6
    })
}

fn asked<'b, 'v>(arguments: &Arguments<'b, 'v>, is: fn(&IpAddr) -> bool) -> Answer<'b, 'v> {
    bool_of(is(&argument::<Ip>(arguments, 0)?.0))
}

fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}

fn cidr<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(parse_cidr(string(&arguments, 0)?)?))
}

fn is_cidr<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(parse_cidr(string(&arguments, 0)?).is_ok())
}

fn cidr_text<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let Cidr { address, length } = argument::<Cidr>(&arguments, 0)?;
    string_of(format!("{address}/{length}"))
}

fn cidr_ip<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Ip(argument::<Cidr>(&arguments, 0)?.address)))
}

fn prefix_length<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    int_of(argument::<Cidr>(&arguments, 0)?.length.into())
}

fn masked<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(argument::<Cidr>(&arguments, 0)?.masked()))
}

fn contains_ip<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let network = *argument::<Cidr>(&arguments, 0)?;
    let Ip(address) = match argument::<Ip>(&arguments, 1) {
        Ok(ip) => *ip,
        Err(_) => parse_ip(string(&arguments, 1)?)?,
    };
    bool_of(network.contains(address))
}

fn contains_cidr<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let network = *argument::<Cidr>(&arguments, 0)?;
    let other = match argument::<Cidr>(&arguments, 1) {
        Ok(cidr) => *cidr,
        Err(_) => parse_cidr(string(&arguments, 1)?)?,
    };
    bool_of(network.contains(other.address) && network.length <= other.length)
}
