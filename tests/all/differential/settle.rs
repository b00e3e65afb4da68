//! Waits until a server has taken in what it takes in late: definitions and admission policies. And what sequences
//! leave behind that others would meet.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::run::{Answer, Side};
use super::step::{MERGE, Step, TABLE};

/// How long a server may take.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(25);

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLAIMS: &str = "/apis/cutover.dev/v1alpha1/claims";
const SERVICES: &str = "/api/v1/namespaces/${ns}/services";
const PROBES: &str = "/api/v1/namespaces/${ns}/configmaps";

impl Side<'_> {
    /// Waits until what was written at a path is in force.
    pub(super) async fn settle(&mut self, path: &str) -> Answer {
        let probe = if path == POLICIES {
            Some(self.probe().await)
        } else {
            None
        };
        let begun = Instant::now();
        loop {
            let settled = match &probe {
                Some(probe) => self.is_refused(probe).await,
                None => self.is_served(path).await,
            };
            if settled {
                return Answer::default();
            }
            if begun.elapsed() > LIMIT {
                return Answer {
                    body: json!("it is never in force"),
                    ..Answer::default()
                };
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns whether the kind of a definition is served as that says, or no more.
    async fn is_served(&mut self, path: &str) -> bool {
        let (definition, _) = self.send(&Step::get(path)).await;
        let things = Step::get("/apis/${ns}.example.dev/v1/namespaces/${ns}/things").accepting(TABLE);
        let (things, _) = self.send(&things).await;
        self.learn(path, &definition.body);
        if definition.code == 404 {
            return things.code == 404;
        }
        let (spec, status) = (&definition.body["spec"], &definition.body["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let is_established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        let first = versions.find(|version| version["name"] == "v1" && version["served"] == true);
        let wanted = first.map(|version| &version["additionalPrinterColumns"][0]["name"]);
        let shown = things.body["columnDefinitions"].as_array().into_iter().flatten();
        let shown = shown.map(|column| &column["name"]);
        conditions.into_iter().any(is_established)
            && status["acceptedNames"] == spec["names"]
            && wanted.map_or(things.code == 404, |wanted| {
                shown.into_iter().any(|name| name == wanted)
            })
    }

    /// Installs a policy that refuses one ConfigMap, and returns that: what was written before is in force when it is.
    async fn probe(&mut self) -> String {
        self.seen.probes += 1;
        let probe = format!("probe-{}", self.seen.probes);
        let name = format!("${{ns}}-{probe}");
        let policy = json!({
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "resourceNames": [probe]}],
                },
                "validations": [{"expression": "false", "message": "it is in force"}],
            },
        });
        let binding = json!({
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        for step in [Step::post(POLICIES, policy), Step::post(BINDINGS, binding)] {
            let (created, _) = self.send(&step).await;
            assert_eq!(created.code, 201, "{created:?}");
        }
        probe
    }

    async fn is_refused(&self, probe: &str) -> bool {
        let object = json!({"metadata": {"name": probe}});
        let (answer, _) = self.send(&Step::post(PROBES, object).with("dryRun", "All")).await;
        answer.body["message"]
            .as_str()
            .is_some_and(|message| message.contains("it is in force"))
    }

    /// Takes away what others would meet: Services with their addresses and ports, policies, definitions.
    pub(super) async fn leave(&self, steps: &[Step]) {
        let is_about = |path: &str| steps.iter().any(|step| step.path.starts_with(path));
        if is_about(SERVICES) {
            let (list, _) = self.send(&Step::get(SERVICES)).await;
            for service in list.body["items"].as_array().into_iter().flatten() {
                let name = service["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{SERVICES}/{name}");
                let free = json!({"metadata": {"finalizers": null}});
                self.send(&Step::patch(path.as_str(), MERGE, free)).await;
                let (deleted, _) = self.send(&Step::delete(path)).await;
                assert!(deleted.code == 200 || deleted.code == 404, "{deleted:?}");
            }
        }
        if is_about(POLICIES) {
            let mut names = vec!["${ns}-a".to_owned()];
            names.extend((1..=self.seen.probes).map(|number| format!("${{ns}}-probe-{number}")));
            for name in &names {
                self.send(&Step::delete(format!("{BINDINGS}/{name}"))).await;
                self.send(&Step::delete(format!("{POLICIES}/{name}"))).await;
            }
            self.send(&Step::delete(format!("{CLAIMS}/${{ns}}-a"))).await;
        }
        if is_about(DEFINITIONS) {
            self.send(&Step::delete(format!("{DEFINITIONS}/things.${{ns}}.example.dev")))
                .await;
        }
    }
}
