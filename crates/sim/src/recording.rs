//! What a real run has sent, in its order: of the sandbox, or of a whole control plane. The simulation that is a model of them sends
//! the same.

use std::fmt::Write;

/// What a reconciler sent for one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    lines: Vec<String>,
}

impl Recording {
    /// Takes what was sent, a line each: the phase, and what (`Hold: claim Deployment.apps shop/web`).
    ///
    /// What differs from run to run is left out: the names of canaries, and when one of them is cleared up; that something was sent
    /// again before it showed.
    pub fn of<'l>(lines: impl IntoIterator<Item = &'l str>) -> Self {
        let mut of: Vec<String> = lines.into_iter().filter_map(without_chance).collect();
        of.dedup();
        Self { lines: of }
    }

    /// Reads one that was written down: lines that begin with `#` say where it is from.
    pub fn parse(text: &str) -> Self {
        Self::of(
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty()),
        )
    }

    /// Returns it as it is written down.
    pub fn text(&self, from: &str) -> String {
        let mut text = format!("# {from}\n");
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Returns the first line in which two differ, with what came before it, if they do.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let same = self
            .lines
            .iter()
            .zip(&other.lines)
            .take_while(|(one, two)| one == two)
            .count();
        if same == self.lines.len() && same == other.lines.len() {
            return None;
        }
        let at = |of: &Self| {
            of.lines
                .get(same)
                .map_or_else(|| "nothing more".to_owned(), Clone::clone)
        };
        let before = self.lines[..same]
            .iter()
            .rev()
            .take(3)
            .rev()
            .cloned()
            .collect::<Vec<_>>();
        Some(format!(
            "line {}, after {before:?}: recorded {:?}, and here {:?}",
            same + 1,
            at(self),
            at(other)
        ))
    }
}

fn without_chance(line: &str) -> Option<String> {
    let (phase, what) = line.split_once(": ")?;
    if what == "journal" || what.starts_with("delete canary") {
        return None;
    }
    let what = if what.starts_with("create canary") {
        "create canary"
    } else {
        what
    };
    Some(format!("{phase}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_no_difference() {
        let one = Recording::of([
            "Hold: journal",
            "Hold: create canary canary-a-1-1",
            "Hold: remove the pin",
            "Hold: remove the pin",
        ]);
        let other = Recording::of([
            "Hold: create canary canary-b-1-1",
            "Hold: delete canary canary-b-1-1",
            "Hold: remove the pin",
        ]);
        assert_eq!(one.difference(&other), None);
        assert_eq!(Recording::parse(&one.text("a test")), one);
    }

    #[test]
    fn the_first_difference_is_told_with_what_came_before() {
        let one = Recording::of(["Hold: a", "Hold: b", "Expand: c"]);
        let other = Recording::of(["Hold: a", "Hold: b"]);
        let told = one.difference(&other).unwrap_or_default();
        assert_eq!(
            told,
            r#"line 3, after ["Hold: a", "Hold: b"]: recorded "Expand: c", and here "nothing more""#
        );
    }
}
