//! The part of kubectl's JSONPath that printer columns use: fields, list positions, `[*]` and filters by one
//! comparison. No ranges, no recursive descent.

use serde_json::{Number, Value};

/// A path into an object, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// A position in a list; negative ones count from its end.
    Index(i64),
    /// Every element of a list, every value of a map.
    All,
    Filter(Filter),
}

/// Which elements of a list are taken.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    /// Where an element has what is looked at.
    path: Path,
    /// None asks only whether it is there.
    test: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators stand before those that they begin with.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Why a text isn't a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at \"{rest}\"")]
pub struct PathError {
    why: &'static str,
    rest: String,
}

impl Path {
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        if rest == "." {
            return Ok(Self { steps });
        }
        while !rest.is_empty() {
            let (step, tail) = step(rest)?;
            steps.push(step);
            rest = tail;
        }
        Ok(Self { steps })
    }

    /// Returns what the path leads to, in the order of the object.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().fold(vec![object], |found, step| {
            found.into_iter().flat_map(|value| step.take(value)).collect()
        })
    }

    /// Returns the first thing that the path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.find(object).first().copied()
    }
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let from_start = if *index < 0 {
                    index.saturating_add(length)
                } else {
                    *index
                };
                let item = usize::try_from(from_start)
                    .ok()
                    .and_then(|index| items.get(index));
                item.into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Filter(filter), Value::Array(items)) => {
                items.iter().filter(|item| filter.takes(item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Filter {
    fn takes(&self, item: &Value) -> bool {
        let Some(found) = self.path.first(item) else {
            return false;
        };
        self.test
            .as_ref()
            .is_none_or(|(comparison, value)| comparison.holds(found, value))
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => as_f64(left).partial_cmp(&as_f64(right)),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        match self {
            Self::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Self::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

fn as_f64(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

fn error(why: &'static str, rest: &str) -> PathError {
    PathError {
        why,
        rest: rest.to_owned(),
    }
}

/// Reads one step and returns it with what follows.
fn step(text: &str) -> Result<(Step, &str), PathError> {
    if let Some(rest) = text.strip_prefix('[') {
        let end = closing(rest).ok_or_else(|| error("unterminated brackets", text))?;
        return Ok((bracketed(&rest[..end])?, &rest[end + 1..]));
    }
    let Some(rest) = text.strip_prefix('.') else {
        return Err(error("a step has to begin with \".\" or \"[\"", text));
    };
    let mut name = String::new();
    let mut characters = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(character),
        }
    }
    match name.as_str() {
        "" if rest.starts_with('[') => step(rest),
        "" => Err(error("a field without a name", text)),
        "*" => Ok((Step::All, &rest[end..])),
        _ => Ok((Step::Field(name), &rest[end..])),
    }
}

/// Returns where the bracket that is open closes; quoted ones don't count.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, character) in text.char_indices() {
        if let Some(open) = quote {
            quote = (open != character).then_some(open);
            continue;
        }
        match character {
            '\'' | '"' => quote = Some(character),
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracketed(text: &str) -> Result<Step, PathError> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = quoted(text) {
        return Ok(Step::Field(name.to_owned()));
    }
    if let Some(inner) = text.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return filter(inner).map(Step::Filter);
    }
    text.parse()
        .map(Step::Index)
        .map_err(|_| error("neither a position, a name nor a filter", text))
}

fn filter(text: &str) -> Result<Filter, PathError> {
    let split = COMPARISONS
        .iter()
        .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
        .min_by_key(|(at, ..)| *at);
    let (left, test) = match split {
        None => (text, None),
        Some((at, sign, comparison)) => (
            &text[..at],
            Some((comparison, literal(&text[at + sign.len()..])?)),
        ),
    };
    let below = left
        .trim()
        .strip_prefix('@')
        .ok_or_else(|| error("a filter has to begin with \"@\"", text))?;
    Ok(Filter {
        path: Path::parse(below)?,
        test,
    })
}

fn literal(text: &str) -> Result<Value, PathError> {
    let text = text.trim();
    match quoted(text) {
        Some(quoted) => Ok(Value::from(quoted)),
        None => serde_json::from_str(text).map_err(|_| error("neither a text, a number nor a boolean", text)),
    }
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_what_printer_columns_show() {
        let object = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "shop"}},
            "spec": {"replicas": 3, "parts": [{"n": 1}, {"n": 2}, {"n": 3}]},
            "status": {"conditions": [
                {"type": "Synced", "status": "False"},
                {"type": "Ready", "status": "True", "reason": "a]b"},
            ]},
        });
        for (path, found) in [
            (".spec.replicas", json!([3])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
            (
                ".status.conditions[?( @.type != 'Ready' )].type",
                json!(["Synced"]),
            ),
            (".status.conditions[?(@.reason=='a]b')].type", json!(["Ready"])),
            (".status.conditions[?(@.reason)].type", json!(["Ready"])),
            (".metadata.labels.app\\.kubernetes\\.io/name", json!(["shop"])),
            (".metadata.labels['app.kubernetes.io/name']", json!(["shop"])),
            (".spec.parts[0].n", json!([1])),
            (".spec.parts[-1].n", json!([3])),
            (".spec.parts[7].n", json!([])),
            (".spec.parts[*].n", json!([1, 2, 3])),
            (".spec.parts[?(@.n>=2)].n", json!([2, 3])),
            (".spec.parts[?(@.n<2)].n", json!([1])),
            (".spec.nothing.here", json!([])),
            (".spec.replicas.n", json!([])),
        ] {
            let parsed = Path::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(json!(parsed.find(&object)), found, "{path}");
        }
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for (text, why) in [
            ("spec", "a step has to begin with \".\" or \"[\" at \"spec\""),
            (".spec..a", "a field without a name at \"..a\""),
            (".spec[0", "unterminated brackets at \"[0\""),
            (".spec[1:2]", "neither a position, a name nor a filter at \"1:2\""),
            (
                ".spec[?(type=='a')]",
                "a filter has to begin with \"@\" at \"type=='a'\"",
            ),
            (
                ".spec[?(@.a==b)]",
                "neither a text, a number nor a boolean at \"b\"",
            ),
        ] {
            assert_eq!(
                Path::parse(text).map_err(|error| error.to_string()),
                Err(why.to_owned()),
                "{text}"
            );
        }
    }
}
