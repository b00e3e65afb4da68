//! JSONPaths of profiles: what one may ask for, so that looking it up takes time in proportion to the object.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use super::Error;

/// The longest path, in bytes.
pub(super) const BYTES: usize = 256;

/// What multiplies the places that are looked at, and how often a path may use it.
const MULTIPLIERS: [(&str, usize); 4] = [("..", 1), ("*", 3), ("?", 1), (",", 0)];

/// A path that has been parsed.
#[derive(Debug)]
pub(super) struct Path {
    source: String,
    query: JpQuery,
}

impl Path {
    /// Parses a path that is within the limits.
    pub(super) fn parse(source: &str) -> Result<Self, Error> {
        if source.len() > BYTES {
            let shown = source.get(..40).unwrap_or_default();
            let message = format!("it has {} bytes: the limit is {BYTES}", source.len());
            return Err(error(&format!("{shown}…"), message));
        }
        for (multiplier, most) in MULTIPLIERS {
            let found = source.matches(multiplier).count();
            if found > most {
                let message = format!("it has {multiplier:?} {found} times: the limit is {most}");
                return Err(error(source, message));
            }
        }
        let query = parse_json_path(source).map_err(|why| error(source, why.to_string()))?;
        Ok(Self {
            source: source.to_owned(),
            query,
        })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns what stands there in an object.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Result<Vec<&'a Value>, Error> {
        let found =
            js_path_process(&self.query, object).map_err(|why| error(&self.source, why.to_string()))?;
        Ok(found.into_iter().map(|found| found.val).collect())
    }
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Field(String),
    /// To some items of a list, or fields of a mapping.
    Items,
    /// To any place.
    Anywhere,
}

/// Returns the steps of a path; none where it can't be parsed.
pub(crate) fn links(source: &str) -> Vec<Link> {
    let Ok(path) = Path::parse(source) else {
        return Vec::new();
    };
    let links = path.query.segments.iter().map(|segment| match segment {
        Segment::Selector(Selector::Name(name)) => Link::Field(name.clone()),
        Segment::Selector(_) => Link::Items,
        Segment::Descendant(_) | Segment::Selectors(_) => Link::Anywhere,
    });
    links.collect()
}

fn error(path: &str, message: String) -> Error {
    Error::Path {
        path: path.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_looks_at_places_again_and_again_is_refused() {
        for path in [
            "$..*..*..*..*".to_owned(),
            format!("$.a{}", "[0,0]".repeat(40)),
            "$[*][*][*][*]".to_owned(),
            "$.a[?(@.b[?(@.c)])]".to_owned(),
            format!("$.{}", "a".repeat(BYTES)),
            "$.a[".to_owned(),
        ] {
            assert!(Path::parse(&path).is_err(), "{path}");
        }
    }

    #[test]
    fn the_steps_of_a_path_are_told() {
        let field = |name: &str| Link::Field(name.to_owned());
        assert_eq!(
            links("$.status['a.b'][0].x"),
            [field("status"), field("a.b"), Link::Items, field("x")]
        );
        assert_eq!(
            links("$.list[?(@.type == 'Saved')].x"),
            [field("list"), Link::Items, field("x")]
        );
        assert_eq!(links("$.a..b"), [field("a"), Link::Anywhere]);
        assert_eq!(links("$.a["), []);
    }

    #[test]
    fn a_path_to_a_field_is_taken() {
        for path in [
            "$.status.jobStatus.upgradeSavepointPath",
            "$.status.conditions[?(@.type == 'Saved')].message",
            "$..lastSavepoint.location",
            "$['status']['a.b'][0]",
        ] {
            assert_eq!(Path::parse(path).map(drop), Ok(()), "{path}");
        }
    }
}
