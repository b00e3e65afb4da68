//! Why it isn't certain what Git wants: as long as there is any doubt, nothing is deleted.

use super::Sync;
use super::pruner::{Pruner, Settings};
use crate::reconcile::settings;
use cutover_karmada::name::Revision;

impl Sync {
    /// Says why it isn't known what may go.
    pub(super) fn doubt(&self, pruner: &Pruner, revision: &Revision) -> Option<String> {
        let unreachable = || {
            let why = pruner.unreachable.as_ref()?;
            Some(format!("Git could not be read: {why}"))
        };
        let settings = || pruner.settings.as_ref()?.doubt(revision);
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
            .or_else(|| pruner.undecided_sibling(revision))
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
            Some(format!("{gvk} cannot be found out about: {why}"))
        };
        problem
            .map(|problem| problem.to_string())
            .or_else(refused)
            .or_else(unknown)
    }

    /// Settings that were changed together with the objects are for the next layout of the run.
    pub(super) async fn check_settings(&mut self, revision: &Revision) {
        let Some(pruner) = &mut self.pruner else { return };
        let is_known = pruner
            .settings
            .as_ref()
            .is_some_and(|read| read.are_known_of(revision));
        if pruner.strays.is_empty() || is_known {
            return;
        }
        let read = settings::of(&self.source.repo, revision.clone()).await;
        pruner.settings = Some(Settings {
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
