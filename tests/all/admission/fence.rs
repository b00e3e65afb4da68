//! The fence of a migration, `deploy/admission/fence.yaml`: what it refuses and what it lets pass, on both servers.

use serde_json::{Value, json};

use super::both::{Both, Step};

const CUTOVER: &str = "system:serviceaccount:cutover-system:cutover";
const SCHEDULER: &str = "system:karmada-scheduler";
const CLAIMS: &str = "/apis/cutover.dev/v1alpha1/claims";

/// Returns the policies and bindings of the fence under names of their own, about objects with the label `test`.
fn fence(test: &str) -> (Vec<Value>, Vec<Value>) {
    let text = include_str!("../../../deploy/admission/fence.yaml");
    let (mut policies, mut bindings) = (Vec::new(), Vec::new());
    for document in text.split("\n---\n") {
        let mut object: Value = serde_yaml::from_str(document).unwrap();
        let name = format!("{}-{test}", object["metadata"]["name"].as_str().unwrap());
        object["metadata"]["name"] = json!(name);
        if object["kind"] == "ValidatingAdmissionPolicy" {
            object["spec"]["matchConstraints"]["objectSelector"] = json!({"matchLabels": {"test": test}});
            policies.push(object);
        } else {
            object["spec"]["policyName"] = json!(name);
            bindings.push(object);
        }
    }
    (policies, bindings)
}

struct Fenced {
    both: Both,
    policies: Vec<Value>,
    bindings: Vec<Value>,
}

impl Fenced {
    /// Puts up the fence around what is there already: the claim `orders` of the binding `orders`.
    async fn start(test: &str) -> Option<Self> {
        let both = Both::start(test).await?;
        let (policies, bindings) = fence(&both.namespace);
        let fenced = Self {
            both,
            policies,
            bindings,
        };
        fenced.write(Step::post(CLAIMS, fenced.claim())).await;
        fenced
            .write(Step::post(
                fenced.path("work.karmada.io/v1alpha2", "resourcebindings"),
                fenced.binding(),
            ))
            .await;
        fenced.both.install(&fenced.policies, &fenced.bindings).await;
        Some(fenced)
    }

    async fn end(self) {
        self.both.remove(&self.policies, &self.bindings).await;
    }

    fn path(&self, group: &str, plural: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{plural}", self.both.namespace)
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": {"test": self.both.namespace,
            "resourcebinding.karmada.io/permanent-id": self.both.namespace}})
    }

    fn claim(&self) -> Value {
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim",
            "metadata": self.metadata(&format!("orders-{}", self.both.namespace)),
            "spec": {"workload": format!("FlinkDeployment.flink.apache.org {}/orders", self.both.namespace), "bindingId": self.both.namespace, "attempt": 1, "seq": 1, "marker": "u.1.1",
                "writer": "east", "clusters": ["east"],
                "owner": {"kind": "Migration", "namespace": "streaming", "name": "orders", "uid": "u"}},
        })
    }

    fn binding(&self) -> Value {
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": self.metadata("orders"),
            "spec": {"resource": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "namespace": self.both.namespace, "name": "orders"}, "clusters": [{"name": "east", "replicas": 1}]},
        })
    }

    fn work(&self, name: &str, annotations: &Value) -> Value {
        json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": self.metadata(name),
            "spec": {"workload": {"manifests": [{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "metadata": {"name": "orders", "annotations": annotations}, "spec": {"job": {"state": "suspended"}}}]}},
        })
    }

    async fn write(&self, step: Step) {
        let answer = self.both.same(&step).await;
        assert!(answer.code < 300, "{step:?}: {answer:?}");
    }

    async fn refused(&self, step: Step, why: &str) {
        let answer = self.both.same(&step).await;
        assert_eq!(
            (answer.code, answer.reason.as_str()),
            (403, "Forbidden"),
            "{step:?}: {answer:?}"
        );
        assert!(answer.message.ends_with(why), "{}", answer.message);
    }
}

#[tokio::test]
async fn nobody_moves_a_claimed_binding_elsewhere() {
    let Some(fenced) = Fenced::start("the fence around bindings").await else {
        return;
    };
    let path = format!(
        "{}/orders",
        fenced.path("work.karmada.io/v1alpha2", "resourcebindings")
    );
    let clusters = |names: &[&str]| {
        let names: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "replicas": 1}))
            .collect();
        json!({"spec": {"clusters": names}})
    };
    let only_east = "claimed by Migration streaming/orders, which lets it run in east";
    for foreign in [&["west"][..], &["east", "west"], &[]] {
        fenced
            .refused(Step::merge(&path, clusters(foreign)).by(SCHEDULER), only_east)
            .await;
    }
    fenced
        .refused(Step::merge(&path, clusters(&["west"])).by(CUTOVER), only_east)
        .await;
    let unlabelled = json!({"metadata": {"labels": {"resourcebinding.karmada.io/permanent-id": null}},
        "spec": {"clusters": [{"name": "west"}]}});
    fenced.refused(Step::merge(&path, unlabelled), only_east).await;
    let task = json!({"spec": {"gracefulEvictionTasks": [
        {"fromCluster": "east", "reason": "TaintUntolerated", "producer": "TaintManager"}]}});
    fenced
        .refused(
            Step::merge(&path, task).by(SCHEDULER),
            "claimed by Migration streaming/orders, which does not allow its eviction",
        )
        .await;
    for harmless in [
        json!({"spec": {"suspension": {"scheduling": true}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"failover": null}}),
        clusters(&["east"]),
    ] {
        fenced.write(Step::merge(&path, harmless).by(SCHEDULER)).await;
    }
    // The claim lists another cluster first, and is then followed.
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    let expanded = Step::merge(format!("{path}?dryRun=All"), clusters(&["east", "west"]));
    fenced
        .write(Step::merge(&claim, json!({"spec": {"clusters": ["east", "west"]}})).by(CUTOVER))
        .await;
    fenced.both.until(&expanded, 200).await;
    fenced
        .write(Step::merge(&path, clusters(&["west", "east"])).by(CUTOVER))
        .await;
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    let free = Step::merge(format!("{path}?dryRun=All"), clusters(&["north"])).by(SCHEDULER);
    fenced.both.until(&free, 200).await;
    fenced.end().await;
}

#[tokio::test]
async fn no_work_of_a_claimed_workload_is_written_without_its_marker() {
    let Some(fenced) = Fenced::start("the fence around works").await else {
        return;
    };
    let path = fenced.path("work.karmada.io/v1alpha1", "works");
    let without =
        "claimed by Migration streaming/orders: a manifest does not carry the marker u.1.1 of its pin";
    for annotations in [
        json!({}),
        json!({"cutover.dev/pin": "u.1.0"}),
        json!({"other": "x"}),
    ] {
        fenced
            .refused(Step::post(&path, fenced.work("orders", &annotations)), without)
            .await;
    }
    let marked = json!({"cutover.dev/pin": "u.1.1"});
    fenced
        .write(Step::post(&path, fenced.work("orders", &marked)))
        .await;
    let mut other = fenced.work("other", &json!({}));
    other["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"] = json!("another");
    fenced.write(Step::post(&path, other)).await;
    let one = format!("{path}/orders");
    let older = fenced.work("orders", &json!({"cutover.dev/pin": "u.1.0"}));
    fenced
        .refused(Step::merge(&one, json!({"spec": older["spec"]})), without)
        .await;
    fenced
        .write(Step::merge(&one, json!({"spec": {"suspendDispatching": true}})))
        .await;
    // What was written before the claim went on may stay, and may not change but to the new marker.
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    fenced
        .write(Step::merge(&claim, json!({"spec": {"seq": 2, "marker": "u.1.2"}})).by(CUTOVER))
        .await;
    let stale = Step::post(format!("{path}?dryRun=All"), fenced.work("stale", &marked));
    fenced.both.until(&stale, 403).await;
    fenced
        .write(Step::merge(&one, json!({"metadata": {"labels": {"a": "b"}}})))
        .await;
    let newer = fenced.work("orders", &json!({"cutover.dev/pin": "u.1.2"}));
    fenced
        .write(Step::merge(&one, json!({"spec": newer["spec"]})))
        .await;
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    fenced.end().await;
}

/// While a claim names no marker, its pin is being taken off: Works follow.
#[tokio::test]
async fn a_claim_without_a_marker_lets_works_go_unmarked() {
    let Some(fenced) = Fenced::start("the fence around works that lose their pin").await else {
        return;
    };
    let path = fenced.path("work.karmada.io/v1alpha1", "works");
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    fenced
        .write(Step::merge(&claim, json!({"spec": {"marker": ""}})).by(CUTOVER))
        .await;
    let bare = Step::post(format!("{path}?dryRun=All"), fenced.work("orders", &json!({})));
    fenced.both.until(&bare, 201).await;
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    fenced.end().await;
}

#[tokio::test]
async fn no_override_that_is_applied_after_a_pin_is_written_on_a_claimed_workload() {
    let Some(fenced) = Fenced::start("the fence around overrides").await else {
        return;
    };
    let overrides = fenced.path("policy.karmada.io/v1alpha1", "overridepolicies");
    let clusters = "/apis/policy.karmada.io/v1alpha1/clusteroverridepolicies";
    let policy = |name: &str, kind: &str, selector: Value| {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": fenced.metadata(name),
            "spec": {"resourceSelectors": [selector], "overrideRules": []}})
    };
    let orders =
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"});
    let after = "claimed by Migration streaming/orders: it would be applied after the pin and could undo the hold; \
                 give it a name that sorts before, or wait for the end";
    for user in [CUTOVER, "system:admin"] {
        let late = Step::post(&overrides, policy("zzzzz", "OverridePolicy", orders.clone())).by(user);
        fenced.refused(late, after).await;
    }
    // What comes before the pin, names another workload or none, or is of another kind, is anybody's.
    let other =
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "invoices"});
    let group = json!({"apiVersion": "v1", "kind": "FlinkDeployment", "name": "orders"});
    let any = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"});
    for (name, selector) in [
        ("early", &orders),
        ("zzzzz-a", &other),
        ("zzzzz-b", &group),
        ("zzzzz-c", &any),
    ] {
        let harmless = Step::post(&overrides, policy(name, "OverridePolicy", selector.clone()));
        fenced.write(harmless).await;
    }
    let wide = policy(
        &format!("zzzzz-{}", fenced.both.namespace),
        "ClusterOverridePolicy",
        orders.clone(),
    );
    fenced.write(Step::post(clusters, wide)).await;
    // One that was there before may stay as it is, and may not be turned on the workload.
    let path = format!("{overrides}/zzzzz-a");
    fenced
        .write(Step::merge(&path, json!({"metadata": {"labels": {"a": "b"}}})))
        .await;
    fenced
        .refused(
            Step::merge(&path, json!({"spec": {"resourceSelectors": [orders]}})),
            after,
        )
        .await;
    let unnamed = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"generateName": "any-", "labels": {"test": fenced.both.namespace}}, "spec": {"overrideRules": []}});
    fenced.write(Step::post(&overrides, unnamed)).await;
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    fenced.end().await;
}

#[tokio::test]
async fn claims_and_pins_are_written_by_cutover_alone() {
    let Some(fenced) = Fenced::start("the fence around claims").await else {
        return;
    };
    let alone = "it belongs to Migration streaming/orders and is written by system:serviceaccount:cutover-system:cutover alone";
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    fenced
        .refused(
            Step::merge(&claim, json!({"spec": {"clusters": ["west"]}})),
            alone,
        )
        .await;
    fenced.refused(Step::delete(&claim), alone).await;
    let pins = fenced.path("policy.karmada.io/v1alpha1", "overridepolicies");
    let pin = |name: &str| {
        let mut metadata = fenced.metadata(name);
        metadata["annotations"] = json!({"cutover.dev/owner": "Migration streaming/orders"});
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": metadata,
            "spec": {"overrideRules": []}})
    };
    fenced
        .refused(Step::post(&pins, pin("zzzz-cutover-orders")), alone)
        .await;
    fenced
        .write(Step::post(&pins, pin("zzzz-cutover-orders")).by(CUTOVER))
        .await;
    fenced
        .refused(
            Step::post(&pins, pin("zzzz-cutover-self-test")).by(CUTOVER),
            alone,
        )
        .await;
    fenced.write(Step::post(&pins, pin("anybody"))).await;
    let path = format!("{pins}/zzzz-cutover-orders");
    fenced
        .refused(
            Step::merge(
                &path,
                json!({"metadata": {"annotations": null}, "spec": {"overrideRules": []}}),
            ),
            alone,
        )
        .await;
    fenced.refused(Step::delete(&path), alone).await;
    fenced.write(Step::delete(&path).by(CUTOVER)).await;
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    fenced.end().await;
}

/// Its token may create Works, which RBAC can't limit to dry-runs.
#[tokio::test]
async fn cutover_tries_works_and_writes_none() {
    let Some(fenced) = Fenced::start("the fence around what cutover may write").await else {
        return;
    };
    let none = "system:serviceaccount:cutover-system:cutover may try by a dry-run whether a Work is refused, and may write none";
    let path = fenced.path("work.karmada.io/v1alpha1", "works");
    let mut work = fenced.work("any", &json!({}));
    work["metadata"]["labels"]["resourcebinding.karmada.io/permanent-id"] = json!("another");
    fenced
        .refused(Step::post(&path, work.clone()).by(CUTOVER), none)
        .await;
    fenced
        .write(Step::post(format!("{path}?dryRun=All"), work.clone()).by(CUTOVER))
        .await;
    // Karmada writes them, whoever it is.
    for writer in ["system:admin", "system:serviceaccount:karmada-system:karmada"] {
        fenced.write(Step::post(&path, work.clone()).by(writer)).await;
        let one = format!("{path}/any");
        let changed = json!({"spec": {"suspendDispatching": true}});
        fenced.refused(Step::merge(&one, changed).by(CUTOVER), none).await;
        fenced.refused(Step::delete(&one).by(CUTOVER), none).await;
        fenced.write(Step::delete(&one).by(writer)).await;
    }
    let claim = format!("{CLAIMS}/orders-{}", fenced.both.namespace);
    fenced.write(Step::delete(&claim).by(CUTOVER)).await;
    fenced.end().await;
}
