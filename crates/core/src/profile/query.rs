//! Queries of Prometheus: what no version of it reads. Whether a query is right, and what it is about, Prometheus alone says; it is
//! asked before anything is touched.

/// Where a sign stands: line and column, both from 1 on.
type Place = (usize, usize);

/// What a sign is part of.
#[derive(Clone, Copy)]
enum Within {
    Query,
    Comment,
    Text {
        quote: char,
        begins: Place,
        is_escaped: bool,
    },
}

/// Returns why a query can't be read, if its brackets or quotes do not pair up.
pub(super) fn mistake(query: &str) -> Option<String> {
    if query.trim().is_empty() {
        return Some("the query is empty".to_owned());
    }
    let mut open: Vec<(char, Place)> = Vec::new();
    let mut within = Within::Query;
    let (mut line, mut column) = (1, 0);
    for c in query.chars() {
        column += 1;
        within = match within {
            Within::Comment if c != '\n' => Within::Comment,
            Within::Comment => Within::Query,
            Within::Text {
                quote,
                begins,
                is_escaped,
            } => after_text(c, quote, begins, is_escaped),
            Within::Query => match c {
                '#' => Within::Comment,
                '"' | '\'' | '`' => Within::Text {
                    quote: c,
                    begins: (line, column),
                    is_escaped: false,
                },
                _ => {
                    if let Some(why) = bracket(c, (line, column), &mut open) {
                        return Some(why);
                    }
                    Within::Query
                }
            },
        };
        if c == '\n' {
            (line, column) = (line + 1, 0);
        }
    }
    if let Within::Text { quote, begins, .. } = within {
        return Some(told(begins, &format!("the text that {quote} begins has no end")));
    }
    let (bracket, place) = open.pop()?;
    Some(told(place, &format!("{bracket} is not closed")))
}

/// Returns what the next sign is part of after one within a text. `was_escaped`: a backslash stands before that one.
fn after_text(c: char, quote: char, begins: Place, was_escaped: bool) -> Within {
    if c == quote && !was_escaped {
        return Within::Query;
    }
    Within::Text {
        quote,
        begins,
        is_escaped: c == '\\' && quote != '`' && !was_escaped,
    }
}

/// Opens or closes a bracket; returns why it can't be closed there.
fn bracket(c: char, place: Place, open: &mut Vec<(char, Place)>) -> Option<String> {
    let opening = match c {
        '(' | '[' | '{' => {
            open.push((c, place));
            return None;
        }
        ')' => '(',
        ']' => '[',
        '}' => '{',
        _ => return None,
    };
    match open.pop() {
        Some((last, _)) if last == opening => None,
        Some((last, (line, column))) => {
            let why = format!("{c} stands where the {last} of {line}:{column} is not closed");
            Some(told(place, &why))
        }
        None => Some(told(place, &format!("{c} closes nothing"))),
    }
}

fn told((line, column): Place, why: &str) -> String {
    format!("at {line}:{column} of the query: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prometheus_may_read_is_no_mistake() {
        for query in [
            "up",
            "sum by (job) (rate(errors_total{code=~\"5..|(429)\"}[1m:10s])) / 2",
            "count({__name__=~'a(b', c='\\''}) # (",
            "max(up{a=`\\`}) # the half of a \"text\n+ 1",
            "no such query, but its brackets pair up",
        ] {
            assert_eq!(mistake(query), None, "{query}");
        }
    }

    #[test]
    fn what_does_not_pair_up_is_told_with_its_place() {
        for (query, expected) in [
            (
                "rate(errors_total[1m)",
                "at 1:21 of the query: ) stands where the [ of 1:18 is not closed",
            ),
            ("sum(\n  rate(a[5m])", "at 1:4 of the query: ( is not closed"),
            ("up\n  }", "at 2:3 of the query: } closes nothing"),
            (
                "up{a=\"b\\\"}",
                "at 1:6 of the query: the text that \" begins has no end",
            ),
            (" ", "the query is empty"),
        ] {
            assert_eq!(mistake(query).as_deref(), Some(expected), "{query}");
        }
    }
}
