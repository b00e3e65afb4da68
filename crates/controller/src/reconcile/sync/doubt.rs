//! Why it isn't certain what Git wants: as long as there is any doubt, nothing is deleted.

use super::Sync;
use super::pruner::Pruner;
use crate::reconcile::settings;
use cutover_karmada::name::Revision;

impl Sync {
    /// Says why it isn't known what may go.
    pub(super) fn doubt(&self, pruner: &Pruner, revision: &Revision) -> Option<String> {
        let unreachable = || {
            let why = pruner.unreachable.as_ref()?;
            Some(format!("Git could not be read: {why}"))
        };
        let settings = || {
            let (read, doubt) = pruner.settings.as_ref()?;
            doubt.clone().filter(|_| read == revision)
        };
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
        if pruner.strays.is_empty() || pruner.settings.as_ref().is_some_and(|(read, _)| read == revision) {
            return;
        }
        let doubt = match settings::of(&self.source.repo, revision.clone()).await {
            Ok(config) if config == *self.source.selection.config => None,
            Ok(_) => Some("cutover.yaml has changed".to_owned()),
            Err(error) => Some(format!("cutover.yaml: {error}")),
        };
        pruner.settings = Some((revision.clone(), doubt));
    }
}
