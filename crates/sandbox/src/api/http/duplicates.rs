//! Fields that a JSON text has twice: a parsed value keeps only the last.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::Duplicate;

/// Returns the fields that stand twice, in the order of the text.
pub(super) fn duplicates(json: &[u8]) -> Vec<Duplicate> {
    let mut found = Vec::new();
    let mut parser = serde_json::Deserializer::from_slice(json);
    let walk = Walk {
        path: String::new(),
        found: &mut found,
    };
    // A text that is not JSON is refused elsewhere.
    if walk.deserialize(&mut parser).is_err() {
        found.clear();
    }
    found
}

struct Walk<'a> {
    path: String,
    found: &'a mut Vec<Duplicate>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            if seen.contains(&name) {
                self.found.push(Duplicate { path, name });
                map.next_value::<IgnoredAny>()?;
            } else {
                seen.insert(name);
                let found = &mut *self.found;
                map.next_value_seed(Walk { path, found })?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let walk = Walk {
                path: format!("{}[{index}]", self.path),
                found: self.found,
            };
            if items.next_element_seed(walk)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_stands_twice_is_told_with_its_path() {
        let json = br#"{"a": 1, "b": {"c": [1, {"d": null, "d": true}]}, "a": "x", "e": 1.5, "a": 3}"#;
        let found = duplicates(json);
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["b.c[1].d", "a", "a"]);
        assert_eq!(found[0].name, "d");
        assert_eq!(duplicates(br#"{"a": 1, "a"#), []);
    }
}
