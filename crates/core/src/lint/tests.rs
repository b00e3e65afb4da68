use serde_json::json;

use super::*;
use crate::finding::RULES;
use crate::manifest::{Limits, Source, parse};

fn set_of(text: &str) -> Set {
    let mut set = Set::new();
    set.update(
        "a.yaml",
        parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
    );
    set
}

fn check_text(text: &str) -> String {
    let set = set_of(text);
    let crds: Vec<_> = crate::api::crds()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect();
    let context = Context {
        schemas: Schemas::new().with_definitions(&crds),
        profiles: BTreeSet::from(["flink".to_owned()]),
        now: Some("2026-03-01T10:00:00Z".parse().unwrap()),
        ..Context::default()
    };
    check(&set, &context)
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

const MIGRATION: &str = "\
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  to: west
  profile: flink
";

const ORDERS: &str = "---\napiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: orders, namespace: shop}\n";

#[test]
fn a_good_intent_has_no_findings() {
    assert_eq!(check_text(&format!("{MIGRATION}{ORDERS}")), "");
}

#[test]
fn lengths_of_time_and_times_are_read_as_the_api_server_does() {
    let more = "  from: west\n  verify: {healthyFor: '60', timeout: -5s}\n  deadline: tomorrow\n  window: {daily: {from: '25:00', to: '05:00'}}\n";
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}{more}{ORDERS}")), @r#"
    error[CUT0118]: Migration shop/orders-to-west moves a workload from west to west
      --> a.yaml:8:9
    hint: leave spec.from out, or name the cluster in which it is
    error[CUT0007]: spec.verify.healthyFor must be a length of time such as 90s or 1h30m, not "60"
      --> a.yaml:9:24
    hint: write a unit: 60s
    error[CUT0007]: spec.verify.timeout must be a length of time such as 90s or 1h30m, not "-5s"
      --> a.yaml:9:39
    error[CUT0007]: spec.deadline must be a time such as 2026-03-14T09:15:00Z, not "tomorrow"
      --> a.yaml:10:13
    error[CUT0007]: spec.window.daily.from must be of the form ^([01][0-9]|2[0-3]):[0-5][0-9]$
      --> a.yaml:11:26
    "#);
}

#[test]
fn a_number_that_is_meant_as_a_length_of_time_needs_a_unit() {
    let more = "  verify: {healthyFor: 60, timeout: [1]}\n  deadline: 2030\n";
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}{more}{ORDERS}")), @"
    error[CUT0007]: spec.verify.healthyFor must be a length of time such as 90s or 1h30m, not a number
      --> a.yaml:8:24
    hint: write a unit: 60s
    error[CUT0007]: spec.verify.timeout must be a length of time such as 90s or 1h30m, not a list
      --> a.yaml:8:37
    error[CUT0007]: spec.deadline must be a time such as 2026-03-14T09:15:00Z, not a number
      --> a.yaml:9:13
    ");
}

#[test]
fn a_time_limit_that_is_shorter_than_what_comes_after_is_told() {
    let told = |verify: &str| check_text(&format!("{MIGRATION}  verify: {verify}\n{ORDERS}"));
    insta::assert_snapshot!(told("{timeout: 30s}"), @"
    note[CUT0119]: Migration shop/orders-to-west: spec.verify.timeout (30s) is shorter than spec.verify.healthyFor (60s)
      --> a.yaml:8:21
    hint: timeout ends the wait until it is healthy; healthyFor begins then, and is not part of it
    ");
    assert_eq!(told("{timeout: 60s}"), "");
    // A long soak says nothing about how long a start takes.
    assert_eq!(told("{healthyFor: 1h}"), "");
    let rollout = "---\napiVersion: cutover.dev/v1alpha1\nkind: Rollout\nmetadata: {name: web, namespace: shop}\nspec:\n  \
                   workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}\n  \
                   progress: {healthyFor: 2m, timeout: 1m}\n";
    let text = check_text(&format!("{rollout}{ORDERS}"));
    assert!(
        text.contains("spec.progress.timeout (1m) is shorter than spec.progress.healthyFor (2m)"),
        "{text}"
    );
}

#[test]
fn a_template_that_asks_to_go_elsewhere_than_an_intent_is_found() {
    let asks = ORDERS.replace(
        "namespace: shop}",
        "namespace: shop, annotations: {karmada.io/migration-target: north}}",
    );
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}{asks}")), @"
    error[CUT0113]: FlinkDeployment shop/orders asks to be moved to north, and Migration shop/orders-to-west moves it elsewhere: only one of them can have it
      --> a.yaml:11:86
    hint: remove the annotation karmada.io/migration-target, or the file of the intent at a.yaml:1:1
    ");
}

#[test]
fn a_template_that_asks_to_go_where_an_evacuation_leaves_nothing_is_found() {
    let asks = ORDERS.replace(
        "namespace: shop}",
        "namespace: shop, annotations: {karmada.io/migration-target: north}}",
    );
    let beside = |spec: &str| {
        let evacuation =
            "---\napiVersion: cutover.dev/v1alpha1\nkind: Evacuation\nmetadata: {name: maintenance}\n";
        check_text(&format!("{asks}{evacuation}spec: {{{spec}}}\n"))
    };
    let told = beside("cluster: north");
    assert!(
        told.contains(
            "error[CUT0113]: FlinkDeployment shop/orders asks to be moved to north, and Evacuation maintenance empties that \
             cluster: only one of them can have it\n  --> a.yaml:4:86"
        ),
        "{told}"
    );
    for passes in [
        "cluster: west",
        "cluster: north, abort: true",
        "cluster: north, select: {namespaces: [other]}",
        "cluster: north, select: {labelSelector: tier=critical}",
    ] {
        let told = beside(passes);
        assert!(!told.contains("CUT0113"), "{told}");
    }
}

#[test]
fn schemas_find_misspelt_wrong_and_missing_fields() {
    let text = format!("{MIGRATION}  onFailre: Hold\n  paused: 'yes'\n  strategy: StopFrist\n{ORDERS}")
        .replace("  to: west\n", "");
    insta::assert_snapshot!(check_text(&text), @r#"
    error[CUT0008]: spec.to is missing
      --> a.yaml:4:1
    error[CUT0006]: spec.onFailre is not a field of Migration
      --> a.yaml:7:3
    hint: did you mean onFailure?
    error[CUT0007]: spec.paused must be true or false, not a string
      --> a.yaml:8:11
    error[CUT0007]: spec.strategy can't be "StopFrist"
      --> a.yaml:9:13
    hint: did you mean StopFirst?
    "#);
}

#[test]
fn kinds_and_versions_that_nobody_serves_are_found() {
    let text = format!("{MIGRATION}{ORDERS}").replace("kind: Migration", "kind: Migraton");
    insta::assert_snapshot!(check_text(&text), @"
    error[CUT0009]: there is no kind Migraton in cutover.dev
      --> a.yaml:2:7
    hint: did you mean Migration?
    ");
    let text = format!("{MIGRATION}{ORDERS}").replace("cutover.dev/v1alpha1", "cutover.dev/v1beta1");
    insta::assert_snapshot!(check_text(&text), @"
    error[CUT0009]: Migration has no version cutover.dev/v1beta1
      --> a.yaml:1:13
    hint: write apiVersion: cutover.dev/v1alpha1
    ");
}

#[test]
fn dangling_references_are_found() {
    let text = format!("{MIGRATION}{ORDERS}")
        .replace("name: orders}", "name: ordres}")
        .replace("profile: flink", "profile: flnk");
    insta::assert_snapshot!(check_text(&text), @"
    warning[CUT0101]: no file defines FlinkDeployment shop/ordres, which Migration shop/orders-to-west is about
      --> a.yaml:5:81
    hint: did you mean orders?
    error[CUT0103]: there is no profile flnk
      --> a.yaml:7:12
    hint: did you mean flink?
    ");
    let other =
        format!("{MIGRATION}{ORDERS}").replace("orders, namespace: shop}", "orders, namespace: shed}");
    insta::assert_snapshot!(check_text(&other), @"
    warning[CUT0101]: no file defines FlinkDeployment shop/orders, which Migration shop/orders-to-west is about
      --> a.yaml:5:81
    hint: FlinkDeployment shed/orders is defined at a.yaml:9:1
    ");
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec:\n{spec}"
    )
}

#[test]
fn a_policy_that_selects_nothing_is_found() {
    let selector = |rest: &str| {
        policy(&format!(
            "  resourceSelectors:\n  - {{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment{rest}}}\n{ORDERS}  "
        )) + "\n"
    };
    for rest in ["", ", name: orders", ", namespace: shop"] {
        assert_eq!(check_text(&selector(rest)), "", "{rest}");
    }
    insta::assert_snapshot!(check_text(&selector(", name: order")), @"
    warning[CUT0102]: PropagationPolicy shop/p selects FlinkDeployment order, but no file defines such an object
      --> a.yaml:6:5
    hint: did you mean orders?
    ");
    for rest in [", namespace: shed", ", labelSelector: {matchLabels: {a: b}}"] {
        assert!(check_text(&selector(rest)).contains("CUT0102"), "{rest}");
    }
    assert_eq!(
        check_text(&selector(
            ", labelSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}"
        )),
        ""
    );
}

#[test]
fn failover_that_never_happens_is_found() {
    let spec = "  failover:
    application:
      purgeMode: Graciously
      statePreservation:
        rules:
        - {aliasLabelName: job, jsonPath: '{ .jobStatus.jobID }'}
        - {aliasLabelName: job, jsonPath: '{.jobStatus.jobId}'}
";
    insta::assert_snapshot!(check_text(&policy(spec)), @r#"
    error[CUT0204]: application failover without propagateDeps: true
      --> a.yaml:6:5
    hint: set spec.propagateDeps: true
    error[CUT0202]: the purge mode Graciously is now called Gracefully
      --> a.yaml:7:18
    hint: write Gracefully
    warning[CUT0203]: state is preserved, but with purge mode Graciously never injected
      --> a.yaml:8:7
    hint: set purgeMode: Directly
    error[CUT0201]: "{ .jobStatus.jobID }" matches nothing: this policy never fails over
      --> a.yaml:10:43
    hint: FlinkDeployment's field is jobStatus.jobId
    "#);
}

#[test]
fn objects_defined_twice_and_plain_secrets_are_found() {
    let secret =
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {password: swordfish}\n";
    let text = check_text(&secret.repeat(2));
    assert!(!text.contains("swordfish"));
    assert_eq!(check_text(&format!("{secret}sops: {{version: 3.9.0}}\n")), "");
    insta::assert_snapshot!(text, @"
    warning[CUT0301]: Secret key has its values in plain text: every reader of the repository has them
      --> a.yaml:2:1
    hint: encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets)
    error[CUT0005]: Secret key is defined twice, first at a.yaml:2:1
      --> a.yaml:7:1
    hint: remove one of them
    warning[CUT0301]: Secret key has its values in plain text: every reader of the repository has them
      --> a.yaml:7:1
    hint: encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets)
    ");
}

#[test]
fn definitions_in_the_repository_are_used() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.x.y"},
        "spec": {"group": "x.y", "names": {"kind": "Foo"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}}}}]}});
    let foo = "---\napiVersion: x.y/v1\nkind: Foo\nmetadata: {name: a}\nspec: {size: 0, szie: 1}\n";
    insta::assert_snapshot!(check_text(&format!("{crd}\n{foo}")), @"
    error[CUT0007]: spec.size must be at least 1
      --> a.yaml:6:14
    error[CUT0006]: spec.szie is not a field of Foo
      --> a.yaml:6:17
    hint: did you mean size?
    ");
}

#[test]
fn schemas_of_every_form_are_understood() {
    let schema = json!({"$defs": {"leaf": {"type": ["string", "null"]}, "tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
        "type": "object", "required": ["a"], "properties": {
        "a": {"$ref": "#/$defs/leaf"},
        "tree": {"$ref": "#/$defs/tree"},
        "pick": {"oneOf": [{"const": "One"}, {"const": "Two"}]},
        "maybe": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
        "open": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": {"type": "string"}}},
        "port": {"x-kubernetes-int-or-string": true},
        "both": {"allOf": [{"properties": {"p": {"type": "string"}}}, {"properties": {"q": {"type": "string"}}}]},
        "list": {"type": "array", "maxItems": 1, "items": {"type": "string", "minLength": 1}}}});
    for (value, expected) in [
        (
            json!({"a": "x", "tree": {"next": {"next": {}}}, "pick": "Two", "maybe": null, "open": {"z": 1}}),
            "",
        ),
        (
            json!({"a": null, "any": {"y": {}}, "port": 80, "both": {"p": "", "q": ""}, "list": ["x"]}),
            "",
        ),
        (json!({}), "/a Missing"),
        (
            json!({"a": "", "tree": {"next": {"nxt": {}}}}),
            "/tree/next/nxt Unknown",
        ),
        (json!({"a": "", "pick": "Tow"}), "/pick NotAllowed"),
        (json!({"a": "", "maybe": {"z": 1}}), "/maybe/z Unknown"),
        (json!({"a": "", "maybe": 1}), "/maybe Type"),
        (json!({"a": "", "open": {"z": "1"}}), "/open/z Type"),
        (json!({"a": "", "any": {"x": 1}}), "/any/x Type"),
        (json!({"a": "", "port": 1.5}), "/port Type"),
        (json!({"a": "", "both": {"r": ""}}), "/both/r Unknown"),
        (json!({"a": "", "list": [""]}), "/list/0 Range"),
        (json!({"a": "", "list": ["a", "b"]}), "/list Range"),
    ] {
        let found: Vec<_> = crate::schema::violations(&value, &schema)
            .iter()
            .map(|violation| {
                let problem = format!("{:?}", violation.problem);
                format!(
                    "{} {}",
                    violation.pointer,
                    problem.split([' ', '{']).next().unwrap()
                )
            })
            .collect();
        assert_eq!(found.join(", "), expected, "{value}");
    }
}

#[test]
fn codes_are_in_order_and_have_words() {
    assert!(RULES.is_sorted_by(|a, b| a.code < b.code));
    for rule in RULES {
        assert_eq!(rule.code.rule().name, rule.name);
        assert!(
            rule.explanation.ends_with('.') && !rule.name.contains(' '),
            "{}",
            rule.code
        );
    }
    assert_eq!(Code::Unreadable.to_string(), "CUT0001");
}

const SHARED: &str = "---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: web}
  - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: front}}}
  placement: {clusterAffinity: {clusterNames: [blue, green]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop, labels: {tier: front}}
";

fn suspension(spec: &str) -> String {
    format!(
        "apiVersion: cutover.dev/v1alpha1\nkind: Suspension\nmetadata: {{name: freeze, namespace: shop}}\nspec:\n  {spec}\n{SHARED}"
    )
}

#[test]
fn a_suspension_of_a_shared_policy_lists_every_workload_that_it_stops() {
    insta::assert_snapshot!(
        check_text(&suspension("target: {policy: {name: web}}\n  reason: r")),
        @"
    warning[CUT0105]: Suspension shop/freeze suspends every workload of PropagationPolicy shop/web: Deployment shop/cart, Deployment shop/web
      --> a.yaml:5:27
    hint: give a workload a policy that names it alone to suspend it alone
    "
    );
}

#[test]
fn a_suspension_of_what_neither_its_policy_nor_a_pin_can_hold_is_refused_with_the_others() {
    let target = "target: {workload: {apiVersion: apps/v1, kind: Deployment, name: web}}\n  reason: r";
    let holdable = suspension(target).replace(
        "name: web, namespace: shop}\n---",
        "name: web, namespace: shop}\nspec: {}\n---",
    );
    assert!(!check_text(&holdable).contains("CUT0106"), "a pin holds it");
    insta::assert_snapshot!(check_text(&suspension(target)), @"
    error[CUT0106]: Suspension shop/freeze would suspend Deployment shop/cart too: PropagationPolicy shop/web is not the workload's own, and a pin can't hold a Deployment, so it is refused
      --> a.yaml:5:68
    hint: give the workload a policy that names it alone, or suspend the whole policy: target.policy
    ");
}

#[test]
fn a_suspension_of_nothing_nowhere_or_the_past_is_found() {
    let spec = "target: {policy: {name: wbe}}\n  reason: r\n  until: 2026-03-01T09:00:00Z";
    insta::assert_snapshot!(check_text(&suspension(spec)), @"
    warning[CUT0104]: no file defines PropagationPolicy wbe, which Suspension shop/freeze is about
      --> a.yaml:5:27
    hint: did you mean web?
    warning[CUT0107]: Suspension shop/freeze ended at 2026-03-01T09:00:00Z: it suspends nothing
      --> a.yaml:7:10
    hint: give it a later time, or remove the file
    ");
    let spec = "target: {policy: {name: web}}\n  clusters: [gren]\n  reason: r";
    let found = check_text(&suspension(spec));
    assert!(
        found.contains("CUT0108") && found.contains("did you mean green?"),
        "{found}"
    );
}

#[test]
fn an_evacuation_that_can_not_be_done_or_whose_cordon_is_tolerated_is_found() {
    let evacuation = |spec: &str| {
        check_text(&format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: Evacuation\nmetadata: {{name: drain}}\nspec: {spec}\n{SHARED}"
        ))
    };
    assert_eq!(
        evacuation("{cluster: east, select: {kinds: [Deployment.apps], labelSelector: tier=critical}}"),
        ""
    );
    for (spec, wrong) in [
        ("{}", "CUT0121"),
        ("{cluster: east, taint: {key: a}}", "CUT0121"),
        ("{cluster: east, to: {clusters: [east]}}", "CUT0121"),
        ("{cluster: east, order: [{labelSelector: 'tier in'}]}", "CUT0121"),
        (
            "{cluster: east, select: {kinds: [Deploymnt]}}",
            "did you mean Deployment?",
        ),
        ("{cluster: east, maxParalel: 2}", "CUT0006"),
    ] {
        let found = evacuation(spec);
        assert!(found.contains(wrong), "{spec}: {found}");
    }
    let tolerant = evacuation(
        "{cluster: east}\n---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n\
         metadata: {name: t, namespace: shop}\nspec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}], \
         placement: {clusterTolerations: [{operator: Exists}]}}",
    );
    assert!(tolerant.contains("CUT0123"), "{tolerant}");
}

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {resourcetemplate.karmada.io/retain-replicas: 'true'}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  failover: {cluster: {purgeMode: Gracefully}}
---
";

#[test]
fn a_shift_that_would_be_refused_is_found() {
    let shift = "apiVersion: cutover.dev/v1alpha1
kind: ReplicaShift
metadata: {name: web, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  from: {cluster: blue}
  to: blue
  step: 2
  percentages: [50, 10]
  pause: {approval: [20]}
  then: {suspend: [green]}
  deadline: 2026-02-01T00:00:00Z
";
    insta::assert_snapshot!(check_text(&format!("{WEB}{shift}")), @"
    warning[CUT0143]: PropagationPolicy shop/web has failover, by which a side could be evicted in the middle of a step: ReplicaShift shop/web is refused
      --> a.yaml:15:13
    hint: remove spec.failover from the policy for the duration of the shift
    warning[CUT0142]: Deployment shop/web lets each cluster keep its own replicas, by the label resourcetemplate.karmada.io/retain-replicas: ReplicaShift shop/web is refused
      --> a.yaml:21:59
    hint: remove the label for the duration of the shift
    warning[CUT0142]: HorizontalPodAutoscaler shop/busy sets the replicas that ReplicaShift shop/web moves: it is refused
      --> a.yaml:21:59
    hint: remove it for the duration of the shift; spec.floor keeps the capacity meanwhile
    error[CUT0141]: ReplicaShift shop/web: the replicas are to go from blue to blue
      --> a.yaml:23:7
    hint: fix spec.from or spec.to
    error[CUT0141]: ReplicaShift shop/web: spec.step and spec.percentages are both given
      --> a.yaml:24:9
    hint: give one of them
    error[CUT0141]: ReplicaShift shop/web: spec.percentages don't ascend
      --> a.yaml:25:16
    hint: for instance [10, 50, 100]
    error[CUT0141]: ReplicaShift shop/web: no step brings 20%
      --> a.yaml:26:22
    hint: the last one brings 10%
    error[CUT0141]: ReplicaShift shop/web: the replicas don't come from green
      --> a.yaml:27:20
    hint: name the cluster of spec.from; others are suspended by a Suspension of their own
    note[CUT0110]: the deadline of ReplicaShift shop/web ended at 2026-02-01T00:00:00Z: the intent starts nothing
      --> a.yaml:28:13
    hint: leave it if it is done; else give it a later time
    ");
}

#[test]
fn a_rollout_policy_that_selects_nothing_or_what_somebody_else_has_is_found() {
    let policy = |name: &str, select: &str| {
        format!(
            "---
apiVersion: cutover.dev/v1alpha1
kind: RolloutPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  select:
  - {{apiVersion: apps/v1, kind: Deployment, {select}}}
  controls: [{{kind: Deployment, name: wbe, retry: 1}}]
  order: [east, east]
"
        )
    };
    let rollout = "---
apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec: {workload: {apiVersion: apps/v1, kind: Deployment, name: web}}
";
    let web = WEB.split("---").next().unwrap();
    let (all, none, bad) = (
        policy("all", "name: web"),
        policy("none", "name: wbe"),
        policy("bad", "labelSelector: 'tier in ('"),
    );
    insta::assert_snapshot!(check_text(&format!("{web}{rollout}{all}{none}{bad}")), @r#"
    warning[CUT0134]: RolloutPolicy shop/all selects Deployment shop/web, but Rollout shop/web is about it
      --> a.yaml:15:5
    hint: that one takes its changes along, not the policy
    warning[CUT0102]: RolloutPolicy shop/all has a control for Deployment wbe, which it does not select
      --> a.yaml:16:14
    hint: did you mean web?
    warning[CUT0131]: RolloutPolicy shop/all names east twice: only the first place counts
      --> a.yaml:17:17
    hint: take it out of one of them
    warning[CUT0102]: RolloutPolicy shop/none selects Deployment wbe, but no file defines such an object
      --> a.yaml:24:5
    hint: did you mean web?
    warning[CUT0102]: RolloutPolicy shop/none has a control for Deployment wbe, which it does not select
      --> a.yaml:25:14
    warning[CUT0131]: RolloutPolicy shop/none names east twice: only the first place counts
      --> a.yaml:26:17
    hint: take it out of one of them
    error[CUT0133]: RolloutPolicy shop/bad: "tier in (" is no label selector: every Deployment counts as selected
      --> a.yaml:33:60
    hint: write it as kubectl -l takes it: tier=web,team in (a, b)
    warning[CUT0102]: RolloutPolicy shop/bad has a control for Deployment wbe, which it does not select
      --> a.yaml:34:14
    hint: did you mean web?
    warning[CUT0131]: RolloutPolicy shop/bad names east twice: only the first place counts
      --> a.yaml:35:17
    hint: take it out of one of them
    "#);
    let second = policy("second", "name: web");
    let found = check_text(&format!("{web}{all}{second}"));
    assert!(
        found.contains("RolloutPolicy shop/second selects Deployment shop/web, but RolloutPolicy shop/all selects it, too"),
        "{found}"
    );
}

#[test]
fn a_rollout_that_says_something_twice_or_in_vain_is_found() {
    let rollout = |name: &str| {
        format!(
            "---
apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {{name: {name}, namespace: shop}}
spec:
  workload: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  order: [canary]
  waves:
  - clusters: [east, canary]
  - clusters: []
  approval: {{beforeWaves: [4]}}
"
        )
    };
    let web = WEB.split("---").next().unwrap();
    insta::assert_snapshot!(check_text(&format!("{web}{}{}", rollout("one"), rollout("two"))), @"
    warning[CUT0131]: Rollout shop/one names canary twice: only the first place counts
      --> a.yaml:12:22
    hint: take it out of one of them
    error[CUT0007]: spec.waves[1].clusters must be a list of at least 1
      --> a.yaml:13:15
    warning[CUT0132]: Rollout shop/one names 3 waves, and waits before wave 4
      --> a.yaml:14:28
    hint: waves are counted from 1; clusters that aren't named come after, one by one
    error[CUT0109]: Rollout shop/two and Rollout shop/one are about the same workload
      --> a.yaml:20:13
    hint: keep one of them; the other one is at a.yaml:5:1
    warning[CUT0131]: Rollout shop/two names canary twice: only the first place counts
      --> a.yaml:23:22
    hint: take it out of one of them
    error[CUT0007]: spec.waves[1].clusters must be a list of at least 1
      --> a.yaml:24:15
    warning[CUT0132]: Rollout shop/two names 3 waves, and waits before wave 4
      --> a.yaml:25:28
    hint: waves are counted from 1; clusters that aren't named come after, one by one
    ");
}

#[test]
fn an_evacuation_that_says_something_in_vain_is_found() {
    let text = "apiVersion: cutover.dev/v1alpha1
kind: Evacuation
metadata: {name: drain}
spec:
  cluster: east
  cordon: false
  keepCordoned: true
  to: {clusters: [west, east]}
  window: {notAfter: 2026-01-01T00:00:00Z}
";
    insta::assert_snapshot!(check_text(text), @"
    warning[CUT0124]: Evacuation drain keeps a cordon that it doesn't put up
      --> a.yaml:7:17
    hint: leave spec.cordon out, or spec.keepCordoned
    warning[CUT0124]: Evacuation drain empties east: nothing is moved there
      --> a.yaml:8:25
    hint: take it off the list
    note[CUT0110]: the window of Evacuation drain ended at 2026-01-01T00:00:00Z: the intent starts nothing
      --> a.yaml:9:22
    hint: leave it if it is done; else give it a later time
    ");
}

#[test]
fn an_object_with_the_marks_of_another_tool_is_found() {
    let marked = |labels: &str| {
        let text = format!(
            "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {{{labels}}}
"
        );
        check_text(&text).contains("CUT0151")
    };
    assert!(marked(
        "kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system"
    ));
    assert!(!marked("app.kubernetes.io/instance: web"));
}

#[test]
fn every_code_is_in_the_reference() {
    let reference = include_str!("../../../../docs/reference/checks.md");
    for rule in RULES {
        let row = format!(
            "| {} | `{}` | {} | {} |",
            rule.code, rule.name, rule.severity, rule.explanation
        );
        assert!(reference.contains(&row), "docs/reference/checks.md lacks:\n{row}");
    }
}

#[test]
fn a_plan_whose_workload_never_leaves_is_found() {
    let policy = |more: &str| {
        check_text(&format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: FailoverPlan\nmetadata: {{name: orders, namespace: shop}}\nspec:\n  \
             workload: {{apiVersion: apps/v1, kind: Deployment, name: orders}}\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: orders, namespace: shop}}\n---\n\
             apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n\
             metadata: {{name: orders, namespace: shop}}\nspec:\n  propagateDeps: true\n  \
             resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: orders}}]\n  {more}\n"
        ))
    };
    let one = "clusterAffinity: {clusterNames: [blue]}";
    let failover = |seconds: i64| {
        format!("failover: {{application: {{decisionConditions: {{tolerationSeconds: {seconds}}}}}}}")
    };
    let found = policy(&format!("placement: {{{one}}}"));
    assert!(
        found.contains("CUT0206") && found.contains("has no spec.failover"),
        "{found}"
    );
    let found = policy(&format!("{}\n  placement: {{{one}}}", failover(0)));
    assert!(found.contains("a restart would move the workload"), "{found}");
    let tolerant = format!(
        "{}\n  placement: {{{one}, clusterTolerations: [{{operator: Exists}}]}}",
        failover(60)
    );
    assert!(
        policy(&tolerant).contains("tolerates every taint for ever"),
        "{}",
        policy(&tolerant)
    );
    let sound = policy(&format!("{}\n  placement: {{{one}}}", failover(60)));
    assert!(!sound.contains("CUT0206"), "{sound}");
}

#[test]
fn what_would_let_two_copies_with_state_run_is_refused_by_the_profiles_that_are_known() {
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}  strategy: StartFirst\n{ORDERS}")), @r"
    warning[CUT0120]: Migration shop/orders-to-west is refused, unless the control plane has another profile for it: strategy StartFirst lets two copies run, and this kind of workload has state
      --> a.yaml:8:13
    hint: leave spec.strategy out
    ");
    // A profile of the repository is the one that counts.
    let flink = &crate::profile::built_in().unwrap()[0];
    assert!(flink.spec.stateful);
    let of = |stateful: bool| {
        let mut profile = serde_json::to_value(flink).unwrap();
        profile["apiVersion"] = "cutover.dev/v1alpha1".into();
        profile["kind"] = "WorkloadProfile".into();
        profile["metadata"] = serde_json::json!({"name": "flink"});
        profile["spec"]["stateful"] = stateful.into();
        let found = check_text(&format!(
            "{MIGRATION}  strategy: StartFirst\n{ORDERS}---\n{profile}\n"
        ));
        found
            .lines()
            .find(|line| line.contains("CUT0120"))
            .map(str::to_owned)
    };
    let found = of(true).unwrap();
    assert!(
        found.starts_with("error[CUT0120]: Migration shop/orders-to-west is refused: strategy StartFirst"),
        "{found}"
    );
    assert_eq!(of(false), None);
    let shift = |kind: &str| {
        check_text(&format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: ReplicaShift\nmetadata: {{name: web, namespace: shop}}\nspec:\n  \
             workload: {{apiVersion: apps/v1, kind: {kind}, name: web}}\n  from: {{cluster: blue}}\n  to: green\n---\n\
             apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web, namespace: shop}}\n"
        ))
    };
    insta::assert_snapshot!(shift("StatefulSet"), @r"
    warning[CUT0120]: ReplicaShift shop/web is refused, unless the control plane has another profile for it: a StatefulSet has state: a second copy would lose or fork it
      --> a.yaml:5:41
    hint: move it whole, with its state: cutover migrate
    ");
    assert_eq!(shift("Deployment"), "");
}

#[test]
fn a_target_is_one_of_those_that_there_are() {
    let policy = "policy: {name: web}";
    let workload = "workload: {apiVersion: apps/v1, kind: Deployment, name: web}";
    let both = format!("{policy}, {workload}");
    for (target, expected) in [
        ("", Some("a mapping with at least 1 of its fields")),
        (policy, None),
        (workload, None),
        (both.as_str(), Some("a mapping with at most 1 of its fields")),
    ] {
        let found = check_text(&format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: Suspension\nmetadata: {{name: freeze, namespace: shop}}\nspec:\n  \
             target: {{{target}}}\n  reason: a loop\n"
        ));
        let told = found.contains("spec.target must be ");
        assert_eq!(told, expected.is_some(), "{found}");
        assert!(
            expected.is_none_or(|expected| found.contains(expected)),
            "{found}"
        );
    }
}

#[test]
fn a_plan_for_what_has_no_state_is_refused_by_the_profiles_that_are_known() {
    let plan = |kind: &str, more: &str, profile: &str| {
        check_text(&format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: FailoverPlan\nmetadata: {{name: web, namespace: shop}}\nspec:\n  \
             workload: {{apiVersion: apps/v1, kind: {kind}, name: web}}\n{more}---\n\
             apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web, namespace: shop}}\n---\n{profile}"
        ))
    };
    insta::assert_snapshot!(plan("Deployment", "", ""), @r"
    error[CUT0205]: FailoverPlan shop/web is refused: by its profile the workload has no state: Karmada's own failover does not harm it
      --> a.yaml:5:41
    hint: remove the plan, or give the workload a profile that says stateful: true
    ");
    assert_eq!(plan("StatefulSet", "", ""), "");
    // What the repository says of a kind comes before what is built in; what is named, before both.
    let says = |stateful: bool| {
        format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {{name: ours}}\nspec:\n  \
             appliesTo: {{group: apps, kinds: [Deployment]}}\n  stateful: {stateful}\n  bornHeld: true\n  ranWhen: 'true'\n  \
             hold: [{{op: add, path: /spec/replicas, value: 0}}]\n  suspend: [{{op: add, path: /spec/replicas, value: 0}}]\n  \
             start: []\n  restart: []\n  observedWhen: 'true'\n  suspendedWhen: 'true'\n  healthyWhen: 'true'\n"
        )
    };
    assert_eq!(plan("Deployment", "", &says(true)), "");
    let named = plan("StatefulSet", "  profile: ours\n", &says(false));
    assert!(
        named.contains("has no state") && named.contains("a.yaml:6:"),
        "{named}"
    );
    let handle = plan("StatefulSet", "  preserved: [{label: a, handle: nothing}]\n", "");
    assert!(handle.contains("the profile has no handle nothing"), "{handle}");
}

const PROFILE: &str = r#"apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: queue}
spec:
  appliesTo: {group: example.org, kinds: [Queue]}
  requires:
  - {cel: "has(object.spec.replicas)", message: it has no replicas}
  stateful: true
  suspend: [{op: add, path: /spec/replicas, value: 0}]
  hold: [{op: add, path: /spec/replicas, value: 0}]
  start: []
  restart: []
  observedWhen: object.status.observedGeneration == object.metadata.generation
  suspendedWhen: object.status.replicas == 0
  healthyWhen: object.status.ready
  capture:
  - {name: offset, jsonPath: $.status.offset, validWhen: object.status.offset != ''}
"#;

#[test]
fn expressions_of_profiles_are_compiled() {
    assert_eq!(check_text(PROFILE), "");
    let text = PROFILE
        .replace("object.status.replicas == 0", "object.status.replicas = 0")
        .replace("object.status.ready\n", "|-\n    status.ready\n")
        .replace(
            "has(object.spec.replicas)",
            "object.a.all(a, object.a.all(b, object.a.all(c, object.a.all(d, true))))",
        )
        .replace("object.status.offset != ''", "object.status.offset.trim() != ''")
        .replace("$.status.offset,", "$..*..*..*,");
    insta::assert_snapshot!(check_text(&text), @r#"
    error[CUT0111]: spec.requires.0.cel of WorkloadProfile queue cannot be used: the expression nests more than 3 loops (all, exists, exists_one, map, filter)
      --> a.yaml:7:11
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    error[CUT0111]: spec.suspendedWhen of WorkloadProfile queue cannot be used: at 1:24 of the expression: Syntax error: token recognition error at: '= '; at 1:26 of the expression: Syntax error: extraneous input '0' expecting <EOF>
      --> a.yaml:14:18
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    error[CUT0111]: spec.healthyWhen of WorkloadProfile queue cannot be used: unknown variable status: only object is known
      --> a.yaml:16:5
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    error[CUT0111]: spec.capture.0.jsonPath of WorkloadProfile queue cannot be used: $..*..*..* is not a JSONPath: it has ".." 3 times: the limit is 1
      --> a.yaml:18:30
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    error[CUT0111]: spec.capture.0.validWhen of WorkloadProfile queue cannot be used: unknown function trim: known are size, contains, startsWith, endsWith, matches, json, string, bytes, int, uint, double, bool, dyn, type
      --> a.yaml:18:53
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    "#);
}

#[test]
fn two_profiles_for_one_kind_are_reported() {
    let second = PROFILE
        .replace("name: queue", "name: broker")
        .replace("[Queue]", "[Broker, Queue]");
    insta::assert_snapshot!(check_text(&format!("{PROFILE}---\n{second}")), @r"
    error[CUT0161]: WorkloadProfile queue is for Queue.example.org, and so is WorkloadProfile broker (a.yaml:23:51): an intent that names no profile does not start
      --> a.yaml:5:43
    hint: take the kind out of one of them, or name a profile in spec.profile of every intent
    ");
}

#[test]
fn a_patch_that_cannot_be_written_is_found_with_its_place() {
    let text = PROFILE.replace(
        "  start: []",
        "  start: [{op: add, path: /spec/from, value: '${captured.offset}'}]",
    );
    insta::assert_snapshot!(check_text(&text), @r"
    error[CUT0162]: spec.start.0.value of WorkloadProfile queue cannot be used: ${captured.offset} may have no value: no rule of capture is named offset and required
      --> a.yaml:11:46
    hint: docs/reference/profiles.md says what a patch may use
    ");
    let text = PROFILE.replace(
        "  hold: [{op: add, path: /spec/replicas, value: 0}]",
        "  hold: []",
    );
    insta::assert_snapshot!(check_text(&text), @r"
    error[CUT0162]: spec.hold of WorkloadProfile queue cannot be used: without a patch, a second copy runs as soon as it is created
      --> a.yaml:10:9
    hint: docs/reference/profiles.md says what a patch may use
    ");
}

#[test]
fn a_profile_of_too_many_expressions_is_refused() {
    let more = "  - {cel: \"true\", message: m}\n".repeat(80);
    let text = PROFILE.replace("  stateful", &format!("{more}  stateful"));
    insta::assert_snapshot!(check_text(&text), @r#"
    error[CUT0111]: spec of WorkloadProfile queue cannot be used: the profile has 86 expressions and paths: the limit is 64
      --> a.yaml:5:3
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    "#);
}

#[test]
fn expressions_of_checks_are_compiled() {
    let checks = "  verify: {checks: [{cel: value < 1, prometheus: up}, {cel: value < 1}]}\n";
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}{checks}{ORDERS}")), @r#"
    error[CUT0111]: spec.verify.checks.1.cel of Migration shop/orders-to-west cannot be used: unknown variable value: only object is known
      --> a.yaml:8:61
    hint: docs/reference/profiles.md says what an expression may use, and its limits
    "#);
}

#[test]
fn queries_of_checks_are_read_as_far_as_any_prometheus_would() {
    let checks = "  verify: {checks: [{cel: value < 1, prometheus: 'rate(errors_total[1m)'}]}\n";
    insta::assert_snapshot!(check_text(&format!("{MIGRATION}{checks}{ORDERS}")), @r"
    error[CUT0111]: spec.verify.checks.0.prometheus of Migration shop/orders-to-west cannot be used: at 1:21 of the query: ) stands where the [ of 1:18 is not closed
      --> a.yaml:8:50
    hint: try the query in Prometheus itself
    ");
}

#[test]
fn of_many_findings_the_first_are_told_and_the_others_counted() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n".repeat(200);
    let mut set = Set::new();
    set.update(
        "a.yaml",
        parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
    );
    let context = Context {
        budget: Limits::default().with(cutover_base::budget::Limit::RevisionFindings, 50),
        ..Context::default()
    };
    let findings = check(&set, &context);
    assert_eq!(findings.len(), 51);
    insta::assert_snapshot!(findings[50], @"
    error[CUT0004]: and 149 more findings
    hint: fix those that are shown, or raise the limit where cutover runs: --budget revision-findings=100
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "what is said is the test")]
fn several_moves_of_one_workload_are_told_of_and_so_is_an_evacuation_that_covers_one() {
    let back = MIGRATION
        .replace("orders-to-west", "orders-to-east")
        .replace("to: west", "to: east\n  from: west");
    let north = MIGRATION
        .replace("orders-to-west", "orders-to-north")
        .replace("to: west", "to: north");
    let other = MIGRATION
        .replace("orders-to-west", "web-to-west")
        .replace("name: orders}", "name: web}");
    let evacuation = "\
---
apiVersion: cutover.dev/v1alpha1
kind: Evacuation
metadata: {name: west}
spec: {cluster: west}
";
    let turns = |text: &str| {
        let all = check_text(text);
        all.lines().filter(|line| line.contains("CUT0112")).count()
    };
    let shift = "\
---
apiVersion: cutover.dev/v1alpha1
kind: ReplicaShift
metadata: {name: shift, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  from: {cluster: east}
  to: west
  amount: 1
  floor: 1
";
    assert_eq!(turns(&format!("{MIGRATION}{shift}{ORDERS}")), 1);
    let rollout = "\
---
apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {name: versions, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  waves: [{name: all, clusters: [east, west, north]}]
";
    let beside = |moves: &str| {
        let told = check_text(&format!("{moves}{rollout}{ORDERS}"));
        told.lines().filter(|line| line.contains("note[CUT0116]")).count()
    };
    assert_eq!(beside(MIGRATION), 1);
    assert_eq!(beside(&other), 0);
    assert_eq!(beside(&format!("{MIGRATION}  abort: true\n")), 0);
    assert!(check_text(&format!("{MIGRATION}{ORDERS}{evacuation}")).contains("error[CUT0113]: "));
    // One begins where the other one ends.
    assert_eq!(turns(&format!("{MIGRATION}---\n{back}{ORDERS}")), 0);
    assert_eq!(turns(&format!("{MIGRATION}---\n{other}{ORDERS}")), 0);
    assert_eq!(
        turns(&format!("{MIGRATION}  abort: true\n---\n{north}{ORDERS}")),
        0
    );
    assert_eq!(turns(&format!("{back}{ORDERS}{evacuation}")), 1);
    assert_eq!(turns(&format!("{MIGRATION}{ORDERS}{evacuation}")), 0);
    let elsewhere = evacuation.replace(
        "{cluster: west}",
        "{cluster: west, select: {kinds: [Deployment]}}",
    );
    assert_eq!(turns(&format!("{back}{ORDERS}{elsewhere}")), 0);
}

#[test]
fn of_two_moves_to_different_clusters_only_one_can_have_its_way_unless_one_has_ended() {
    let north = MIGRATION
        .replace("orders-to-west", "orders-to-north")
        .replace("to: west", "to: north");
    let both = format!("{MIGRATION}---\n{north}{ORDERS}");
    assert!(
        check_text(&both).contains("error[CUT0113]: "),
        "{}",
        check_text(&both)
    );
    let known = Context {
        may_have_ended: MayHaveEnded::of(&set_of(MIGRATION)),
        ..Context::built_in().unwrap()
    };
    let told = check(&set_of(&both), &known);
    let told: Vec<Code> = told.iter().map(|finding| finding.code).collect();
    assert_eq!(told, [Code::TakesTurns]);
    let first = set_of(MIGRATION);
    let first = first.of_kind(crate::api::GROUP, "Migration");
    let known = Context {
        ended: first.map(|one| one.key.clone()).collect(),
        ..Context::built_in().unwrap()
    };
    assert_eq!(check(&set_of(&both), &known), []);
}

#[test]
fn annotations_that_mean_nothing_are_found() {
    let annotated = |annotation: &str| {
        check_text(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: shop\n  annotations: {{{annotation}}}\n"
        ))
    };
    for good in [
        "cutover.dev/migrations: auto",
        "cutover.dev/wave: '-2'",
        "cutover.dev/drift: warn",
        "cutover.dev/accept-state-loss: 0123456789ab",
        "cutover.dev/evacuation-answer: '{}'",
        "example.com/migrations: alwys",
    ] {
        assert_eq!(annotated(good), "", "{good}");
    }
    insta::assert_snapshot!(annotated("cutover.dev/migrations: atuo"), @r#"
    warning[CUT0153]: cutover.dev/migrations is "atuo", which has no effect: it takes auto or manual
      --> a.yaml:6:41
    hint: did you mean auto?
    "#);
    insta::assert_snapshot!(annotated("cutover.dev/migration: auto"), @r#"
    warning[CUT0153]: cutover.dev/migration means nothing
      --> a.yaml:6:17
    hint: did you mean cutover.dev/migrations?
    "#);
    insta::assert_snapshot!(annotated("cutover.dev/wave: first"), @r#"
    warning[CUT0153]: cutover.dev/wave is "first", which has no effect: it takes a whole number
      --> a.yaml:6:35
    "#);
    insta::assert_snapshot!(annotated("cutover.dev/keep: 'yes'"), @r#"
    warning[CUT0153]: cutover.dev/keep is "yes", which has no effect: it takes true or false
      --> a.yaml:6:35
    "#);
}
