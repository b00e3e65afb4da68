//! Whether each part of a reconciler is ready: what `/readyz` answers.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::lease::Standing;
use cutover_base::escape;
use cutover_core::redact;

/// How long something may fail before it counts: a server that restarts is no reason.
pub(super) const TROUBLE_AFTER: Duration = Duration::from_secs(15);

/// What came of asking one server, again and again.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    has_succeeded: bool,
    failing: Option<(Instant, String)>,
}

impl Attempts {
    pub(super) fn succeeded(&mut self) {
        self.has_succeeded = true;
        self.failing = None;
    }

    pub(super) fn failed(&mut self, why: String) {
        match &mut self.failing {
            Some((_, known)) => *known = why,
            none => *none = Some((Instant::now(), why)),
        }
    }

    /// Returns why it is not ready.
    fn trouble(&self, now: Instant) -> Option<String> {
        match &self.failing {
            Some((since, why)) if !self.has_succeeded || now.duration_since(*since) >= TROUBLE_AFTER => {
                Some(why.clone())
            }
            None if !self.has_succeeded => Some("no answer yet".to_owned()),
            _ => None,
        }
    }
}

/// One part and why it is not ready, if it isn't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    pub trouble: Option<String>,
}

/// What `/readyz` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// `leader`, or `standby` and who leads.
    pub role: String,
    pub parts: Vec<Part>,
}

impl Readiness {
    /// Returns whether every part is ready.
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.trouble.is_none())
    }
}

impl std::fmt::Display for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let troubled: Vec<&str> = self
            .parts
            .iter()
            .filter(|part| part.trouble.is_some())
            .map(|part| part.name)
            .collect();
        let mut text = match troubled.as_slice() {
            [] => "ready\n".to_owned(),
            names => format!("not ready: {}\n", names.join(", ")),
        };
        let _ = writeln!(text, "role: {}", shown(&self.role));
        for part in &self.parts {
            let state = part.trouble.as_deref().map_or_else(|| "ok".to_owned(), shown);
            let _ = writeln!(text, "{}: {state}", part.name);
        }
        f.write_str(&text)
    }
}

/// Returns words of others as one line, without what is recognisable as a credential.
fn shown(words: &str) -> String {
    const ENOUGH: usize = 400;
    let line = escape::line(&redact::text(words));
    line.chars().take(ENOUGH).collect()
}

/// What a leader has besides: its caches and Git. A process that stands by uses neither.
#[derive(Debug)]
pub(super) struct Working {
    /// Kinds that are not listed, and why.
    pub(super) unlisted: Vec<(String, String)>,
}

/// Puts together what each part has said.
pub(super) fn readiness(
    standing: &Standing,
    api: &Attempts,
    git: &Attempts,
    working: Option<&Working>,
) -> Readiness {
    let now = Instant::now();
    let part = |name, trouble| Part { name, trouble };
    let (role, leads) = match standing {
        Standing::Leading => ("leader".to_owned(), None),
        Standing::Waiting { holder } => (format!("standby ({holder} leads)"), None),
        Standing::Looking => (
            "unknown".to_owned(),
            Some("it is not known yet who leads".to_owned()),
        ),
    };
    let mut parts = vec![part("lease", leads), part("control-plane", api.trouble(now))];
    if *standing == Standing::Leading {
        parts.push(part("git", git.trouble(now)));
        let caches = match working {
            None => Some("the loops have not begun".to_owned()),
            Some(working) => working.unlisted.first().map(|(kind, why)| {
                let more = working.unlisted.len() - 1;
                let more = if more == 0 {
                    String::new()
                } else {
                    format!(" (and {more} more kinds)")
                };
                format!("{kind}: {why}{more}")
            }),
        };
        parts.push(part("caches", caches));
    }
    Readiness { role, parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered() -> Attempts {
        let mut attempts = Attempts::default();
        attempts.succeeded();
        attempts
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_names_the_part_that_is_not_ready_and_shows_no_credential() {
        let mut git = answered();
        git.failed("cannot reach https://user:hunter2@git.example.com/shop\nrole: leader".to_owned());
        let working = Working { unlisted: Vec::new() };
        let look = |git: &Attempts| readiness(&Standing::Leading, &answered(), git, Some(&working));
        assert!(look(&git).is_ready(), "a moment is no trouble");
        tokio::time::advance(TROUBLE_AFTER).await;
        let text = look(&git).to_string();
        assert!(
            text.starts_with("not ready: git\nrole: leader\nlease: ok\ncontrol-plane: ok\ngit: cannot reach"),
            "{text}"
        );
        assert!(!text.contains("hunter2") && text.lines().count() == 6, "{text}");
        git.succeeded();
        assert!(look(&git).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn who_stands_by_needs_neither_git_nor_caches() {
        let standby = Standing::Waiting {
            holder: "one_1".to_owned(),
        };
        let look = |standing: &Standing| readiness(standing, &answered(), &Attempts::default(), None);
        assert_eq!(
            look(&standby).to_string(),
            "ready\nrole: standby (one_1 leads)\nlease: ok\ncontrol-plane: ok\n"
        );
        let leader = look(&Standing::Leading).to_string();
        assert!(leader.starts_with("not ready: git, caches\n"), "{leader}");
        assert!(!look(&Standing::Looking).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_listed_is_named() {
        let unlisted = ["Deployment", "Work"].map(|kind| (kind.to_owned(), "not listed yet".to_owned()));
        let working = Working {
            unlisted: unlisted.into(),
        };
        let readiness = readiness(&Standing::Leading, &answered(), &answered(), Some(&working));
        let text = readiness.to_string();
        assert!(
            text.contains("caches: Deployment: not listed yet (and 1 more kinds)\n"),
            "{text}"
        );
    }
}
