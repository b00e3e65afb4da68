//! JSONPaths of profiles: what one may ask for, so that looking it up takes time in proportion to the object.

use jsonpath_rust::parser::parse_json_path;

use super::Error;

/// The longest path, in bytes.
pub(super) const BYTES: usize = 256;

/// What multiplies the places that are looked at, and how often a path may use it.
const MULTIPLIERS: [(&str, usize); 4] = [("..", 1), ("*", 3), ("?", 1), (",", 0)];

pub(super) fn check(path: &str) -> Result<(), Error> {
    if path.len() > BYTES {
        let shown = path.get(..40).unwrap_or_default();
        let message = format!("it has {} bytes: the limit is {BYTES}", path.len());
        return Err(error(&format!("{shown}…"), message));
    }
    for (multiplier, most) in MULTIPLIERS {
        let found = path.matches(multiplier).count();
        if found > most {
            let message = format!("it has {multiplier:?} {found} times: the limit is {most}");
            return Err(error(path, message));
        }
    }
    parse_json_path(path)
        .map(drop)
        .map_err(|why| error(path, why.to_string()))
}

pub(super) fn error(path: &str, message: String) -> Error {
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
            assert!(check(&path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_to_a_field_is_taken() {
        for path in [
            "$.status.jobStatus.upgradeSavepointPath",
            "$.status.conditions[?(@.type == 'Saved')].message",
            "$..lastSavepoint.location",
            "$['status']['a.b'][0]",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }
}
