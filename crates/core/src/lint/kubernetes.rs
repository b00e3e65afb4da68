//! The kinds that Kubernetes brings itself, held against what its API server publishes of them.
//!
//! `kubernetes/published.json` is generated from that server's `/openapi/v3` (`just gen-kubernetes`) and has only its
//! structure: fields, types, allowed values. A newer Kubernetes may have more fields and values, and may require fewer: what this one doesn't
//! know is a warning. A wrong type is an error, since no version of an API changes one.

mod form;

use std::sync::LazyLock;

use super::json_type::Type;
use crate::finding::{Code, Finding};
use crate::manifest::Manifest;
use crate::schema::{Problem, Violation, report};
use cutover_base::nearest::did_you_mean;
pub(super) use form::Form;
use form::{Place, Published};

static PUBLISHED: LazyLock<Published> = LazyLock::new(|| {
    let published = Published::read(include_str!("kubernetes/published.json"));
    published.unwrap_or_default()
});

/// Returns the version of Kubernetes whose kinds are known, such as `1.36`.
pub fn version() -> &'static str {
    let whole = PUBLISHED.version;
    let minor = whole.rsplit_once('.').map_or(whole, |(minor, _)| minor);
    minor.trim_start_matches('v')
}

/// Returns the form of a kind in every version that is published.
pub(super) fn forms_of(group: &str, kind: &str) -> Vec<Form> {
    PUBLISHED.forms_of(group, kind)
}

/// Returns the form of the metadata of every object.
pub(super) fn metadata() -> Option<Form> {
    PUBLISHED.metadata
}

/// Returns the form of a field, if one is published; an error with the names of the fields that there are, if it is none of
/// them.
pub(super) fn field(form: Form, name: &str) -> Result<Option<Form>, Vec<&'static str>> {
    PUBLISHED.field(form, name)
}

/// Returns the form of the items of a list, if one is published.
pub(super) fn item(form: Form) -> Option<Form> {
    PUBLISHED.item(form)
}

/// Returns the types that a form takes; none: any.
pub(super) fn types(form: Form) -> Vec<Type> {
    PUBLISHED.types(form)
}

/// Returns the texts that a form takes, besides an empty one; none: any.
pub(super) fn allowed(form: Form) -> &'static [&'static str] {
    PUBLISHED.allowed(form)
}

/// Compares an object with what is published of its kind; of another group, or another version, nothing is said.
pub(super) fn check(object: &Manifest, findings: &mut Vec<Finding>) {
    // SOPS makes texts of all values.
    if object.value.get("sops").is_some() {
        return;
    }
    let api_version = object.gvk.api_version();
    let Some(kinds) = PUBLISHED.kinds(&api_version) else {
        return;
    };
    match kinds.get(object.gvk.kind.as_str()) {
        Some(kind) => {
            let violations = PUBLISHED.violations(&object.value, *kind, Place::Root);
            report(
                object,
                &violations,
                |violation| Some(finding(violation, object)),
                findings,
            );
        }
        None => findings.extend(misspelt_kind(object, &api_version, kinds.keys().copied())),
    }
}

/// Compares the metadata of an object of whatever kind with what every object has.
pub(super) fn check_metadata(object: &Manifest, findings: &mut Vec<Finding>) {
    if let (Some(metadata), Some(form)) = (object.value.get("metadata"), PUBLISHED.metadata) {
        let at = Place::Field(&Place::Root, "metadata");
        let violations = PUBLISHED.violations(metadata, form, at);
        report(
            object,
            &violations,
            |violation| Some(finding(violation, object)),
            findings,
        );
    }
}

/// What isn't known says which Kubernetes doesn't know it.
fn finding(violation: &Violation, object: &Manifest) -> Finding {
    let found = violation.finding(&object.gvk.kind, &object.source.path, &object.positions);
    let (version, told) = (version(), &found.message);
    let (message, hint) = match &violation.problem {
        Problem::Type { .. } | Problem::Range { .. } => return found,
        Problem::Missing => (
            format!("{told}: the schema of Kubernetes {version} requires it"),
            None,
        ),
        Problem::NotAllowed { .. } => (format!("{told} in Kubernetes {version}"), None),
        Problem::Unknown { .. } => (
            format!("{told} in Kubernetes {version}"),
            Some("a newer Kubernetes may have it".to_owned()),
        ),
    };
    Finding {
        code: Code::KubernetesSchema,
        severity: Code::KubernetesSchema.rule().severity,
        message,
        hint: found.hint.or(hint),
        location: found.location,
    }
}

/// Returns what is said of a kind that its group doesn't have, and that is nearly one that it has.
fn misspelt_kind<'a>(
    object: &Manifest,
    api_version: &str,
    kinds: impl Iterator<Item = &'a str>,
) -> Option<Finding> {
    let hint = did_you_mean(&object.gvk.kind, kinds)?;
    let message = format!(
        "Kubernetes {} has no kind {} in {api_version}",
        version(),
        object.gvk.kind
    );
    Some(Finding::new(Code::KubernetesSchema, object.location("/kind"), message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::super::Context;
    use super::*;
    use crate::manifest::{Limits, Set, Source, parse};
    use crate::schema::Schemas;

    fn check_text(text: &str) -> String {
        let mut set = Set::new();
        let parsed = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
        set.update("a.yaml", parsed);
        let findings = super::super::check(&set, &Context::built_in().unwrap());
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: null}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      containers:
      - name: web
        image: nginx
        imagePullPolicy: ''
        ports: [{containerPort: 80, protocol: TCP}]
        resources: {requests: {cpu: 1, memory: 64Mi}, limits: {cpu: 0.5}}
        livenessProbe: {httpGet: {path: /, port: http}}
        env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]
status: {replicas: none}
";

    #[test]
    fn what_is_published_is_read_whole() {
        let text = include_str!("kubernetes/published.json");
        Published::read(text).unwrap();
        let file: serde_json::Value = serde_json::from_str(text).unwrap();
        for reference in text.split("\"#/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(file["schemas"][name].is_object(), "{name}");
        }
        assert_eq!(version(), "1.36");
        assert!(PUBLISHED.metadata.is_some());
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("policy/v1", "PodDisruptionBudget"),
        ] {
            assert!(PUBLISHED.kinds(api_version).unwrap().contains_key(kind), "{kind}");
        }
    }

    #[test]
    fn objects_as_an_api_server_takes_them_have_no_findings() {
        assert_eq!(check_text(DEPLOYMENT), "");
        for text in [
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\nbinaryData: {b: AA==}\n",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: '', ports: [{port: 80, targetPort: web}, {port: 81, targetPort: 8081}]}\n",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: null\n",
            "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: a}\nrevision: 1\ndata: {any: {thing: 1}}\n",
        ] {
            assert_eq!(check_text(text), "", "{text}");
        }
    }

    #[test]
    fn misspelt_fields_and_values_are_found_with_what_was_meant() {
        let text = DEPLOYMENT
            .replace("replicas: 2", "replicsa: 2")
            .replace("type: RollingUpdate", "type: RolingUpdate")
            .replace(
                "labels: {app: web}, annotations",
                "lables: {app: web}, annotations",
            )
            .replace("      containers:", "      contaners:");
        insta::assert_snapshot!(check_text(&text), @r#"
        warning[CUT0010]: metadata.lables is not a field of Deployment in Kubernetes 1.36
          --> a.yaml:3:23
        hint: did you mean labels?
        warning[CUT0010]: spec.replicsa is not a field of Deployment in Kubernetes 1.36
          --> a.yaml:5:3
        hint: did you mean replicas?
        warning[CUT0010]: spec.strategy.type can't be "RolingUpdate" in Kubernetes 1.36
          --> a.yaml:7:20
        hint: did you mean RollingUpdate?
        warning[CUT0010]: spec.template.spec.containers is missing: the schema of Kubernetes 1.36 requires it
          --> a.yaml:10:5
        warning[CUT0010]: spec.template.spec.contaners is not a field of Deployment in Kubernetes 1.36
          --> a.yaml:11:7
        hint: did you mean containers?
        "#);
    }

    #[test]
    fn a_wrong_type_is_an_error_in_every_version() {
        let text = DEPLOYMENT
            .replace("replicas: 2", "replicas: two")
            .replace("containerPort: 80", "containerPort: '80'")
            .replace(
                "name: A, valueFrom: {secretKeyRef: {name: s, key: k}}",
                "name: A, value: 1",
            )
            .replace("labels: {app: web}, annotations", "labels: {app: 1}, annotations");
        insta::assert_snapshot!(check_text(&text), @"
        error[CUT0007]: metadata.labels.app must be a string, not a number
          --> a.yaml:3:37
        hint: put it in quotes
        error[CUT0007]: spec.replicas must be a whole number, not a string
          --> a.yaml:5:13
        error[CUT0007]: spec.template.spec.containers[0].ports[0].containerPort must be a whole number, not a string
          --> a.yaml:15:33
        error[CUT0007]: spec.template.spec.containers[0].env[0].value must be a string, not a number
          --> a.yaml:18:32
        hint: put it in quotes
        ");
    }

    #[test]
    fn a_field_that_a_newer_kubernetes_may_have_is_no_error() {
        let text = DEPLOYMENT.replace("  replicas: 2", "  replicas: 2\n  quantumEntanglement: true");
        insta::assert_snapshot!(check_text(&text), @"
        warning[CUT0010]: spec.quantumEntanglement is not a field of Deployment in Kubernetes 1.36
          --> a.yaml:6:3
        hint: known here: minReadySeconds, paused, progressDeadlineSeconds, replicas, revisionHistoryLimit, selector, strategy, template
        ");
    }

    #[test]
    fn what_a_newer_kubernetes_may_have_is_no_error_however_often_it_stands_there() {
        let fields: String = (0..200)
            .map(|index| format!("  newField{index}: true\n"))
            .collect();
        let text = DEPLOYMENT.replace("spec:\n  replicas", &format!("spec:\n{fields}  replicas"));
        let found = check_text(&text);
        assert!(
            found.contains("warning[CUT0004]") && !found.contains("error"),
            "{found}"
        );
    }

    #[test]
    fn a_misspelt_kind_is_found_and_an_unknown_one_left_alone() {
        insta::assert_snapshot!(check_text(&DEPLOYMENT.replace("kind: Deployment", "kind: Deploymnet")), @"
        warning[CUT0010]: Kubernetes 1.36 has no kind Deploymnet in apps/v1
          --> a.yaml:2:7
        hint: did you mean Deployment?
        ");
        for (from, to) in [
            ("kind: Deployment", "kind: Garden"),
            ("apps/v1", "apps/v2"),
            ("apps/v1", "gardens.example.com/v1"),
        ] {
            let text = DEPLOYMENT.replace(from, to).replace("replicas: 2", "replicsa: 2");
            assert_eq!(check_text(&text), "", "{to}");
        }
    }

    #[test]
    fn metadata_of_other_kinds_is_checked_where_their_schema_is_known() {
        let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: shop, lables: {a: b}}\nspec:\n  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n  placment: {}\n";
        insta::assert_snapshot!(check_text(&format!("{policy}---\n{DEPLOYMENT}")), @"
        warning[CUT0010]: metadata.lables is not a field of PropagationPolicy in Kubernetes 1.36
          --> a.yaml:3:38
        hint: did you mean labels?
        error[CUT0006]: spec.placment is not a field of PropagationPolicy
          --> a.yaml:6:3
        hint: did you mean placement?
        ");
    }

    #[test]
    fn values_that_sops_encrypted_are_left_alone() {
        let text = format!(
            "{}sops: {{version: 3.9.0}}\n",
            DEPLOYMENT.replace("replicas: 2", "replicas: ENC[x]")
        );
        assert_eq!(check_text(&text), "");
    }

    #[test]
    fn nothing_is_said_without_kubernetes() {
        let text = DEPLOYMENT.replace("replicas: 2", "replicsa: 2");
        let mut set = Set::new();
        set.update(
            "a.yaml",
            parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
        );
        let context = Context {
            schemas: Schemas::new(),
            ..Context::default()
        };
        assert_eq!(super::super::check(&set, &context), []);
    }
}
