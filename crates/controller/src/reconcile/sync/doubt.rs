//! Why it isn't certain what Git wants: as long as there is any doubt, nothing is deleted.

use super::Sync;
use super::pruner::Pruner;
use crate::reconcile::settings;
use cutover_karmada::name::Revision;

/// What was seen of `cutover.yaml` in a revision.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) revision: Revision,
    /// Whether it says what the sync was made from, or why that could not be read.
    pub(super) same: Result<bool, String>,
}

impl Settings {
    /// Returns whether there is no more to find out about a revision: what could not be read may be read the next time.
    pub(super) fn are_known_of(&self, revision: &Revision) -> bool {
        self.revision == *revision && self.same.is_ok()
    }

    /// Says why it isn't certain that the sync is what a revision asks for.
    pub(super) fn doubt(&self, revision: &Revision) -> Option<String> {
        let doubt = match &self.same {
            Ok(true) => None,
            Ok(false) => Some("cutover.yaml has changed".to_owned()),
            Err(why) => Some(format!("cutover.yaml: {why}")),
        };
        doubt.filter(|_| self.revision == *revision)
    }
}

impl Sync {
    /// Says why it isn't known what may go.
    pub(super) fn doubt(&self, pruner: &Pruner, revision: &Revision) -> Option<String> {
        let unreachable = || {
            let why = pruner.unreachable.as_ref()?;
            Some(format!("Git could not be read: {why}"))
        };
        let settings = || self.settings.as_ref()?.doubt(revision);
        let holding = || {
            let why = self.held.unknown.as_ref()?;
            Some(format!("it is not known what intents hold: {why}"))
        };
        let trouble = || Some(pruner.trouble.as_ref()?.to_string());
        unreachable()
            .or_else(trouble)
            .or_else(|| self.git_doubt())
            .or_else(settings)
            .or_else(|| pruner.followed.unknown(&self.observer))
            .or_else(|| self.siblings.undecided(revision))
            .or_else(holding)
    }

    /// Says why it isn't known all that Git wants.
    pub(super) fn git_doubt(&self) -> Option<String> {
        let problem = self.source.problems().next();
        let refused = || {
            let (what, why) = self.placed.first_refused()?;
            Some(format!("{what}: {why}"))
        };
        let unknown = || {
            let (gvk, why) = self.kinds.unknown.iter().next()?;
            Some(format!("{gvk} cannot be looked up: {why}"))
        };
        problem
            .map(|problem| problem.to_string())
            .or_else(refused)
            .or_else(unknown)
    }

    /// Says why it isn't known what has left Git: nothing may be concluded from that either.
    pub(super) fn leaving_doubt(&self) -> Option<String> {
        let Some(revision) = &self.source.revision else {
            return Some("no revision has been read from Git yet".to_owned());
        };
        self.git_doubt().or_else(|| self.doubt_elsewhere(revision))
    }

    /// The same, by what isn't among this sync's own objects. It may be known in a moment.
    pub(super) fn doubt_elsewhere(&self, revision: &Revision) -> Option<String> {
        let read = self
            .settings
            .as_ref()
            .filter(|settings| settings.revision == *revision);
        let settings = || match read {
            Some(read) => read.doubt(revision),
            None => Some("cutover.yaml has not been read yet".to_owned()),
        };
        self.siblings.undecided(revision).or_else(settings)
    }

    /// Settings that were changed together with the objects are for the next layout of the run.
    pub(super) async fn check_settings(&mut self, revision: &Revision) {
        let is_known = self
            .settings
            .as_ref()
            .is_some_and(|read| read.are_known_of(revision));
        if is_known {
            return;
        }
        let read = settings::of(&self.source.repo, revision.clone()).await;
        self.settings = Some(Settings {
            revision: revision.clone(),
            same: read
                .map(|config| config == *self.source.selection.config)
                .map_err(|error| error.to_string()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_read_again_and_nothing_is_deleted_until_then() {
        let revision = |digit: &str| -> Revision { digit.repeat(40).parse().unwrap() };
        let read = |same| Settings {
            revision: revision("a"),
            same,
        };
        let seen = |same| {
            let settings = read(same);
            let of = revision("a");
            (settings.are_known_of(&of), settings.doubt(&of))
        };
        assert_eq!(seen(Ok(true)), (true, None));
        assert_eq!(
            seen(Ok(false)),
            (true, Some("cutover.yaml has changed".to_owned()))
        );
        assert_eq!(
            seen(Err("it is damaged".to_owned())),
            (false, Some("cutover.yaml: it is damaged".to_owned()))
        );
        assert!(!read(Ok(true)).are_known_of(&revision("b")));
    }
}
