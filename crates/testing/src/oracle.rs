//! What the ledger's record comes to. State may only be lost where a person gave it up, where a failover plan says that it went
//! on from an older state, or where the workload lost it by itself; and then it must have been told.

use cutover_sandbox::api::{ListOptions, Resource};
use cutover_sandbox::ledger::{LostState, Origin, Verdict, Writer};
use serde_json::{Value, json};

use crate::fleet::{Fleet, MIGRATIONS, opened};

const EVENTS: Resource = Resource::new("", "events");
const PLANS: Resource = Resource::new("cutover.dev", "failoverplans");

impl Fleet {
    /// Returns what the ledger has against the tool, and against what it tells: without what is in order.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = self.world.ledger().verdict();
        verdict
            .lost_state
            .retain(|lost| !self.is_given_up(lost) && !self.is_moved_knowingly(lost) && !self.is_told(lost));
        verdict
    }

    pub fn assert_one_writer(&self) {
        let verdict = self.verdict();
        assert!(verdict.is_clean(), "{verdict}\n{}", self.world.ledger());
    }

    /// A person said that it may start from nothing there, or that what one of them wrote may go.
    fn is_given_up(&self, lost: &LostState) -> bool {
        let gives_it_up = |word: &Value| {
            let cluster = word["cluster"].as_str().unwrap_or_default();
            let wrote = lost.of.iter().any(|writer| writer.cluster.as_str() == cluster);
            match word["fact"].as_str().unwrap_or_default() {
                "NoState" | "FromNothing" => {
                    wrote || (lost.restored_from == Origin::Empty && lost.writer.cluster.as_str() == cluster)
                }
                "Newest" | "From" => lost.of.iter().all(|writer| writer.cluster.as_str() != cluster),
                _ => false,
            }
        };
        // It goes on from the handle that the word was about.
        let is_chosen = |word: &Value| {
            let handles = word["handle"].as_object().into_iter().flatten();
            let mut handles = handles.filter_map(|(_, handle)| handle.as_str());
            handles.any(|handle| lost.restored_from == Origin::Handle(handle.to_owned()))
        };
        let migrations = self.all(&MIGRATIONS);
        let said = migrations
            .iter()
            .filter_map(|migration| migration["spec"]["assume"].as_array());
        let used = migrations
            .iter()
            .map(|migration| opened(&migration["status"])["journal"]["words"].clone());
        let mut used = used.flat_map(|words| words.as_array().cloned().unwrap_or_default());
        said.flatten().any(gives_it_up) || used.any(|word| is_chosen(&word))
    }

    fn is_moved_knowingly(&self, lost: &LostState) -> bool {
        let plans = self.all(&PLANS).into_iter().map(|plan| plan["status"].clone());
        plans
            .chain(self.kept_plans())
            .any(|status| is_moved_knowingly(lost, &status))
    }

    /// A loss of the workload's own making has to be told: by a finding, an Event or a record that names the cluster.
    fn is_told(&self, lost: &LostState) -> bool {
        let tells = |text: &Value| {
            let text = text.as_str().unwrap_or_default();
            text.contains(lost.writer.cluster.as_str())
                && (text.contains("restarted") || text.contains("lost"))
        };
        let intents = [self.all(&MIGRATIONS), self.all(&PLANS)].concat();
        let findings = intents
            .iter()
            .filter_map(|intent| intent["status"]["findings"].as_array());
        lost.by_itself
            && (findings.flatten().any(|finding| tells(&finding["message"]))
                || self.all(&EVENTS).iter().any(|event| tells(&event["message"])))
    }

    /// Returns what the ledger shows of harm that an intent says nothing of: no finding, reason to roll back, question or
    /// warning of it names a cluster that has to do with it.
    pub fn untold_harm(&self, name: &str) -> Option<String> {
        let verdict = self.verdict();
        let said = self.said_of(name);
        let is_told = |all: &[&Writer]| {
            let mut clusters = all.iter().map(|writer| writer.cluster.as_str());
            clusters.any(|cluster| said.iter().any(|text| text.contains(cluster)))
        };
        let overlaps = verdict.overlaps.iter();
        let overlaps = overlaps.map(|overlap| (overlap.who.iter().collect(), format!("{overlap:?}")));
        let losses = verdict.lost_state.iter().map(|lost| {
            let who: Vec<&Writer> = lost.of.iter().chain([&lost.writer]).collect();
            (who, format!("{lost:?}"))
        });
        let mut untold = overlaps
            .chain(losses)
            .filter(|(who, _): &(Vec<&Writer>, String)| !is_told(who));
        untold.next().map(|(_, what)| what)
    }

    fn said_of(&self, name: &str) -> Vec<String> {
        let status = self.status(name);
        let findings = status["findings"].as_array().into_iter().flatten();
        let findings = findings.map(|finding| finding["message"].clone());
        let of_it = |event: &Value| event["type"] == "Warning" && event["involvedObject"]["name"] == name;
        let events = self.all(&EVENTS).into_iter().filter(of_it);
        let reasons = [
            status["journal"]["rollBack"]["reason"].clone(),
            status["waitingFor"]["reason"].clone(),
        ];
        findings
            .chain(reasons)
            .chain(events.map(|event| event["message"].clone()))
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    }

    fn all(&self, resource: &Resource) -> Vec<Value> {
        let list = self
            .world
            .control_plane()
            .list(resource, None, &ListOptions::default());
        let items = list.map(|list| list.items).unwrap_or_default();
        items.iter().map(|object| (**object).clone()).collect()
    }
}

/// A plan says from which state it went on, and that it isn't what the old copy left when it was stopped. Where that copy did
/// leave its state, and said so, no older one is in order.
pub fn is_moved_knowingly(lost: &LostState, plan: &Value) -> bool {
    let from = match &lost.restored_from {
        Origin::Handle(handle) => json!(handle),
        _ => Value::Null,
    };
    let tells = |to: &Value, state: &Value| {
        let values = state["values"].as_object();
        let is_from = match state["source"].as_str() {
            Some("Nothing") => lost.restored_from == Origin::Empty,
            Some("Preserved" | "LastKnown") => {
                values.is_some_and(|values| values.values().any(|value| *value == from))
            }
            _ => false,
        };
        is_from && lost.newest.is_none() && *to == lost.writer.cluster.as_str()
    };
    let flight = &plan["journal"]["flight"];
    let history = plan["history"].as_array().into_iter().flatten();
    tells(&flight["to"], &flight["state"])
        || history.into_iter().any(|done| tells(&done["to"], &done["state"]))
}
