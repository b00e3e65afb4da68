//! Label and field selectors: parsing, with a kube-apiserver's error texts, and matching.

use std::fmt;

use serde_json::Value;

/// A label selector: requirements that all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// Why a selector could not be parsed; the text of a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Selector {
    /// Parses `a=b,c!=d,e in (f,g),h,!i,j>1`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser {
            tokens: tokens(text),
            position: 0,
        }
        .selector()
        .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))
    }

    /// Converts a `LabelSelector` object (`matchLabels`, `matchExpressions`).
    pub fn from_label_selector(selector: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(requirement(key, Operator::In, values).map_err(SelectorError)?);
        }
        for expression in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            let values = expression
                .get("values")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(requirement(text("key"), operator, values).map_err(SelectorError)?);
        }
        Ok(Self { requirements })
    }

    /// Returns whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether labels (`metadata.labels`) are selected.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        self.requirements.iter().all(|requirement| {
            let label = labels
                .and_then(|labels| labels.get(&requirement.key))
                .and_then(Value::as_str);
            requirement.holds(label)
        })
    }

    /// Returns whether an object is selected.
    pub fn selects(&self, object: &Value) -> bool {
        self.matches(object["metadata"].get("labels"))
    }
}

impl Requirement {
    fn holds(&self, label: Option<&str>) -> bool {
        let is_listed = |label: &str| self.values.iter().any(|value| value == label);
        let bound = || self.values.first().and_then(|value| value.parse::<i64>().ok());
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match self.operator {
            Operator::In => label.is_some_and(is_listed),
            Operator::NotIn => !label.is_some_and(is_listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => {
                matches!((number(), bound()), (Some(number), Some(bound)) if number > bound)
            }
            Operator::LessThan => {
                matches!((number(), bound()), (Some(number), Some(bound)) if number < bound)
            }
        }
    }
}

/// In the canonical form, which parses to the same selector.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let Requirement {
                key,
                operator,
                values,
            } = requirement;
            let list = values.join(",");
            match (operator, values.len()) {
                (Operator::Exists, _) => write!(f, "{key}")?,
                (Operator::DoesNotExist, _) => write!(f, "!{key}")?,
                (Operator::In, 1) => write!(f, "{key}={list}")?,
                (Operator::NotIn, 1) => write!(f, "{key}!={list}")?,
                (Operator::In, _) => write!(f, "{key} in ({list})")?,
                (Operator::NotIn, _) => write!(f, "{key} notin ({list})")?,
                (Operator::GreaterThan, _) => write!(f, "{key}>{list}")?,
                (Operator::LessThan, _) => write!(f, "{key}<{list}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    // Longer signs first.
    const SIGNS: &[&str] = &["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = rest[sign.len()..].trim_start();
            continue;
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || "=!(),><".contains(c))
            .unwrap_or(rest.len());
        tokens.push(Token::Word(rest[..end].to_owned()));
        rest = rest[end..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.position += 1;
        token
    }

    fn selector(mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(Selector { requirements });
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                None => break,
                Some(Token::Sign(",")) => {
                    if !matches!(self.peek(), Some(Token::Word(_) | Token::Sign("!"))) {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            self.found()
                        ));
                    }
                }
                Some(token) => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        token.text()
                    ));
                }
            }
        }
        // The real parser sorts them by key.
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Selector { requirements })
    }

    fn found(&self) -> String {
        self.peek()
            .map_or_else(String::new, |token| token.text().to_owned())
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Some(&Token::Sign("!"));
        if negated {
            self.position += 1;
        }
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            Some(token) => return Err(format!("found '{}', expected: identifier", token.text())),
            None => return Err("found '', expected: identifier".to_owned()),
        };
        check_key(&key)?;
        if negated {
            return requirement(&key, Operator::DoesNotExist, Vec::new());
        }
        match self.peek().cloned() {
            None | Some(Token::Sign(",")) => requirement(&key, Operator::Exists, Vec::new()),
            Some(Token::Sign("=" | "==")) => self.single(&key, Operator::In),
            Some(Token::Sign("!=")) => self.single(&key, Operator::NotIn),
            Some(Token::Sign(">")) => self.single(&key, Operator::GreaterThan),
            Some(Token::Sign("<")) => self.single(&key, Operator::LessThan),
            Some(Token::Word(word)) if word == "in" => self.list(&key, Operator::In),
            Some(Token::Word(word)) if word == "notin" => self.list(&key, Operator::NotIn),
            Some(token) => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                token.text()
            )),
        }
    }

    fn single(&mut self, key: &str, operator: Operator) -> Result<Requirement, String> {
        self.position += 1;
        let value = match self.peek().cloned() {
            None | Some(Token::Sign(",")) => String::new(),
            Some(Token::Word(word)) => {
                self.position += 1;
                word
            }
            Some(token) => return Err(format!("found '{}', expected: identifier", token.text())),
        };
        requirement(key, operator, vec![value])
    }

    fn list(&mut self, key: &str, operator: Operator) -> Result<Requirement, String> {
        self.position += 1;
        match self.next() {
            Some(Token::Sign("(")) => {}
            other => {
                let found = other.as_ref().map_or("", Token::text);
                return Err(format!("found '{found}' expected: '('"));
            }
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    values.push(word);
                    match self.next() {
                        Some(Token::Sign(",")) => {
                            if self.peek() == Some(&Token::Sign(")")) {
                                values.push(String::new());
                            }
                        }
                        Some(Token::Sign(")")) => break,
                        other => {
                            let found = other.as_ref().map_or("", Token::text);
                            return Err(format!("found '{found}', expected: ',' or ')'"));
                        }
                    }
                }
                Some(Token::Sign(",")) => values.push(String::new()),
                Some(Token::Sign(")")) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    break;
                }
                other => {
                    let found = other.as_ref().map_or("", Token::text);
                    return Err(format!("found '{found}', expected: ',', ')' or identifier"));
                }
            }
        }
        values.sort();
        values.dedup();
        requirement(key, operator, values)
    }
}

fn requirement(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, String> {
    check_key(key)?;
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            return Err(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            );
        }
        Operator::GreaterThan | Operator::LessThan => {
            if let Some(value) = values.first().filter(|value| value.parse::<i64>().is_err()) {
                return Err(format!(
                    "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ));
            }
        }
        _ => {}
    }
    for (index, value) in values.iter().enumerate() {
        if !is_label_value(value) {
            return Err(format!(
                "values[{index}][{key}]: Invalid value: {value:?}: {LABEL_VALUE}"
            ));
        }
    }
    Ok(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const LABEL_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn check_key(key: &str) -> Result<(), String> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    if name.is_empty() {
        return Err(format!(
            "key: Invalid value: {key:?}: name part must be non-empty"
        ));
    }
    if name.len() > 63 {
        return Err(format!(
            "key: Invalid value: {key:?}: name part must be no more than 63 bytes"
        ));
    }
    if is_label_value(name) {
        Ok(())
    } else {
        Err(format!("key: Invalid value: {key:?}: {LABEL_NAME}"))
    }
}

/// Whether a text may be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && outer(text.chars().next()) && outer(text.chars().last())
}

/// Returns whether a text is a DNS subdomain, as the names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.bytes().all(|byte| inner(byte) || byte == b'-')
            && label.bytes().next().is_some_and(inner)
            && label.bytes().last().is_some_and(inner)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A field selector: `metadata.name=a,status.phase!=Running`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses the text; which fields a kind knows is another question ([`FieldSelector::unsupported`]).
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let invalid = || SelectorError(format!("invalid selector: '{part}'; can't understand '{part}'"));
            let at = unescaped_sign(&part).ok_or_else(invalid)?;
            let (path, rest) = part.split_at(at);
            let (equal, value) = match (
                rest.strip_prefix("!="),
                rest.strip_prefix("=="),
                rest.strip_prefix('='),
            ) {
                (Some(value), _, _) => (false, value),
                (_, Some(value), _) | (_, None, Some(value)) => (true, value),
                _ => return Err(invalid()),
            };
            terms.push(FieldTerm {
                path: path.to_owned(),
                value: unescape(value),
                equal,
            });
        }
        Ok(Self { terms })
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the name that an object must have to be selected, if the selector asks for one.
    pub fn name(&self) -> Option<&str> {
        let term = self
            .terms
            .iter()
            .find(|term| term.equal && term.path == "metadata.name")?;
        Some(&term.value)
    }

    /// Returns the error of a server that doesn't know one of the fields. All kinds know `metadata.name` and
    /// `metadata.namespace`; `known` lists the others, as in `status.phase`.
    pub fn unsupported(&self, known: &[&str]) -> Option<SelectorError> {
        let is_known =
            |path: &str| matches!(path, "metadata.name" | "metadata.namespace") || known.contains(&path);
        let term = self.terms.iter().find(|term| !is_known(&term.path))?;
        Some(SelectorError(format!("field label not supported: {}", term.path)))
    }

    /// Returns whether an object is selected. An absent field is the empty text.
    pub fn selects(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let found = term
                .path
                .split('.')
                .try_fold(object, |value, name| value.get(name));
            let text = match found {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            (text == term.value) == term.equal
        })
    }
}

/// Returns the fields of a built-in kind that field selectors may name, beside name and namespace.
pub fn selectable_fields(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
        } else if let Some(last) = terms.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms
}

fn unescaped_sign(part: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, c) in part.char_indices() {
        let is_sign = c == '=' || part[index..].starts_with("!=");
        if is_sign && !escaped {
            return Some(index);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: &Value) -> bool {
        Selector::parse(selector).unwrap().matches(Some(labels))
    }

    #[test]
    fn every_operator_of_a_label_selector_is_understood() {
        let labels = json!({"app": "web", "tier": "a", "n": "5"});
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "other!=x",
            "app in (db, web)",
            "app notin (db)",
            "other notin (x)",
            "!other",
            "n>4",
            "n<6",
            "app=web,tier in (a),!x",
            "empty!=",
        ] {
            assert!(selects(yes, &labels), "{yes}");
        }
        for no in [
            "other",
            "app=db",
            "app!=web",
            "app notin (web,db)",
            "!app",
            "n>5",
            "app in (db)",
            "x=",
            "other>1",
        ] {
            assert!(!selects(no, &labels), "{no}");
        }
    }

    #[test]
    fn a_selector_prints_as_it_is_parsed() {
        let selector = Selector::parse("b notin (y,x), a==1, !c, d, e!=2").unwrap();
        assert_eq!(selector.to_string(), "a=1,b notin (x,y),!c,d,e!=2");
        assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_selector_that_cannot_be_parsed_says_where() {
        let error = |text: &str| Selector::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("a=b,"),
            "unable to parse requirement: found '', expected: identifier after ','"
        );
        assert_eq!(
            error("=a"),
            "unable to parse requirement: found '=', expected: identifier"
        );
        assert_eq!(
            error("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        assert!(error("a=-b").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be an empty string"
        ));
        assert!(
            error("-a")
                .starts_with("unable to parse requirement: key: Invalid value: \"-a\": name part must")
        );
    }

    #[test]
    fn a_label_selector_object_selects_like_its_text() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "DoesNotExist"}]});
        let selector = Selector::from_label_selector(&selector).unwrap();
        assert!(selector.matches(Some(&json!({"app": "web", "tier": "b"}))));
        assert!(!selector.matches(Some(&json!({"app": "web", "tier": "c"}))));
        assert!(!selector.matches(None));
    }

    #[test]
    fn a_field_selector_compares_fields_as_text() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running"}});
        let selects = |text: &str| FieldSelector::parse(text).unwrap().selects(&pod);
        assert!(selects("metadata.name=a,status.phase!=Failed,spec.nodeName="));
        assert!(selects("metadata.namespace==n"));
        assert!(!selects("metadata.name=b"));
        assert_eq!(FieldSelector::parse("metadata.name=a").unwrap().name(), Some("a"));
        let unknown = FieldSelector::parse("spec.foo=1")
            .unwrap()
            .unsupported(&[])
            .unwrap();
        assert_eq!(unknown.to_string(), "field label not supported: spec.foo");
        assert_eq!(
            FieldSelector::parse("foo").unwrap_err().to_string(),
            "invalid selector: 'foo'; can't understand 'foo'"
        );
        assert_eq!(
            FieldSelector::parse("metadata.name=a\\,b").unwrap().name(),
            Some("a,b")
        );
    }
}
