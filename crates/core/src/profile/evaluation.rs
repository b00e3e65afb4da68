//! What each expression and path of a profile makes of one object: for whoever writes the profile. Values are masked.

use serde_json::Value;

use super::expression::{Expression, Found, Seen};
use super::labels;
use super::mistakes::conditions;
use super::path::Path;
use super::pods::selectors;
use super::template::Site;
use super::{Error, NoCapture, Rule, handle_at, names_at, secrets_in, text_at};
use crate::api::{CaptureRule, LastKnownRule, NeededObject, SecretHandles, WorkloadProfileSpec};
use crate::redact::Secrets;

/// One expression, path or selector of a profile, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// Where it stands in the profile: a JSON pointer.
    pub pointer: String,
    /// The same for people: `capture[0].validWhen`.
    pub field: String,
    /// As it is written.
    pub source: String,
    /// What an expression read; nothing of a path or a selector.
    pub saw: Vec<Seen>,
    pub says: Says,
}

/// What an expression, path or selector says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    Yes,
    No,
    /// A requirement that the object meets.
    Met,
    /// A requirement that it doesn't meet, with what the profile says of that.
    NotMet(String),
    /// A selector that was filled in, or what stands at a path.
    Value(String),
    /// There is nothing at a path.
    Nothing,
    /// It is about objects beside this one.
    Beside,
    /// It can't be compiled, or has no value on this object: nothing is decided by it.
    Fails(String),
}

/// Evaluates everything that a profile says of a copy, in the order of the reference.
pub fn evaluate(spec: &WorkloadProfileSpec, object: &Value) -> Vec<Evaluated> {
    let on = On {
        object,
        secrets: Secrets::of([object]),
    };
    let requires = spec.requires.iter().enumerate().map(|(index, requirement)| {
        let mut row = on.judge(format!("/spec/requires/{index}/cel"), &requirement.cel);
        row.says = match row.says {
            Says::Yes => Says::Met,
            Says::No => Says::NotMet(requirement.message.clone()),
            other => other,
        };
        row
    });
    let mut rows: Vec<Evaluated> = requires.collect();
    rows.extend(on.needs(&spec.needs));
    rows.extend(conditions(spec).map(|(pointer, cel)| on.judge(pointer, cel)));
    rows.extend(spec.repeats.iter().enumerate().map(|(index, rule)| {
        let (pointer, path) = (format!("/spec/repeats/{index}/jsonPath"), &rule.json_path);
        row(pointer, path, Vec::new(), on.text(path))
    }));
    rows.extend(on.pods(spec));
    rows.extend(on.captured(&spec.capture));
    rows.extend(on.last_known(&spec.last_known));
    rows.extend(on.look("inUse", spec.in_use.as_ref()));
    let keeps = spec.starts_over.iter().filter_map(|rule| rule.unless.as_ref());
    rows.extend(keeps.map(|unless| on.judge("/spec/startsOver/unless".to_owned(), unless)));
    rows.extend(on.look("runId", spec.run_id.as_ref()));
    let secrets = secrets_in(spec, object);
    for row in &mut rows {
        row.hide(&secrets);
    }
    rows
}

impl Evaluated {
    /// Shows what stands for a secret handle wherever the handle itself was found.
    fn hide(&mut self, secrets: &SecretHandles) {
        for seen in &mut self.saw {
            if let Found::Value(value) = &mut seen.found {
                secrets.hide(value);
            }
        }
        if let Says::Value(text) | Says::Fails(text) = &mut self.says {
            *text = secrets.hidden(text);
        }
    }
}

/// The object that a profile is evaluated on.
struct On<'a> {
    object: &'a Value,
    secrets: Secrets,
}

impl On<'_> {
    fn judge(&self, pointer: String, source: &str) -> Evaluated {
        let (saw, says) = match Expression::compile("", source) {
            Ok(expression) => (
                expression.sees(self.object),
                self.truth(expression.holds(self.object)),
            ),
            Err(message) => (Vec::new(), Says::Fails(message)),
        };
        row(pointer, source, saw, says)
    }

    fn truth(&self, holds: Result<bool, Error>) -> Says {
        match holds {
            Ok(true) => Says::Yes,
            Ok(false) => Says::No,
            Err(Error::Evaluation { message, .. }) => Says::Fails(self.secrets.scrub(&message)),
            Err(other) => self.fails(&other),
        }
    }

    fn pods(&self, spec: &WorkloadProfileSpec) -> Vec<Evaluated> {
        let all = spec.no_pods.iter().flat_map(selectors);
        all.map(|(pointer, selects)| {
            let says = match selects.fill(self.object) {
                Ok(selector) => Says::Value(self.secrets.scrub(&selector)),
                Err(error) => self.fails(&error),
            };
            row(pointer, selects.source(), Vec::new(), says)
        })
        .collect()
    }

    fn captured(&self, rules: &[CaptureRule]) -> Vec<Evaluated> {
        let mut rows = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let at = format!("/spec/capture/{index}");
            let (path, says) = (&rule.json_path, self.handle(rule));
            rows.push(row(format!("{at}/jsonPath"), path, Vec::new(), says));
            let valid = rule.valid_when.as_ref();
            rows.extend(valid.map(|valid| self.judge(format!("{at}/validWhen"), valid)));
        }
        rows
    }

    fn last_known(&self, rules: &[LastKnownRule]) -> Vec<Evaluated> {
        let mut rows = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let at = format!("/spec/lastKnown/{index}");
            let paths = [
                ("jsonPath", Some(&rule.json_path)),
                ("newestBy", rule.newest_by.as_ref()),
            ];
            let paths = paths.into_iter().filter_map(|(field, path)| Some((field, path?)));
            let conditions = [
                ("validWhen", rule.valid_when.as_ref()),
                ("disposedWhen", rule.disposed_when.as_ref()),
            ];
            let conditions = conditions
                .into_iter()
                .filter_map(|(field, cel)| Some((field, cel?)));
            let Some(from) = &rule.from else {
                rows.extend(
                    paths
                        .map(|(field, path)| row(format!("{at}/{field}"), path, Vec::new(), self.text(path))),
                );
                rows.extend(conditions.map(|(field, cel)| self.judge(format!("{at}/{field}"), cel)));
                continue;
            };
            let says = self.selector(&from.label_selector);
            let pointer = format!("{at}/from/labelSelector");
            rows.push(row(pointer, &from.label_selector, Vec::new(), says));
            let written = paths.chain(conditions);
            rows.extend(
                written.map(|(field, source)| row(format!("{at}/{field}"), source, Vec::new(), Says::Beside)),
            );
        }
        rows
    }

    fn look(&self, field: &str, path: Option<&String>) -> Option<Evaluated> {
        let path = path?;
        Some(row(format!("/spec/{field}"), path, Vec::new(), self.text(path)))
    }

    fn needs(&self, needs: &[NeededObject]) -> Vec<Evaluated> {
        let mut rows = Vec::new();
        for (index, need) in needs.iter().enumerate() {
            if let Some(path) = &need.json_path {
                let pointer = format!("/spec/needs/{index}/jsonPath");
                let says = match self.names(path) {
                    Says::Nothing => need.default_name.clone().map_or(Says::Nothing, Says::Value),
                    says => says,
                };
                rows.push(row(pointer, path, Vec::new(), says));
            }
            if let Some(selector) = &need.label_selector {
                let pointer = format!("/spec/needs/{index}/labelSelector");
                rows.push(row(pointer, selector, Vec::new(), self.selector(selector)));
            }
        }
        rows
    }

    fn selector(&self, source: &str) -> Says {
        match labels::selector(source, Site::unplaced(self.object)) {
            Ok(selector) => Says::Value(self.secrets.scrub(&selector)),
            Err(error) => self.fails(&error),
        }
    }

    fn handle(&self, rule: &CaptureRule) -> Says {
        let path = match Path::parse(&rule.json_path) {
            Ok(path) => path,
            Err(error) => return self.fails(&error),
        };
        let rule = Rule {
            name: rule.name.clone(),
            required: rule.required,
            secret: rule.secret,
            path,
            valid: None,
        };
        match handle_at(self.object, &rule) {
            Ok(found) => self.found(found),
            Err(NoCapture::Error(error)) => self.fails(&error),
            Err(other) => self.fails(&other),
        }
    }

    fn text(&self, path: &str) -> Says {
        match Path::parse(path).and_then(|path| text_at(self.object, &path)) {
            Ok(found) => self.found(found),
            Err(error) => self.fails(&error),
        }
    }

    fn names(&self, path: &str) -> Says {
        match Path::parse(path).and_then(|path| names_at(self.object, &path)) {
            Ok(names) if names.is_empty() => Says::Nothing,
            Ok(names) => Says::Value(self.secrets.scrub(&names.join(", "))),
            Err(error) => self.fails(&error),
        }
    }

    fn found(&self, found: Option<String>) -> Says {
        found.map_or(Says::Nothing, |text| Says::Value(self.secrets.scrub(&text)))
    }

    fn fails(&self, error: &dyn std::fmt::Display) -> Says {
        Says::Fails(self.secrets.scrub(&error.to_string()))
    }
}

fn row(pointer: String, source: &str, saw: Vec<Seen>, says: Says) -> Evaluated {
    Evaluated {
        field: field(&pointer),
        pointer,
        source: source.to_owned(),
        saw,
        says,
    }
}

/// Returns a JSON pointer of a profile as people write it.
pub fn field(pointer: &str) -> String {
    let steps = pointer.trim_start_matches("/spec/").split('/');
    steps.fold(String::new(), |path, step| match step.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) if path.is_empty() => step.to_owned(),
        Err(_) => format!("{path}.{step}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::built_in;

    fn flink() -> WorkloadProfileSpec {
        built_in().unwrap()[0].spec.clone()
    }

    fn stopped() -> Value {
        json!({
            "metadata": {"name": "orders", "generation": 4},
            "spec": {"job": {"state": "suspended"}, "flinkConfiguration": {"s3.secret-key": "hunter22"}},
            "status": {
                "observedGeneration": 4,
                "jobManagerDeploymentStatus": "MISSING",
                "jobStatus": {"state": "FINISHED", "upgradeSavepointPath": "s3://state/savepoint-1"},
                "reconciliationStatus": {
                    "state": "DEPLOYED",
                    "lastReconciledSpec": r#"{"spec":{"job":{"state":"suspended","upgradeMode":"savepoint"}}}"#,
                },
            },
        })
    }

    fn says(rows: &[Evaluated], field: &str) -> Says {
        let row = rows.iter().find(|row| row.field == field);
        row.unwrap_or_else(|| panic!("{field}")).says.clone()
    }

    #[test]
    fn every_expression_and_path_of_every_built_in_profile_has_a_row() {
        for profile in built_in().unwrap() {
            let rows = evaluate(&profile.spec, &stopped());
            let pointers: Vec<&str> = rows.iter().map(|row| row.pointer.as_str()).collect();
            let all = super::super::mistakes::expressions(&profile.spec);
            for (pointer, _) in all
                .into_iter()
                .chain(super::super::mistakes::paths(&profile.spec))
            {
                assert!(pointers.contains(&pointer.as_str()), "{pointer}");
            }
        }
    }

    #[test]
    fn a_row_says_what_the_machines_are_told() {
        let rows = evaluate(&flink(), &stopped());
        assert_eq!(says(&rows, "suspendedWhen"), Says::Yes);
        assert_eq!(says(&rows, "healthyWhen"), Says::No);
        assert_eq!(
            says(&rows, "noPods.labelSelector"),
            Says::Value("app=orders".to_owned())
        );
        assert_eq!(says(&rows, "capture[0].validWhen"), Says::Yes);
        let handle = Says::Value("s3://state/savepoint-1".to_owned());
        assert_eq!(says(&rows, "capture[0].jsonPath"), handle);
        assert_eq!(says(&rows, "runId"), Says::Nothing);
    }

    #[test]
    fn a_row_of_needs_has_every_name_that_the_object_gives() {
        let spec = built_in().unwrap().iter().find(|profile| {
            let name = profile.metadata.name.as_deref();
            name == Some("spark")
        });
        let spec = &spec.unwrap().spec;
        let object = json!({"spec": {"driver": {"configMaps": [
            {"name": "a", "path": "/a"}, {"name": "b", "path": "/b"}, {"path": "/c"},
        ]}}});
        let rows = evaluate(spec, &object);
        let said = |path: &str| {
            let row = rows.iter().find(|row| row.source == path);
            row.unwrap_or_else(|| panic!("{path}")).says.clone()
        };
        assert_eq!(
            said("$.spec.driver.configMaps[*].name"),
            Says::Value("a, b".to_owned())
        );
        assert_eq!(said("$.spec.executor.configMaps[*].name"), Says::Nothing);
    }

    #[test]
    fn what_is_about_objects_beside_the_copy_says_nothing_of_it() {
        let rows = evaluate(&flink(), &stopped());
        let selector = "job-reference.kind=FlinkDeployment,job-reference.name=orders";
        assert_eq!(
            says(&rows, "lastKnown[2].from.labelSelector"),
            Says::Value(selector.to_owned())
        );
        for field in ["jsonPath", "newestBy", "validWhen"] {
            assert_eq!(says(&rows, &format!("lastKnown[2].{field}")), Says::Beside);
        }
    }

    #[test]
    fn each_selector_of_pods_has_a_row() {
        let mut spec = flink();
        spec.no_pods.as_mut().unwrap().label_selectors =
            vec!["job=${name}".to_owned(), "at=${app}".to_owned()];
        let rows = evaluate(&spec, &stopped());
        let value = |text: &str| Says::Value(text.to_owned());
        assert_eq!(says(&rows, "noPods.labelSelector"), value("app=orders"));
        assert_eq!(says(&rows, "noPods.labelSelectors[0]"), value("job=orders"));
        assert!(matches!(says(&rows, "noPods.labelSelectors[1]"), Says::Fails(_)));
    }

    #[test]
    fn what_can_not_be_evaluated_fails_and_shows_no_secret() {
        let mut spec = flink();
        spec.healthy_when = "object.spec.flinkConfiguration['s3.secret-key'] + 1 == 2".to_owned();
        spec.failed_when = Some("object.status.ready = true".to_owned());
        spec.capture[0].json_path = "$.status.jobStatus".to_owned();
        let rows = evaluate(&spec, &stopped());
        for field in ["healthyWhen", "failedWhen", "capture[0].jsonPath"] {
            assert!(matches!(says(&rows, field), Says::Fails(_)), "{field}");
        }
        assert!(!format!("{rows:?}").contains("hunter22"));
    }
}
