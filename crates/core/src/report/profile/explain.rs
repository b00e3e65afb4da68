//! A profile in sentences.

use anstyle::{AnsiColor, Style};

use crate::api::{CaptureRule, LastKnownRule, NeededObject, PatchOp, WorkloadProfileSpec};
use crate::error::Error;
use crate::profile::catalog::{Catalog, Entry};
use crate::profile::outline::{Outline, patched, selector};
use cutover_base::escape::line;

const TOPIC: Style = Style::new().bold();
const CODE: Style = AnsiColor::Cyan.on_default();

/// Returns in sentences what holds, stops, proves stopped, captures, resumes and judges a workload.
pub fn explain_profile(entry: &Entry, catalog: &Catalog) -> Result<String, Error> {
    let outline = Outline::of(entry, catalog).map_err(|error| Error::internal(error.to_string()))?;
    let spec = &entry.profile.spec;
    let mut page = Page::default();
    page.says(&format!(
        "{} ({}) is a profile for {}.",
        outline.name,
        outline.origin,
        kinds(&outline)
    ));
    for because in outline.kinds.iter().filter_map(|kind| kind.because.as_ref()) {
        page.says(&format!("It is used only by intents that name it: {because}."));
    }
    page.state(spec);
    page.needed(spec);
    page.held(spec);
    page.stopped(spec);
    page.captured(spec);
    page.resumed(spec);
    page.judged(spec);
    page.afterwards(spec);
    Ok(page.0)
}

fn kinds(outline: &Outline) -> String {
    let kinds: Vec<&str> = outline.kinds.iter().map(|kind| kind.kind.as_str()).collect();
    kinds.join(", ")
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn topic(&mut self, topic: &str) {
        self.0 += &format!("\n{TOPIC}{topic}{TOPIC:#}\n");
    }

    fn says(&mut self, sentence: &str) {
        self.0 += &format!("{}\n", line(sentence));
    }

    /// An expression or a field, below the sentence that introduces it.
    fn code(&mut self, code: &str) {
        let words: Vec<&str> = code.split_whitespace().collect();
        self.0 += &format!("    {CODE}{}{CODE:#}\n", line(&words.join(" ")));
    }

    fn when(&mut self, sentence: &str, cel: &str) {
        self.says(sentence);
        self.code(cel);
    }

    fn patches(&mut self, sentence: &str, none: &str, patches: &[PatchOp]) {
        if patches.is_empty() {
            return self.says(none);
        }
        self.says(sentence);
        for patch in patches {
            self.code(&patched(patch));
        }
    }

    fn state(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("State");
        if spec.stateful {
            self.says("The workload has state. Two copies never run at the same time.");
            if spec.state_elsewhere {
                self.says(
                    "Its state is where every cluster reaches it: a copy that ends takes nothing along.",
                );
            }
        } else {
            self.says(
                "The workload has no state. Two copies may run at the same time, with strategy StartFirst.",
            );
        }
        for rule in &spec.repeats {
            let sentence = format!(
                "The target does the {} again that the source has done, which are counted at",
                rule.what
            );
            self.when(&sentence, &rule.json_path);
        }
        for requirement in &spec.requires {
            self.when(
                &format!("A template is refused because {} unless", requirement.message),
                &requirement.cel,
            );
            if let Some(hint) = &requirement.hint {
                self.says(&format!("What to do then: {hint}."));
            }
        }
    }

    fn needed(&mut self, spec: &WorkloadProfileSpec) {
        if spec.needs.is_empty() {
            return;
        }
        self.topic("Needed");
        for need in &spec.needs {
            self.need(need);
        }
    }

    fn need(&mut self, need: &NeededObject) {
        let kind = &need.kind;
        if let Some(path) = &need.json_path {
            let name = need.default_name.as_ref();
            let default = name.map_or_else(String::new, |name| format!(" (or {name}, where it names none)"));
            self.when(
                &format!("The target must have the {kind} that the template names{default} at"),
                path,
            );
        }
        if let Some(selector) = &need.label_selector {
            self.when(
                &format!("The target must have every {kind} that the cluster has in which the workload runs, of those with"),
                selector,
            );
        }
        if let Some(message) = &need.message {
            self.says(&format!("Otherwise, {message}."));
        }
    }

    fn held(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Held");
        self.patches(
            "A copy does not run with",
            "Nothing keeps a copy from running.",
            &spec.hold,
        );
        if !spec.optional_parents.is_empty() {
            self.says("A template may lack these: cutover creates them for its patches, as long as it does.");
        }
        for parent in &spec.optional_parents {
            self.code(parent);
        }
        if spec.born_held {
            self.says("A copy that is created like this waits, so the target gets its copy before the source stops.");
        } else {
            self.says("A copy that is created like this may start, so the target gets its copy after the source has stopped.");
        }
        match &spec.ran_when {
            Some(cel) => self.when("A copy has run, and may have state of its own, if", cel),
            None => self.says("Every copy counts as one that has run: there is no ranWhen."),
        }
    }

    fn stopped(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Stopped");
        self.patches(
            "To stop a copy, cutover sets",
            "Nothing stops a copy.",
            &spec.suspend,
        );
        self.when(
            "It counts as stopped if its operator has seen the current spec,",
            &spec.observed_when,
        );
        self.when("and says that nothing of it runs,", &spec.suspended_when);
        match &spec.no_pods {
            Some(pods) => self.when("and no pod is left with", &selector(pods)),
            None => self.says("Pods are not looked at: there is no noPods."),
        }
        if spec.pods_come_and_go() {
            self.says("Those that have ended do not count, and a copy that has none may be healthy.");
        }
        if let Some(settle_for) = &spec.settle_for {
            self.says(&format!(
                "All that has to be seen for {settle_for} without any change of the copy: its operator does not say that it has seen the \
                 stop, and is taken to have by then."
            ));
        }
    }

    fn captured(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Captured");
        if spec.capture.is_empty() {
            self.says("No state handle is read: state has to be where every cluster reaches it.");
        }
        for rule in &spec.capture {
            self.rule(rule);
        }
        if spec.handle_stays {
            self.says("The stopped copy shows it until it runs again, so the target need not wait for Git.");
        }
        for rule in &spec.last_known {
            self.last_known(rule);
        }
    }

    fn last_known(&mut self, rule: &LastKnownRule) {
        let name = &rule.name;
        match &rule.from {
            None => self.when(
                &format!("While a copy runs, its newest {name} may be at"),
                &rule.json_path,
            ),
            Some(from) => {
                let kind = &from.kind;
                self.when(
                    &format!("While a copy runs, its newest {name} may be in a {kind} beside it, at"),
                    &rule.json_path,
                );
                self.when("of those with", &from.label_selector);
            }
        }
        if let Some(cel) = &rule.valid_when {
            self.when("if", cel);
        }
        if let Some(pattern) = &rule.run_pattern {
            self.when("It counts if its run's id begins with what is found by", pattern);
        }
        if let Some(path) = &rule.newest_by {
            self.when("Of several the newest counts, by", path);
        }
        if let Some(cel) = &rule.disposed_when {
            self.when("It is deleted with the object that shows it if", cel);
        }
    }

    fn rule(&mut self, rule: &CaptureRule) {
        let name = &rule.name;
        self.when(
            &format!("The {name} is read from the stopped copy, at"),
            &rule.json_path,
        );
        if rule.required {
            self.says(&format!(
                "Without a {name}, the state can't be handed over, and the move is rolled back."
            ));
        }
        if rule.secret {
            self.says(
                "It is a secret: Git and messages have a digest of it, and the journal of the intent has it.",
            );
        }
        if let Some(cel) = &rule.valid_when {
            self.when("It counts if", cel);
        }
    }

    fn resumed(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Resumed");
        let template = "It runs as its template says.";
        self.patches("A copy that never ran starts with", template, &spec.start);
        let by_handle = spec.restart.iter().any(PatchOp::names_a_handle);
        if by_handle || spec.restart != spec.start {
            let with = if by_handle {
                "A copy that ran before starts, once there is the handle of its own stop, with"
            } else {
                "A copy that ran before starts from its own state, with"
            };
            self.patches(
                with,
                "A copy that ran before starts from its own state, as its template says.",
                &spec.restart,
            );
        }
        if !spec.restart_from.is_empty() {
            self.patches(
                "A copy that ran before starts from another handle with",
                "",
                &spec.restart_from,
            );
        }
        if spec.recreate_for_handle {
            self.says(
                "A copy that ran before can't start from another handle: a roll back deletes it, and the one that is created in its place \
                 starts as one that never ran.",
            );
        }
        if let Some(path) = &spec.in_use {
            self.when("The handle that it started from is at", path);
        }
    }

    fn judged(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Healthy");
        self.when("A copy is healthy if", &spec.healthy_when);
        match &spec.failed_when {
            Some(cel) => self.when("It has failed, and will not become healthy by itself, if", cel),
            None => self.says("No copy counts as failed: a move waits until its time is over."),
        }
        if let Some(cel) = &spec.finished_when {
            self.when("It has ended by itself, and is not moved any more, if", cel);
        }
        if let Some(rule) = &spec.starts_over {
            self.when(
                &format!(
                    "A restart of one of these pods is reported, because {}:",
                    rule.message
                ),
                &rule.label_selector,
            );
            if let Some(cel) = &rule.unless {
                self.when("unless", cel);
            }
        }
    }

    fn afterwards(&mut self, spec: &WorkloadProfileSpec) {
        self.topic("Afterwards");
        if spec.ignored_on_removal.is_empty() {
            self.says("No field may disappear from a running copy: cutover takes its pin off only when the template has the same values.");
        } else {
            self.says("These fields may disappear from a running copy without a restart:");
        }
        for field in &spec.ignored_on_removal {
            self.code(field);
        }
        match &spec.run_id {
            Some(path) => self.when("A restart changes", path),
            None => self.says("Restarts are not told apart: there is no runId."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Set;

    #[test]
    fn a_profile_is_explained_in_sentences() {
        let catalog = Catalog::of(&Set::new());
        let explained = |name: &str| {
            let text = explain_profile(catalog.named(name).unwrap(), &catalog).unwrap();
            anstream::adapter::strip_str(&text).to_string()
        };
        let deployment = explained("deployment");
        for sentence in [
            "deployment (built-in) is a profile for Deployment.apps.\n",
            "\nHeld\nA copy does not run with\n    spec.replicas: 0\n",
            "and no pod is left with\n    the labels of spec.selector\n",
            "It runs as its template says.\n",
        ] {
            assert!(deployment.contains(sentence), "{deployment}");
        }
        let training = explained("kubeflow-training");
        let creates = "cutover creates them for its patches, as long as it does.\n    /spec/runPolicy\n";
        assert!(training.contains(creates), "{training}");
        let flink = explained("flink");
        for sentence in [
            "The savepoint is read from the stopped copy, at\n    $.status.jobStatus.upgradeSavepointPath\n",
            "and no pod is left with\n    app=${object.metadata.name}\n",
            "\nNeeded\nThe target must have the ServiceAccount that the template names at\n    $.spec.serviceAccount\n",
        ] {
            assert!(flink.contains(sentence), "{flink}");
        }
        let connect = explained("kafka-connect");
        for sentence in [
            "The target must have every KafkaConnector that the cluster has in which the workload runs, of those with\n    \
             strimzi.io/cluster=${name}\n",
            "Otherwise, ",
        ] {
            assert!(connect.contains(sentence), "{connect}");
        }
        let cron_job = explained("cronjob");
        let stopped = "and no pod is left with\n    workload=${object.metadata.name}\n\
                       Those that have ended do not count, and a copy that has none may be healthy.\n\
                       All that has to be seen for 90s without any change of the copy: ";
        assert!(cron_job.contains(stopped), "{cron_job}");
        let pipeline = explained("numaflow-pipeline");
        let sentence = "The target must have the InterStepBufferService that the template names (or default, where it names none) at\n";
        assert!(pipeline.contains(sentence), "{pipeline}");
    }
}
