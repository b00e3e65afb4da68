//! How many replicas must stay ready, as people write it in specs.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A share of the replicas at the start, such as `100%`, or a number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Floor {
    /// In percent, at most 100.
    Share(u8),
    Replicas(u32),
}

/// What isn't a floor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a share such as 80%, at most 100%, nor a number of replicas")]
pub struct NotAFloor(String);

impl Floor {
    /// Every replica that there is at the start.
    pub const ALL: Self = Self::Share(100);
    /// What the CRD takes, and nothing that [`FromStr`] doesn't.
    pub const PATTERN: &str = r"^([0-9]{1,2}%|100%|[0-9]{1,6})$";

    /// Returns the number, of so many replicas at the start. A share is rounded up.
    pub fn of(self, total: u32) -> u32 {
        match self {
            // At most all of them.
            Self::Share(percent) => percent_of(percent.into(), total),
            Self::Replicas(replicas) => replicas,
        }
    }
}

/// Returns so many percent of an amount, rounded up: of a few replicas every percentage is at least one.
pub fn percent_of(percent: u32, amount: u32) -> u32 {
    let share = (u64::from(percent) * u64::from(amount)).div_ceil(100);
    u32::try_from(share).unwrap_or(amount).min(amount)
}

impl FromStr for Floor {
    type Err = NotAFloor;

    fn from_str(text: &str) -> Result<Self, NotAFloor> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        // `parse` takes a sign, too.
        let number: Option<u32> = digits
            .bytes()
            .all(|one| one.is_ascii_digit())
            .then(|| digits.parse().ok())
            .flatten();
        let floor = number.and_then(|number| {
            if digits.len() == text.len() {
                return Some(Self::Replicas(number));
            }
            let percent = u8::try_from(number).ok().filter(|percent| *percent <= 100);
            percent.map(Self::Share)
        });
        floor.ok_or_else(|| NotAFloor(text.to_owned()))
    }
}

impl TryFrom<String> for Floor {
    type Error = NotAFloor;

    fn try_from(text: String) -> Result<Self, NotAFloor> {
        text.parse()
    }
}

impl From<Floor> for String {
    fn from(floor: Floor) -> Self {
        floor.to_string()
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => write!(f, "{percent}%"),
            Self::Replicas(replicas) => write!(f, "{replicas}"),
        }
    }
}

impl JsonSchema for Floor {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Floor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": Self::PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str, total: u32) -> Option<u32> {
        text.parse::<Floor>().ok().map(|floor| floor.of(total))
    }

    #[test]
    fn a_share_is_rounded_up_and_a_number_stays() {
        assert_eq!(of("100%", 7), Some(7));
        assert_eq!(of("50%", 7), Some(4));
        assert_eq!(of("0%", 7), Some(0));
        assert_eq!(of("5", 7), Some(5));
        assert_eq!(of("9", 7), Some(9));
    }

    #[test]
    fn what_is_no_floor_is_refused() {
        for text in ["", "%", "many", "-1", "+5", "101%", "5 %", "1e9", "99999999999"] {
            assert_eq!(of(text, 7), None, "{text}");
        }
        assert_eq!(
            "101%".parse::<Floor>().unwrap_err().to_string(),
            "\"101%\" is neither a share such as 80%, at most 100%, nor a number of replicas"
        );
    }

    proptest! {
        #[test]
        fn whatever_the_crd_takes_is_read(text in Floor::PATTERN.trim_matches(['^', '$'])) {
            let floor: Floor = text.parse().unwrap();
            prop_assert_eq!(floor.to_string().parse(), Ok(floor));
        }
    }
}
