//! Which host keys a `known_hosts` file of OpenSSH allows for a server. Certificate authorities are not supported.

use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use wildmatch::WildMatch;

/// What a `known_hosts` file says of the key that a server showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostKeyCheck {
    Known,
    /// The file has no key for the server.
    Unknown,
    /// The file has keys for the server, but not this one.
    Different,
    /// The file says that the key must not be trusted.
    Revoked,
}

/// Judges the public key (in SSH wire format) that `host` showed on `port`.
pub(super) fn judge(known_hosts: &str, host: &str, port: u16, key: &[u8]) -> HostKeyCheck {
    let name = match port {
        22 => host.to_ascii_lowercase(),
        port => format!("[{}]:{port}", host.to_ascii_lowercase()),
    };
    let mut verdict = HostKeyCheck::Unknown;
    for entry in known_hosts.lines().filter_map(Entry::parse) {
        if entry.marker == Some("@cert-authority") || !entry.names(&name) {
            continue;
        }
        let same = openssl::base64::decode_block(entry.key).is_ok_and(|known| known == key);
        match (entry.marker, same) {
            (Some("@revoked"), true) => return HostKeyCheck::Revoked,
            (None, true) => verdict = HostKeyCheck::Known,
            (None, false) if verdict == HostKeyCheck::Unknown => verdict = HostKeyCheck::Different,
            (Some(_), _) | (None, false) => {}
        }
    }
    verdict
}

struct Entry<'a> {
    marker: Option<&'a str>,
    hosts: &'a str,
    key: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut words = line.split_ascii_whitespace().peekable();
        let marker = words.next_if(|word| word.starts_with('@'));
        let hosts = words.next()?;
        let _kind = words.next()?;
        let key = words.next()?;
        Some(Self { marker, hosts, key })
    }

    /// Says whether this line is about the host; a negated pattern excludes it whatever else matches.
    fn names(&self, name: &str) -> bool {
        let mut named = false;
        for pattern in self.hosts.split(',') {
            match pattern.strip_prefix('!') {
                Some(excluded) if matches(excluded, name) => return false,
                Some(_) => {}
                None => named |= matches(pattern, name),
            }
        }
        named
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("|1|") {
        Some(hashed) => hashed
            .split_once('|')
            .and_then(|(salt, hash)| Some((decoded(salt)?, decoded(hash)?)))
            .is_some_and(|(salt, hash)| hmac_sha1(&salt, name).is_some_and(|actual| actual == hash)),
        None => WildMatch::new(&pattern.to_ascii_lowercase()).matches(name),
    }
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    openssl::base64::decode_block(base64).ok()
}

fn hmac_sha1(salt: &[u8], name: &str) -> Option<Vec<u8>> {
    let key = PKey::hmac(salt).ok()?;
    let mut signer = Signer::new(MessageDigest::sha1(), &key).ok()?;
    signer.sign_oneshot_to_vec(name.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn verdict(file: &str, host: &str, port: u16) -> HostKeyCheck {
        judge(&file.replace("KEY", KEY), host, port, &decoded(KEY).unwrap())
    }

    #[test]
    fn a_host_is_known_by_name_pattern_or_port() {
        assert_eq!(
            verdict("example.com ssh-ed25519 KEY me@here", "Example.com", 22),
            HostKeyCheck::Known
        );
        assert_eq!(
            verdict("a,*.example.com ssh-ed25519 KEY", "git.example.com", 22),
            HostKeyCheck::Known
        );
        assert_eq!(
            verdict("[example.com]:2222 ssh-ed25519 KEY", "example.com", 2222),
            HostKeyCheck::Known
        );
        assert_eq!(
            verdict("g?t.example.com ssh-ed25519 KEY", "git.example.com", 22),
            HostKeyCheck::Known
        );
    }

    #[test]
    fn another_name_or_port_is_unknown() {
        assert_eq!(
            verdict("example.com ssh-ed25519 KEY", "example.org", 22),
            HostKeyCheck::Unknown
        );
        assert_eq!(
            verdict("example.com ssh-ed25519 KEY", "example.com", 2222),
            HostKeyCheck::Unknown
        );
        assert_eq!(
            verdict("*.com,!bad.com ssh-ed25519 KEY", "bad.com", 22),
            HostKeyCheck::Unknown
        );
        assert_eq!(
            verdict("# example.com ssh-ed25519 KEY\n\n", "example.com", 22),
            HostKeyCheck::Unknown
        );
        assert_eq!(
            verdict("@cert-authority example.com ssh-ed25519 KEY", "example.com", 22),
            HostKeyCheck::Unknown
        );
    }

    #[test]
    fn another_key_of_a_known_host_is_different() {
        assert_eq!(
            verdict("example.com ssh-ed25519 AAAA", "example.com", 22),
            HostKeyCheck::Different
        );
        let both = "example.com ssh-rsa AAAA\nexample.com ssh-ed25519 KEY";
        assert_eq!(verdict(both, "example.com", 22), HostKeyCheck::Known);
    }

    #[test]
    fn a_revoked_key_is_refused_even_if_another_line_knows_it() {
        let file = "example.com ssh-ed25519 KEY\n@revoked * ssh-ed25519 KEY";
        assert_eq!(verdict(file, "example.com", 22), HostKeyCheck::Revoked);
    }

    #[test]
    fn hashed_names_are_compared_by_their_hash() {
        let salt = openssl::base64::encode_block(b"01234567890123456789");
        let hash = openssl::base64::encode_block(&hmac_sha1(b"01234567890123456789", "example.com").unwrap());
        let line = format!("|1|{salt}|{hash} ssh-ed25519 KEY");
        assert_eq!(verdict(&line, "example.com", 22), HostKeyCheck::Known);
        assert_eq!(verdict(&line, "example.org", 22), HostKeyCheck::Unknown);
    }

    #[test]
    fn a_pattern_of_many_stars_ends() {
        assert!(!matches(&"*a".repeat(40), &"a".repeat(39)));
        assert!(matches("**", ""));
    }
}
