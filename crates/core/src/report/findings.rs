//! Findings of a check: for a terminal, for programs, and as annotations of a pull request.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::annotations::{Annotation, MOST_ANNOTATIONS, annotation_commands};
use crate::error::Error;
use crate::finding::{Finding, Severity};
use cutover_base::escape::visible;

const PLACE: Style = AnsiColor::Blue.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Returns each finding with its place and hint; nothing when there are none.
pub fn findings_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let style = style(finding.severity);
        let (severity, code, message) = (finding.severity, finding.code, visible(&finding.message));
        let _ = writeln!(text, "{style}{severity}[{code}]{style:#}: {message}");
        if let Some(location) = &finding.location {
            let _ = writeln!(text, "  {PLACE}-->{PLACE:#} {}", visible(&location.to_string()));
        }
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", visible(hint));
        }
    }
    text
}

/// Returns `{"findings": […]}`.
pub fn findings_json(findings: &[Finding]) -> Result<String, Error> {
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "code": finding.code,
                "rule": finding.code.rule().name,
                "severity": finding.severity,
                "message": finding.message,
                "hint": finding.hint,
                "location": finding.location,
            })
        })
        .collect();
    serde_json::to_string_pretty(&json!({ "findings": findings }))
        .map(|text| text + "\n")
        .map_err(|error| Error::internal(format!("findings cannot be written as JSON: {error}")))
}

/// Returns workflow commands that GitHub shows beside the lines they are about.
pub fn findings_github(findings: &[Finding]) -> String {
    let annotations: Vec<Annotation> = findings.iter().map(Annotation::from).collect();
    annotation_commands(&annotations, MOST_ANNOTATIONS)
}

/// Returns `2 errors, 1 warning`, or `no findings`.
pub fn findings_summary(findings: &[Finding]) -> String {
    let counted = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ];
    let parts: Vec<String> = counted
        .iter()
        .filter_map(|(severity, word)| {
            let number = findings
                .iter()
                .filter(|finding| finding.severity == *severity)
                .count();
            let plural = if number == 1 { "" } else { "s" };
            (number > 0).then(|| format!("{number} {word}{plural}"))
        })
        .collect();
    if parts.is_empty() {
        "no findings".to_owned()
    } else {
        parts.join(", ")
    }
}

const fn style(severity: Severity) -> Style {
    let color = match severity {
        Severity::Error => AnsiColor::Red,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Note => AnsiColor::Cyan,
    };
    color.on_default().bold()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Code;
    use cutover_karmada::name::Location;

    fn finding() -> Finding {
        let at = Location {
            path: "a,b/c.yaml".to_owned(),
            line: 3,
            column: 7,
        };
        Finding::new(Code::UnknownField, at, "spec.clusterAfinity is 100% wrong")
            .hint("did you mean clusterAffinity?")
    }

    #[test]
    fn annotations_cannot_be_broken_out_of() {
        insta::assert_snapshot!(findings_github(&[finding()]), @"::error title=CUT0006,file=a%2Cb/c.yaml,line=3,col=7::spec.clusterAfinity is 100%25 wrong%0Ahint: did you mean clusterAffinity?");
    }

    #[test]
    fn text_json_and_summary_say_the_same() {
        let text = anstream::adapter::strip_str(&findings_text(&[finding()])).to_string();
        assert_eq!(text.trim_end(), finding().to_string());
        assert_eq!(findings_summary(&[finding(), finding()]), "2 errors");
        assert_eq!(findings_summary(&[]), "no findings");
        insta::assert_snapshot!(findings_json(&[finding()]).unwrap(), @r#"
    {
      "findings": [
        {
          "code": "CUT0006",
          "rule": "unknown-field",
          "severity": "error",
          "message": "spec.clusterAfinity is 100% wrong",
          "hint": "did you mean clusterAffinity?",
          "location": {
            "path": "a,b/c.yaml",
            "line": 3,
            "column": 7
          }
        }
      ]
    }
    "#);
    }
}
