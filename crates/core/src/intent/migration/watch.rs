//! What a soak is made of: looks that showed the target healthy, one after the other, at the same run of the same copy.
//!
//! A pass judges one look. How long that has been so only somebody knows who looked all the time: the time between two looks
//! of one process (`reconcile::intents::soak`). It is not journaled, so that nobody takes over what another one saw.

use super::{Input, Interrupt, Operation, Phase, go_back, step};
use crate::api::OnFailure;
use crate::intent::check;
use crate::intent::member::SoakSample;
use crate::intent::proof::{Healthy, NotProved};
use crate::intent::warnings::{WARNS_AFTER, shortened};
use cutover_karmada::name::ClusterName;

/// How many characters of somebody else's message are passed on.
const LONGEST: usize = 300;

/// Returns whether one pass gives the target up, on what it has seen: what its Events say has to be read before that.
pub fn gives_up(input: &Input<'_>) -> bool {
    let is_forward = matches!(input.status.phase, Phase::Handoff | Phase::Verify);
    is_forward && step(input).status.phase == Phase::RollingBack
}

/// Returns the cluster whose Events may say why a phase takes long, where that is so and the copy in it is not well.
pub fn troubled(input: &Input<'_>) -> Option<ClusterName> {
    Operation::of(input).troubled()
}

/// Returns what one pass shows of the target while it soaks, for the one who keeps the time.
pub fn look(input: &Input<'_>) -> SoakSample {
    let operation = Operation::of(input);
    if operation.status.phase != Phase::Verify || operation.is_paused() {
        return SoakSample::Bad;
    }
    let Ok((_, target)) = operation.ends() else {
        return SoakSample::Bad;
    };
    match operation.soaks(&target) {
        Ok(Ok((_, run))) => SoakSample::Good(run),
        Ok(Err(NotProved::No(_))) => SoakSample::Bad,
        Ok(Err(NotProved::Unknown(_))) | Err(_) => SoakSample::Unknown,
    }
}

impl Operation<'_> {
    /// The target is healthy under the current marker, from the handle that it was given; its pods are Ready, and whatever
    /// else the spec asks of it holds. Returns by what this run of it is known.
    pub(super) fn soaks(
        &self,
        target: &ClusterName,
    ) -> Result<Result<(Healthy, String), NotProved>, Interrupt> {
        let healthy = match self.healthy(target)? {
            Ok(healthy) => healthy,
            Err(why) => return Ok(Err(why)),
        };
        let pods = match self.ready_pods(target)? {
            Ok(pods) => pods,
            Err(why) => return Ok(Err(why)),
        };
        let is_done = self.ended_in(target)?.is_some_and(|ended| ended.well);
        // What has done its work can't do it better.
        if !is_done && let Err(why) = self.checks(target)? {
            return Ok(Err(NotProved::No(why)));
        }
        let uid = self.uid_in(target)?.unwrap_or_default();
        let run = healthy.run_id().unwrap_or_default();
        let run = format!(
            "attempt {}, copy {uid}, run {run}, {pods}",
            self.status.common.attempt
        );
        Ok(Ok((healthy, run)))
    }

    /// The status of a copy may be an older one's; the pods that do its work show themselves.
    pub(super) fn ready_pods(&self, target: &ClusterName) -> Result<Result<String, NotProved>, Interrupt> {
        let pods = match self.snapshot().member(target)?.pods.get() {
            Ok(pods) => pods,
            Err(why) => return Ok(Err(why.into())),
        };
        // The pods of one that has ended are done, or gone.
        if self.ended_in(target)?.is_some_and(|ended| ended.well) {
            return Ok(Ok("ended".to_owned()));
        }
        let journal = self.journal()?;
        // One run's pods are no other's: they tell nothing of the copy.
        if journal.profile.pods_come_and_go() {
            return Ok(Ok("pods come and go".to_owned()));
        }
        if let Some(pod) = pods.iter().find(|pod| !pod.is_ready) {
            let why = pod
                .trouble
                .as_ref()
                .map(|why| format!(" ({})", self.in_brief(why)));
            let why = why.unwrap_or_default();
            return Ok(Err(NotProved::No(format!(
                "{target}: pod {} is not Ready{why}",
                pod.name
            ))));
        }
        if journal.has_pods() && pods.is_empty() {
            return Ok(Err(NotProved::No(format!("{target}: the copy has no pod"))));
        }
        let mut runs: Vec<String> = pods
            .iter()
            .map(|pod| format!("{}:{}", pod.uid, pod.restarts))
            .collect();
        runs.sort_unstable();
        Ok(Ok(format!("pods {}", runs.join(" "))))
    }

    /// What else the spec asks of the target.
    fn checks(&self, target: &ClusterName) -> Result<Result<(), String>, Interrupt> {
        let object = self.snapshot().member(target)?.object.get()?;
        let object = object.clone().unwrap_or_default();
        let other_managers = (&self.snapshot().others, &self.snapshot().metrics);
        let mut checks = self.journal()?.spec.verify.checks.iter();
        Ok(checks.try_for_each(|asked| check::holds(target, asked, &object, other_managers)))
    }

    /// Returns the cluster that the phase has waited for so long that its Events are read: it is to run a copy that has no pods, or
    /// some that are not Ready; or it is to stop one of which its operator or a kubelet says that something is wrong.
    fn troubled(&self) -> Option<ClusterName> {
        let journal = self.status.journal_in_force()?;
        let (cluster, is_to_run) = match (&journal.writer, self.status.phase) {
            (Some(writer), Phase::Handoff | Phase::Verify | Phase::RollingBack) => (writer, true),
            (None, Phase::Capture) => (&journal.source, false),
            (None, Phase::RollingBack) => (&journal.target, false),
            _ => return None,
        };
        if self.input.now.duration_since(journal.phase_since?) < WARNS_AFTER {
            return None;
        }
        let member = self.snapshot().member(cluster).ok()?;
        let (copy, pods) = (member.object.get().ok()?.as_ref(), member.pods.get().ok()?);
        if self.ended_in(cluster).ok()?.is_some_and(|ended| ended.well) {
            return None;
        }
        let lacks_pods = journal.has_pods() && pods.is_empty();
        let is_unwell = pods
            .iter()
            .any(|pod| pod.trouble.is_some() || (is_to_run && !pod.is_ready))
            || (is_to_run && lacks_pods)
            || copy.is_some_and(|copy| operators_error(copy).is_some());
        is_unwell.then(|| cluster.clone())
    }

    /// Returns the last warning about the copy that is waited for.
    pub(super) fn last_warning(&self) -> Option<String> {
        self.newest_warning(&self.troubled()?, self.snapshot().warned.as_ref())
    }

    /// A target of which its operator says that it has failed isn't waited for: nobody else runs meanwhile.
    pub(super) fn not_failed(&self, target: &ClusterName) -> Result<(), Interrupt> {
        let failed = self.prove(target, |facts| {
            let object = facts.current_copy()?;
            Ok(facts.profile.observed(object)? && facts.profile.failed(object)?)
        })?;
        if failed != Ok(true) {
            return Ok(());
        }
        let why = format!("{target} has failed{}", self.symptoms(target));
        Err(match self.journal()?.spec.on_failure {
            OnFailure::RollBack => go_back(why),
            OnFailure::Hold => Interrupt::Wait(why),
        })
    }

    /// Returns what the operator and the kubelets of a cluster say that is wrong, to be kept before the copy goes: empty, or
    /// the end of a sentence.
    pub(super) fn symptoms(&self, cluster: &ClusterName) -> String {
        let Ok(member) = self.snapshot().member(cluster) else {
            return String::new();
        };
        let copy = member.object.get().ok().and_then(Option::as_ref);
        let said = copy.and_then(operators_error);
        let said = said.map(|said| format!("its operator says: {}", self.in_brief(&said)));
        let pods = member.pods.get().map(Vec::as_slice).unwrap_or_default();
        let pods = pods.iter().filter_map(|pod| {
            let why = pod.trouble.as_ref()?;
            Some(format!("pod {}: {}", pod.name, self.in_brief(why)))
        });
        let warned = self.snapshot().warnings.iter().map(|said| self.in_brief(said));
        let warned = warned.filter(|_| self.journal().is_ok_and(|journal| journal.target == *cluster));
        let all: Vec<String> = said.into_iter().chain(pods.take(3)).chain(warned).collect();
        if all.is_empty() {
            String::new()
        } else {
            format!(": {}", all.join("; "))
        }
    }

    /// What another program says, in brief. The values of secret handles are hidden before: of one that is cut in two, or masked in part,
    /// the rest would stay.
    fn in_brief(&self, said: &str) -> String {
        brief(&self.without_secrets(said.to_owned()))
    }
}

/// Returns what an operator gives as its error: in `status.error`, as Flink's does, perhaps as JSON with a message; else the
/// message of the first condition that speaks of a failure.
fn operators_error(copy: &serde_json::Value) -> Option<String> {
    let error = copy.pointer("/status/error").and_then(serde_json::Value::as_str);
    if let Some(error) = error.filter(|error| !error.trim().is_empty()) {
        let parsed: Option<serde_json::Value> = serde_json::from_str(error).ok();
        let message = parsed.as_ref().and_then(|parsed| parsed["message"].as_str());
        return Some(message.unwrap_or(error).to_owned());
    }
    let conditions = copy.pointer("/status/conditions")?.as_array()?;
    let failing = conditions.iter().find(|condition| {
        let holds = condition["status"] == "True";
        match condition["type"].as_str().unwrap_or_default() {
            "Failed" | "ReplicaFailure" | "Error" | "NotReady" => holds,
            "Ready" | "Available" | "Progressing" => !holds,
            _ => false,
        }
    })?;
    failing["message"]
        .as_str()
        .filter(|message| !message.is_empty())
        .map(str::to_owned)
}

/// The first line of what somebody else says, without secrets, and not more of it than a status bears.
fn brief(text: &str) -> String {
    shortened(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operators_error_is_told_in_one_line_that_a_status_bears() {
        let error = r#"{"type":"DeploymentFailed","message":"back-off pulling image\nat org.apache"}"#;
        let said = operators_error(&json!({"status": {"error": error}})).unwrap();
        assert_eq!(brief(&said), "back-off pulling image");
        let said = operators_error(&json!({"status": {"error": "no quota"}}));
        assert_eq!(said.as_deref(), Some("no quota"));
        let failing = json!({"status": {"conditions": [
            {"type": "Available", "status": "True", "message": "fine"},
            {"type": "Progressing", "status": "False", "message": "deadline exceeded"},
        ]}});
        assert_eq!(operators_error(&failing).as_deref(), Some("deadline exceeded"));
        let not_ready = json!({"status": {"conditions": [
            {"type": "NotReady", "status": "True", "message": "no such topic"},
        ]}});
        assert_eq!(operators_error(&not_ready).as_deref(), Some("no such topic"));
        assert_eq!(operators_error(&json!({"status": {"error": " "}})), None);
        assert_eq!(brief(&"x".repeat(400)).chars().count(), LONGEST + 1);
        let secret = brief("pulling https://robot:hunter2@registry.local/web failed");
        assert!(!secret.contains("hunter2"), "{secret}");
    }
}
