//! `url()`: absolute addresses and absolute paths.

use std::collections::HashMap;

use cel::common::types::{CelList, CelMap, CelMapKey, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};
use http::Uri;

use super::{Answer, Arguments, argument, bool_of, boxed_string, failed, opaque, string, string_of};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Url(Uri);

opaque!(Url, URL, "kubernetes.URL");

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    environment.add_overload("url", "url", vec![STRING_TYPE], url)?;
    environment.add_overload("isURL", "isURL", vec![STRING_TYPE], is_url)?;
    let parts: [(&str, cel::common::functions::Function); 6] = [
        ("getScheme", scheme),
        ("getHost", host),
        ("getHostname", hostname),
        ("getPort", port),
        ("getEscapedPath", path),
        ("getQuery", query),
    ];
    for (name, function) in parts {
        environment.add_member_overload(name, &format!("url.{name}"), URL.to_owned(), vec![], function)?;
    }
    Ok(())
}

fn parse(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    (uri.scheme().is_some() || text.starts_with('/')).then_some(uri)
}

fn url<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&arguments, 0)?;
    let uri = parse(text).ok_or_else(|| {
        failed(format!(
            "URL parse error during conversion from string: parse \"{text}\": invalid URI for request"
        ))
    })?;
    Ok(CowVal::owned(Url(uri)))
}

fn is_url<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(parse(string(&arguments, 0)?).is_some())
}

fn part<'b, 'v>(arguments: &Arguments<'b, 'v>, of: impl Fn(&Uri) -> Option<String>) -> Answer<'b, 'v> {
    string_of(of(&argument::<Url>(arguments, 0)?.0).unwrap_or_default())
}

fn scheme<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    part(&arguments, |uri| uri.scheme_str().map(str::to_owned))
}

/// The host with its port, without the user.
fn host<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    part(&arguments, |uri| {
        let authority = uri.authority()?.as_str();
        Some(authority.rsplit('@').next().unwrap_or(authority).to_owned())
    })
}

fn hostname<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    part(&arguments, |uri| {
        let host = uri.host()?;
        Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
    })
}

fn port<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    part(&arguments, |uri| uri.port().map(|port| port.as_str().to_owned()))
}

fn path<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    part(&arguments, |uri| Some(uri.path().to_owned()))
}

fn query<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let uri = &argument::<Url>(&arguments, 0)?.0;
    let mut values = HashMap::<String, Vec<Box<dyn Val + 'v>>>::new();
    for pair in uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        values
            .entry(decoded(key))
            .or_default()
            .push(boxed_string(&decoded(value)));
    }
    let map: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = values
        .into_iter()
        .map(|(key, values)| {
            (
                CelMapKey::from(key),
                Box::new(CelList::from(values)) as Box<dyn Val + 'v>,
            )
        })
        .collect();
    Ok(CowVal::owned(CelMap::from(map)))
}

/// Undoes the encoding of a query: `+` and `%41`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
