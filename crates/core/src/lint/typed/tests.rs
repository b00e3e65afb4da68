use super::*;
use crate::api::WorkloadProfile;
use crate::lint::Context;
use crate::manifest::{Limits, Source, parse};
use crate::profile::built_in;

/// The definition of a kind of an operator that there isn't, with a field of every form.
const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pumps.flow.example.org}
spec:
  group: flow.example.org
  scope: Namespaced
  names: {kind: Pump, plural: pumps}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              running: {type: boolean}
              mode: {type: string, enum: [Auto, Manual]}
              speed: {type: integer}
              ratio: {type: number}
              from: {type: string}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              config: {type: object, additionalProperties: {type: string}}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
              pipes:
                type: array
                items: {type: object, properties: {name: {type: string}, width: {type: integer}}}
              selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}
          status:
            type: object
            properties:
              observedGeneration: {type: integer}
              phase: {type: string}
              ready: {type: boolean}
              pressure: {type: number}
              position: {type: string}
              report: {type: string}
              free: {}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
";

/// A profile that fits that definition, with every field that is looked at.
const PROFILE: &str = r#"---
apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: pump}
spec:
  appliesTo: {group: flow.example.org, kinds: [Pump]}
  requires:
  - {cel: "!has(object.spec.managedBy) && (!has(object.spec.pipes) || object.spec.pipes.all(p, p.width > 0))", message: m}
  stateful: true
  bornHeld: true
  hold:
  - {op: add, path: /spec/running, value: false}
  suspend:
  - {op: add, path: /spec/running, value: false}
  - {op: add, path: /spec/config/drain~1now, value: "attempt-${attempt}"}
  - {op: add, path: /metadata/annotations/flow.example.org~1drain, value: "yes"}
  start:
  - {op: add, path: /spec/running, value: true}
  - {op: add, path: /spec/from, value: "${captured.position}"}
  restart:
  - {op: replace, path: /spec/mode, value: Auto}
  - {op: add, path: /spec/pipes/0, value: {name: main, width: 3}}
  - {op: remove, path: /spec/ratio}
  restartFrom:
  - {op: add, path: /spec/speed, value: "${attempt}"}
  - {op: add, path: /spec/extra/b, value: {c: [1]}}
  - {op: add, path: /spec/port, value: http}
  ignoredOnRemoval: [/spec/running, /spec/from]
  observedWhen: has(object.status) && object.status.observedGeneration == object.metadata.generation
  suspendedWhen: json(object.status.report).state == 'shut' || object.status.phase in ['Shut', 'Closed']
  healthyWhen: object.status.conditions.exists(c, c.type == 'Flowing' && c.status == 'True')
  failedWhen: "object.status.free == 1 || object.spec.extra.b > 2 || object.spec.port == 80 || object.spec.port == 'http'"
  finishedWhen: "has(object.status.ready) ? object.status.ready : object.status.pressure < 1"
  ranWhen: "'key' in object.spec.config && object.spec.config['key'] != '' && object.metadata.labels.app == 'x'"
  noPods: {selectorAt: /spec/selector}
  capture:
  - {name: position, jsonPath: $.status.position, required: true, validWhen: "object.status.position.startsWith('s3:')"}
  lastKnown:
  - {name: position, jsonPath: "$.status.conditions[?(@.type == 'Saved')].status"}
  - {name: position, jsonPath: $.status.oldest}
  inUse: $.spec.from
  startsOver: {labelSelector: app=pump, unless: object.kind == 'Pump' && size(object.spec.pipes) == 1, message: m}
  runId: $.metadata.uid
"#;

fn found_in(text: &str) -> Vec<Finding> {
    let mut set = Set::new();
    let parsed = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
    set.update("a.yaml", parsed);
    crate::lint::check(&set, &Context::built_in().unwrap())
}

/// Returns what is said of the profile after some changes, without the places.
fn told(changes: &[(&str, &str)]) -> String {
    let mut text = format!("{DEFINITION}{PROFILE}");
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    let lines = found_in(&text).into_iter().map(|finding| {
        let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let message = finding.message.replace(" of WorkloadProfile pump", "");
        format!("{} {}: {message}{hint}", finding.severity, finding.code)
    });
    lines.collect::<Vec<_>>().join("\n")
}

const HEALTHY: &str = "object.status.conditions.exists(c, c.type == 'Flowing' && c.status == 'True')";

fn told_of_expression(expression: &str) -> String {
    let quoted = format!("{expression:?}");
    told(&[(HEALTHY, quoted.as_str())])
}

#[test]
fn a_profile_that_fits_its_definition_has_no_findings() {
    assert_eq!(told(&[]), "");
}

#[test]
fn a_field_that_the_schema_does_not_have_is_found_in_every_expression() {
    for (expression, path, hint) in [
        (
            "object.status.observedGenration == object.metadata.generation",
            "status.observedGenration",
            "did you mean observedGeneration?",
        ),
        (
            "object.status.conditions.exists(c, c.tpye == 'Flowing')",
            "status.conditions[].tpye",
            "did you mean type?",
        ),
        (
            "object.spec.pipes[0]['nam'] == 'x'",
            "spec.pipes[].nam",
            "did you mean name?",
        ),
        (
            "object.spec.selector.exprs == {}",
            "spec.selector.exprs",
            "known here: matchLabels",
        ),
        ("has(object.state.phase)", "state", "did you mean status?"),
    ] {
        let expected = format!(
            "error CUT0163: spec.healthyWhen names {path}, which is not a field of Pump.flow.example.org ({hint})"
        );
        assert_eq!(told_of_expression(expression), expected, "{expression}");
    }
    let misspelt = "object.status.positoin.startsWith('s3:')";
    assert_eq!(
        told(&[("object.status.position.startsWith('s3:')", misspelt)]),
        "error CUT0163: spec.capture.0.validWhen names status.positoin, which is not a field of Pump.flow.example.org (did you mean position?)"
    );
}

#[test]
fn what_is_tested_for_is_reported_only_if_it_is_nearly_a_field() {
    assert_eq!(
        told_of_expression("has(object.status.redy) && object.status.redy"),
        "warning CUT0165: spec.healthyWhen names status.redy, which is not a field of Pump.flow.example.org (did you mean ready?)"
    );
    assert_eq!(
        told_of_expression("!has(object.status.terminating) || object.status.terminating == 0"),
        ""
    );
    assert_eq!(
        told_of_expression("'terminating' in object.status && object.status['terminating'] == 0"),
        ""
    );
}

#[test]
fn a_condition_is_true_or_false() {
    for (expression, what) in [
        ("object.status.phase", "status.phase (a string)"),
        ("'yes'", "\"yes\" (a string)"),
        ("1 + 1", "a number or a string or a list"),
        ("size(object.spec.pipes)", "a whole number"),
        ("object.spec.pipes.map(p, p.name)", "a list"),
        (
            "object.status.ready && object.status.pressure",
            "status.pressure (a number)",
        ),
        ("object.status.ready ? object.spec : false", "spec (a mapping)"),
        ("!object.metadata.name", "metadata.name (a string)"),
    ] {
        let expected = format!("error CUT0164: spec.healthyWhen needs true or false, where it has {what}");
        assert_eq!(told_of_expression(expression), expected, "{expression}");
    }
    for expression in [
        "true",
        "object.status.ready",
        "object.status.free",
        "json(object.status.report).ready",
        "dyn(object.status.phase)",
        "object.spec.pipes.exists_one(p, p.name == 'a')",
        "object.spec.pipes.filter(p, p.width > 1).size() > 0",
        "bool(object.status.phase)",
    ] {
        assert_eq!(told_of_expression(expression), "", "{expression}");
    }
}

#[test]
fn what_is_compared_can_be_equal() {
    for (expression, what) in [
        (
            "object.status.phase == 1",
            "status.phase (a string) with 1 (a whole number)",
        ),
        (
            "object.status.observedGeneration != '4'",
            "status.observedGeneration (a whole number) with \"4\" (a string)",
        ),
        (
            "object.status.ready == 'True'",
            "status.ready (true or false) with \"True\" (a string)",
        ),
        (
            "object.status.phase in [1, 2]",
            "status.phase (a string) with 1 (a whole number)",
        ),
        (
            "object.spec.pipes.all(p, p.width < 'a')",
            "spec.pipes[].width (a whole number) with \"a\" (a string)",
        ),
        (
            "object.status.phase == object.metadata.generation",
            "status.phase (a string) with metadata.generation (a whole number)",
        ),
        (
            "object.spec.port == true",
            "spec.port (a whole number or a string) with true (true or false)",
        ),
    ] {
        let expected = format!(
            "error CUT0164: spec.healthyWhen compares {what} (values of different types are never equal)"
        );
        assert_eq!(told_of_expression(expression), expected, "{expression}");
    }
    for expression in [
        "object.status.pressure == 1",
        "object.spec.speed < 1.5",
        "object.status.phase == null",
        "object.status.phase in ['a', 1]",
        "int(object.status.phase) == 1",
        "object.spec.config.all(key, key != '')",
        "'x' in object.spec.config",
    ] {
        assert_eq!(told_of_expression(expression), "", "{expression}");
    }
}

#[test]
fn a_text_or_a_list_has_no_fields() {
    assert_eq!(
        told_of_expression("object.status.phase.name == ''"),
        "error CUT0164: spec.healthyWhen names status.phase.name, but status.phase is a string"
    );
}

#[test]
fn paths_lead_to_fields_that_there_are() {
    let path = |from: &str, to: &str| told(&[(from, to)]);
    assert_eq!(
        path("inUse: $.spec.from", "inUse: $.spec.form"),
        "error CUT0163: spec.inUse names spec.form, which is not a field of Pump.flow.example.org (did you mean from?)"
    );
    assert_eq!(
        path("runId: $.metadata.uid", "runId: $..uid.x"),
        "",
        "whatever is anywhere is not known"
    );
    assert_eq!(
        path("jsonPath: $.status.position,", "jsonPath: $.status.pressure,"),
        "error CUT0164: spec.capture.0.jsonPath captures status.pressure (a number), and a handle is a string"
    );
    assert_eq!(
        path("jsonPath: $.status.oldest", "jsonPath: $.status.positon"),
        "warning CUT0165: spec.lastKnown.1.jsonPath names status.positon, which is not a field of Pump.flow.example.org (did you mean position?)"
    );
}

#[test]
fn what_is_read_of_other_objects_is_not_held_against_the_schema_of_the_copy() {
    let beside = |fields: &str| {
        let rule =
            format!("  - {{name: position, jsonPath: $.status.positon{fields}}}\n  inUse: $.spec.from");
        told(&[("  inUse: $.spec.from", rule.as_str())])
    };
    let from = r#", from: {apiVersion: flow.example.org/v1, kind: Save, labelSelector: "pump=${name}"}"#;
    let more = r#", validWhen: object.status.done, newestBy: $.status.at, runPattern: "save-([0-9a-f]+)""#;
    assert_eq!(beside(&format!("{from}{more}")), "");
    assert!(beside("").contains("spec.lastKnown.2.jsonPath"));
    let unknown = beside(&from.replace("${name}", "${object.metadata.name}"));
    assert!(
        unknown.contains("${object.metadata.name} is not known here"),
        "{unknown}"
    );
    let path = |to: &str| told(&[("jsonPath: $.status.oldest", to)]);
    assert_eq!(path("jsonPath: $.status.oldest, newestBy: $.status.oldest"), "");
    assert!(
        path("jsonPath: $.status.oldest, newestBy: $.status.positon").contains("spec.lastKnown.1.newestBy")
    );
}

#[test]
fn patches_write_what_the_schema_takes() {
    for (from, to, expected) in [
        (
            "path: /spec/ratio",
            "path: /spec/rato",
            "error CUT0163: spec.restart.2.path names spec.rato, which is not a field of Pump.flow.example.org (did you mean ratio?)",
        ),
        (
            "path: /spec/speed",
            "path: /spec/from",
            "error CUT0164: spec.restartFrom.0.value writes a number to spec.from, which takes a string",
        ),
        (
            "value: Auto",
            "value: Atuo",
            "error CUT0164: spec.restart.0.value writes \"Atuo\" to spec.mode, which does not take it (did you mean Auto?)",
        ),
        (
            "value: Auto",
            "value: 1",
            "error CUT0164: spec.restart.0.value writes a number to spec.mode, which takes a string (put it in quotes)",
        ),
        (
            "{name: main, width: 3}",
            "{name: main, width: wide}",
            "error CUT0164: spec.restart.1.value writes a string to spec.pipes[].width, which takes a whole number",
        ),
        (
            "{name: main, width: 3}",
            "{nmae: main}",
            "error CUT0163: spec.restart.1.value names spec.pipes[].nmae, which is not a field of Pump.flow.example.org (did you mean name?)",
        ),
        (
            "ignoredOnRemoval: [/spec/running,",
            "ignoredOnRemoval: [/spec/runing,",
            "warning CUT0165: spec.ignoredOnRemoval.0 names spec.runing, which is not a field of Pump.flow.example.org (did you mean running?)",
        ),
        (
            "selectorAt: /spec/selector",
            "selectorAt: /spec/slector",
            "error CUT0163: spec.noPods.selectorAt names spec.slector, which is not a field of Pump.flow.example.org (did you mean selector?)",
        ),
        (
            "flow.example.org~1drain, value: \"yes\"",
            "flow.example.org~1drain, value: true",
            "error CUT0164: spec.suspend.2.value writes true or false to metadata.annotations[\"flow.example.org/drain\"], which takes a string (put it in quotes)",
        ),
    ] {
        assert_eq!(told(&[(from, to)]), expected, "{to}");
    }
}

#[test]
fn what_fits_one_version_or_kind_is_no_mistake() {
    let misspelt = (HEALTHY, "object.status.phaze == 'x'");
    let second = DEFINITION.split("  - name: v1\n").nth(1).unwrap();
    let second = format!("  - name: v2\n{}---\n", second.replace("phase:", "phaze:"));
    let end = "{type: {type: string}, status: {type: string}}}\n";
    let (one, both) = (format!("{end}---\n"), format!("{end}{second}"));
    let with_a_version = (one.as_str(), both.as_str());
    let of_pump = told(&[misspelt]);
    assert!(of_pump.starts_with("error CUT0163"), "{of_pump}");
    assert_eq!(told(&[misspelt, with_a_version]), "");
    assert_eq!(told(&[misspelt, ("kinds: [Pump]", "kinds: [Pump, Valve]")]), "");
}

#[test]
fn nothing_is_said_of_a_kind_that_is_not_known_or_whose_status_is_left_out() {
    let misspelt = (HEALTHY, "object.status.phaze.x == 'x'");
    assert_eq!(
        told(&[misspelt, ("kind: Pump, plural", "kind: Valve, plural")]),
        ""
    );
    let without_status = DEFINITION.split("          status:\n").next().unwrap();
    let text = format!("{without_status}{}", PROFILE.replace(misspelt.0, misspelt.1));
    assert_eq!(found_in(&text), []);
}

#[test]
fn of_kubernetes_own_kinds_only_what_no_version_has_is_an_error() {
    let profile = |healthy: &str, hold: &str| {
        let text = format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {{name: web}}\nspec:\n  \
             appliesTo: {{group: apps, kinds: [Deployment]}}\n  stateful: false\n  suspend: []\n  \
             hold: [{hold}]\n  start: []\n  restart: []\n  observedWhen: 'true'\n  suspendedWhen: 'true'\n  \
             healthyWhen: {healthy:?}\n"
        );
        let lines = found_in(&text).into_iter();
        let lines =
            lines.map(|finding| format!("{} {}: {}", finding.severity, finding.code, finding.message));
        lines.collect::<Vec<_>>().join("\n")
    };
    let hold = "{op: add, path: /spec/replicas, value: 0}";
    assert_eq!(
        profile("object.status.anything == object.spec.replicas", hold),
        ""
    );
    assert_eq!(
        profile("object.spec.replicsa == 1", hold),
        "warning CUT0010: spec.healthyWhen of WorkloadProfile web names spec.replicsa, which is not a field of Deployment.apps in Kubernetes 1.36"
    );
    assert_eq!(
        profile("true", "{op: add, path: /spec/replicas, value: none}"),
        "error CUT0164: spec.hold.0.value of WorkloadProfile web writes a string to spec.replicas, which takes a whole number"
    );
    assert_eq!(
        profile("true", "{op: add, path: /spec/strategy/type, value: Recreat}"),
        "warning CUT0010: spec.hold.0.value of WorkloadProfile web writes \"Recreat\" to spec.strategy.type, which does not take it in Kubernetes 1.36"
    );
}

#[test]
fn built_in_profiles_fit_what_kubernetes_publishes() {
    let context = Context::built_in().unwrap();
    let mut known = 0;
    for profile in built_in().unwrap() {
        let applies_to = &profile.spec.applies_to;
        let kinds = applies_to.kinds.iter();
        known += kinds
            .filter(|kind| !Place::of_kind(&context.schemas, &applies_to.group, kind).is_empty())
            .count();
        assert_eq!(
            faults(&profile.spec, &context.schemas),
            [],
            "{:?}",
            profile.metadata.name
        );
    }
    assert_eq!(known, 4, "Deployment, StatefulSet, Job and CronJob");
}

/// What is said of a healthy condition by the definition of that one kind and version.
fn misfits_of(healthy: &str, api_version: &str) -> Vec<Misfit> {
    let definition: Value = serde_yaml::from_str(DEFINITION).unwrap();
    let documents = PROFILE.trim_start_matches("---\n");
    let profile: WorkloadProfile = serde_yaml::from_str(documents).unwrap();
    let spec = WorkloadProfileSpec {
        healthy_when: healthy.to_owned(),
        ..profile.spec
    };
    misfits_with(&spec, &Gvk::new(api_version, "Pump"), &definition)
}

#[test]
fn a_profile_is_told_what_it_lacks_in_the_definition_that_is_served() {
    let wrong = "object.status.phaze == 'Up'";
    assert_eq!(
        misfits_of(wrong, "flow.example.org/v1"),
        [Misfit {
            pointer: "/spec/healthyWhen".to_owned(),
            message: "spec.healthyWhen names status.phaze, which is not a field of Pump.flow.example.org"
                .to_owned(),
            hint: Some("did you mean phase?".to_owned()),
        }]
    );
    for (healthy, api_version) in [
        (HEALTHY, "flow.example.org/v1"),
        // Of another version nothing is known.
        (wrong, "flow.example.org/v2"),
        // What it can do without is no reason to hold it back, and neither is a slip there.
        (
            "has(object.status.phaze) && object.status.phaze == 'Up'",
            "flow.example.org/v1",
        ),
        // It may be about another kind or version.
        (
            "object.kind != 'Pump' && object.status.phaze == 'Up'",
            "flow.example.org/v1",
        ),
        (
            "object.apiVersion.endsWith('/v2') && object.status.phaze == 'Up'",
            "flow.example.org/v1",
        ),
    ] {
        assert_eq!(misfits_of(healthy, api_version), [], "{healthy}");
    }
}

#[test]
fn what_leaves_everything_open_fits_every_profile() {
    let mut definition: Value = serde_yaml::from_str(DEFINITION).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for profile in built_in().unwrap() {
        let gvk = Gvk::new("flow.example.org/v1", "Pump");
        assert_eq!(misfits_with(&profile.spec, &gvk, &definition), []);
    }
}

#[test]
fn one_version_that_it_fits_is_enough_for_a_profile_that_comes() {
    let mut definition: Value = serde_yaml::from_str(DEFINITION).unwrap();
    let documents = PROFILE.trim_start_matches("---\n");
    let profile: WorkloadProfile = serde_yaml::from_str(documents).unwrap();
    let spec = WorkloadProfileSpec {
        healthy_when: "object.status.phaze == 'Up'".to_owned(),
        ..profile.spec
    };
    let told = |definition: &Value| misfits(&spec, &Schemas::new().with_definitions([definition]));
    assert_eq!(told(&definition).len(), 1);
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    let mut newer = versions[0].clone();
    newer["name"] = "v2".into();
    newer["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["phaze"] =
        serde_json::json!({"type": "string"});
    versions.push(newer);
    assert_eq!(told(&definition), []);
    assert_eq!(misfits(&spec, &Schemas::new()), [], "its kind is not known");
}
