//! The parts of a container image's name, as far as an image overrider changes them.

use std::fmt;

/// An image name taken apart; a tag and a digest do not stand together (the tag wins, as in Karmada).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub registry: String,
    pub repository: String,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    None,
    Tag(String),
    Digest(String),
}

impl Image {
    /// Returns the parts of a name, or `None` when it isn't one.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (name, digest) = match name.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (name, None),
        };
        let path = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[path..].find(':') {
            Some(colon) => (&name[..path + colon], Some(&name[path + colon + 1..])),
            None => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("", name),
        };
        let version = match (tag, digest) {
            (Some(tag), _) if is_tag(tag) => Version::Tag(tag.to_owned()),
            (None, Some(digest)) if is_digest(digest) => Version::Digest(digest.to_owned()),
            (None, None) => Version::None,
            _ => return None,
        };
        is_repository(repository).then(|| Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            version,
        })
    }

    pub(super) fn version(&self) -> &str {
        match &self.version {
            Version::None => "",
            Version::Tag(text) | Version::Digest(text) => text,
        }
    }

    /// Sets the tag or digest; a text that is neither changes nothing.
    pub(super) fn set_version(&mut self, text: &str) {
        if is_tag(text) {
            self.version = Version::Tag(text.to_owned());
        } else if is_digest(text) {
            self.version = Version::Digest(text.to_owned());
        }
    }

    pub(super) fn remove_version(&mut self) {
        self.version = Version::None;
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.registry.is_empty() {
            write!(f, "{}/", self.registry)?;
        }
        f.write_str(&self.repository)?;
        match &self.version {
            Version::None => Ok(()),
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(word) && text.chars().all(|c| word(c) || c == '.' || c == '-')
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.chars().all(|c| c.is_ascii_hexdigit())
    })
}

fn is_repository(text: &str) -> bool {
    !text.is_empty()
        && text.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_tag_and_a_first_part_without_a_dot_is_no_registry() {
        let image = Image::parse("registry.example:5000/team/flink:1.20").unwrap();
        assert_eq!(image.registry, "registry.example:5000");
        assert_eq!(image.repository, "team/flink");
        assert_eq!(image.version(), "1.20");
        assert_eq!(Image::parse("team/flink").unwrap().registry, "");
        assert_eq!(Image::parse("localhost/flink").unwrap().registry, "localhost");
    }

    #[test]
    fn a_digest_replaces_a_tag() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let mut image = Image::parse("flink:1.20").unwrap();
        image.set_version(&digest);
        assert_eq!(image.to_string(), format!("flink@{digest}"));
    }

    #[test]
    fn what_is_no_image_name_is_refused() {
        for name in ["", "Flink", "flink:", "a//b", "flink@sha256:xyz"] {
            assert_eq!(Image::parse(name), None, "{name:?}");
        }
    }
}
