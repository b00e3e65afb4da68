//! What files tell of a change that would take a workload with state out of its cluster.

use super::*;
use crate::manifest::{Limits, Source, parse};

const ORDERS: &str = "\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: orders, namespace: shop}
";

const MIGRATION: &str = "\
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  to: west
";

fn policy(name: &str, placement: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  resourceSelectors: [{{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}]
  placement: {{{placement}}}
"
    )
}

fn one_of(clusters: &str) -> String {
    policy(
        "orders",
        &format!(
            "clusterAffinity: {{clusterNames: [{clusters}]}}, spreadConstraints: [{{spreadByField: cluster, maxGroups: 1}}]"
        ),
    )
}

fn set(files: &[&str]) -> Set {
    let mut set = Set::new();
    for (number, text) in files.iter().enumerate() {
        let path = format!("{number}.yaml");
        set.update(
            &path,
            parse(Source::new(&path), text.as_bytes(), &Limits::default()),
        );
    }
    set
}

fn told(before: &[&str], after: &[&str], prune: bool) -> Vec<String> {
    told_with(&format!("prune: {prune}"), before, after)
}

/// `settings`: of the sync.
fn told_with(settings: &str, before: &[&str], after: &[&str]) -> Vec<String> {
    let text =
        format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{{name: main, {settings}}}]\n");
    let config = Config::parse(text.as_bytes()).unwrap();
    let (before, after) = (set(before), set(after));
    let revision = |set| Revision { config: &config, set };
    let findings = compare(revision(&before), revision(&after));
    findings
        .iter()
        .map(|finding| format!("{}: {}", finding.severity, finding.message))
        .collect()
}

fn changed(before: &str, after: &str) -> Vec<String> {
    told(&[before, ORDERS], &[after, ORDERS], false)
}

#[test]
fn one_edited_line_of_a_policy_is_an_error_where_the_job_certainly_stops() {
    let says = "error: PropagationPolicy shop/orders: FlinkDeployment shop/orders would stop in east and start in west from nothing";
    assert_eq!(changed(&one_of("east"), &one_of("west")), [says]);
    let all = |clusters: &str| {
        policy(
            "orders",
            &format!("clusterAffinity: {{clusterNames: [{clusters}]}}"),
        )
    };
    let beside = "error: PropagationPolicy shop/orders: FlinkDeployment shop/orders would start in west from nothing, beside east \
                  where it runs";
    assert_eq!(changed(&all("east"), &all("east, west")), [beside]);
    for (before, after) in [
        (one_of("east"), one_of("east")),
        (one_of("east"), one_of("east, west")),
        (one_of("east, west"), one_of("east, west, north")),
    ] {
        assert_eq!(changed(&before, &after), [""; 0], "{after}");
    }
}

#[test]
fn where_files_do_not_say_in_which_cluster_it_runs_that_is_what_is_told() {
    let says = |what: &str| {
        format!(
            "warning: PropagationPolicy shop/orders: files do not tell where FlinkDeployment shop/orders runs; if not elsewhere, \
             FlinkDeployment shop/orders would {what}"
        )
    };
    let gone = changed(&one_of("east, west, north"), &one_of("west, north"));
    assert_eq!(
        gone,
        [says("stop in east and start in north or west from nothing")]
    );
    let labelled = policy(
        "orders",
        "clusterAffinity: {labelSelector: {matchLabels: {site: a}}}, spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]",
    );
    assert_eq!(
        changed(&labelled, &labelled.replace("site: a", "site: b")).len(),
        1
    );
    assert!(changed(&one_of("east"), &labelled)[0].starts_with("warning: "));
    assert_eq!(changed(&labelled, &labelled), [""; 0]);
}

#[test]
fn another_scheduler_may_place_it_elsewhere() {
    let by = |scheduler: &str| {
        one_of("east").replace(
            "  placement:",
            &format!("  schedulerName: {scheduler}\n  placement:"),
        )
    };
    let says = "warning: PropagationPolicy shop/orders: files do not tell where FlinkDeployment shop/orders runs; if not elsewhere, \
                it is not known whether FlinkDeployment shop/orders would stay in east: another scheduler would place it";
    assert_eq!(changed(&one_of("east"), &by("volcano")), [says]);
    assert_eq!(changed(&by("volcano"), &one_of("east")), [says]);
    assert_eq!(changed(&one_of("east"), &by("default-scheduler")), [""; 0]);
    let more = one_of("east, west").replace("  placement:", "  schedulerName: volcano\n  placement:");
    assert_eq!(changed(&by("volcano"), &more), [""; 0]);
}

#[test]
fn a_migration_carries_it_along() {
    let (before, after) = (one_of("east"), one_of("west"));
    let files = [before.as_str(), ORDERS];
    assert_eq!(told(&files, &[&after, ORDERS, MIGRATION], false), [""; 0]);
    let elsewhere = MIGRATION.replace("to: west", "to: north");
    let told_of = told(&files, &[&after, ORDERS, &elsewhere], false);
    assert!(told_of[0].contains("would stop in north"), "{told_of:?}");
    let off = format!("{MIGRATION}  abort: true\n");
    assert_eq!(told(&files, &[&after, ORDERS, &off], false).len(), 1);
}

#[test]
fn what_sets_a_migration_off_is_no_loss() {
    let auto = "prune: true, gate: {migrations: {mode: Auto}}";
    let (east, west, either) = (one_of("east"), one_of("west"), one_of("west, north"));
    let rest = policy("rest", "clusterAffinity: {clusterNames: [west]}");
    let all = policy("orders", "clusterAffinity: {clusterNames: [west, north]}");
    for (after, is_loss) in [
        (vec![west.as_str(), ORDERS], false),
        // One of them is chosen; all of them is no move.
        (vec![either.as_str(), ORDERS], false),
        (vec![all.as_str(), ORDERS], true),
        // Another one takes it up, once its own is deleted.
        (vec![rest.as_str(), ORDERS], false),
    ] {
        let told = told_with(auto, &[&east, ORDERS], &after);
        assert_eq!(!told.is_empty(), is_loss, "{after:?}: {told:?}");
        assert_eq!(
            told_with("prune: true", &[&east, ORDERS], &after).len(),
            1,
            "{after:?}"
        );
    }
    // Karmada need not let one take it from the other.
    let takes = rest.replace("spec:", "spec:\n  preemption: Always\n  priority: 9");
    for (settings, is_loss) in [
        ("gate: {migrations: {mode: Auto}}", true),
        ("gate: {migrations: {mode: Auto, preemption: true}}", false),
    ] {
        let told = told_with(settings, &[&east, ORDERS], &[&east, &takes, ORDERS]);
        assert_eq!(!told.is_empty(), is_loss, "{settings}: {told:?}");
        // Nor where that is what a lower priority of its own comes to.
        let high = east.replace("spec:", "spec:\n  priority: 20");
        let told = told_with(settings, &[&high, &takes, ORDERS], &[&east, &takes, ORDERS]);
        assert_eq!(!told.is_empty(), is_loss, "{settings}: {told:?}");
    }
    // Where its own goes in the same change, there is nothing to take.
    assert_eq!(told_with(auto, &[&east, ORDERS], &[&takes, ORDERS]), [""; 0]);
}

#[test]
fn what_is_pruned_ends() {
    let policy = one_of("east");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let ends = "FlinkDeployment shop/orders would end in east, with its state";
    for (before, after, what) in [
        (
            vec![policy.as_str(), ORDERS],
            vec![policy.as_str()],
            "FlinkDeployment shop/orders",
        ),
        (
            vec![policy.as_str(), ORDERS, namespace],
            vec![policy.as_str(), ORDERS],
            "Namespace shop",
        ),
    ] {
        let says = format!("error: {what} is deleted: {ends}");
        assert_eq!(told(&before, &after, true), [says]);
        assert_eq!(told(&before, &after, false), [""; 0]);
    }
}

#[test]
fn another_policy_that_takes_it_over_counts_as_a_change() {
    let first = one_of("east");
    let other = policy("other", "clusterAffinity: {clusterNames: [west]}");
    // The old one goes last: until then the workload is its own.
    let told_of = told(&[&first, ORDERS], &[&other, ORDERS], true);
    assert_eq!(
        told_of,
        [
            "error: PropagationPolicy shop/orders is deleted: FlinkDeployment shop/orders would stop in east and start in west from \
          nothing"
        ]
    );
    // Without another one the binding stays as it is.
    assert_eq!(told(&[&first, ORDERS], &[ORDERS], true), [""; 0]);
    let takes = other.replace(
        "  resourceSelectors",
        "  preemption: Always\n  priority: 9\n  resourceSelectors",
    );
    assert_eq!(told(&[&first, ORDERS], &[&first, &takes, ORDERS], false).len(), 1);
}

#[test]
fn a_word_in_the_same_change_accepts_it_and_what_has_no_state_is_nobodys_business() {
    let accepted = one_of("west").replace(
        "{name: orders, namespace: shop}",
        "{name: orders, namespace: shop, annotations: {cutover.dev/accept-state-loss: 0123456789ab}}",
    );
    assert_eq!(changed(&one_of("east"), &accepted), [""; 0]);
    // One that stands there since the last change accepts nothing new.
    let again = accepted.replace("[west]", "[north]");
    assert_eq!(changed(&accepted, &again).len(), 1);
    let web = ORDERS
        .replace("flink.apache.org/v1beta1", "apps/v1")
        .replace("FlinkDeployment", "Deployment");
    let of_web = |clusters: &str| {
        one_of(clusters)
            .replace("flink.apache.org/v1beta1", "apps/v1")
            .replace("FlinkDeployment", "Deployment")
    };
    assert_eq!(
        told(&[&of_web("east"), &web], &[&of_web("west"), &web], false),
        [""; 0]
    );
}

#[test]
fn what_no_profile_speaks_of_is_a_warning_whatever_becomes_of_it() {
    let custom = |text: &str| {
        text.replace("flink.apache.org/v1beta1", "example.org/v1")
            .replace("FlinkDeployment", "Database")
    };
    let object = custom(ORDERS);
    let (east, west) = (custom(&one_of("east")), custom(&one_of("west")));
    for (after, prune) in [(vec![west.as_str(), &object], false), (vec![east.as_str()], true)] {
        let told_of = told(&[&east, &object], &after, prune);
        assert_eq!(told_of.len(), 1, "{told_of:?}");
        assert!(told_of[0].starts_with("warning: "), "{told_of:?}");
        assert!(
            told_of[0].contains("whether that loses state is not known"),
            "{told_of:?}"
        );
    }
}

/// Also where policies set Migrations off: none could carry it.
#[test]
fn what_cannot_be_moved_is_an_error_with_the_reason() {
    let mariadb = |text: &str| {
        text.replace("flink.apache.org/v1beta1", "k8s.mariadb.com/v1alpha1")
            .replace("FlinkDeployment", "MariaDB")
    };
    let object = mariadb(ORDERS);
    let (east, west) = (mariadb(&one_of("east")), mariadb(&one_of("west")));
    let says = "error: PropagationPolicy shop/orders: MariaDB shop/orders would stop in east and start in west from nothing; MariaDB \
                cannot be moved with its state: a site is primary";
    for gate in ["{}", "{migrations: {mode: Auto}}"] {
        let told_of = told_with(&format!("gate: {gate}"), &[&east, &object], &[&west, &object]);
        assert!(told_of.len() == 1 && told_of[0].starts_with(says), "{told_of:?}");
    }
}

#[test]
fn where_a_plan_may_have_taken_it_elsewhere_nothing_is_certain() {
    let plan = MIGRATION
        .replace("kind: Migration", "kind: FailoverPlan")
        .replace("  to: west\n", "");
    let files = [one_of("west"), ORDERS.to_owned(), MIGRATION.to_owned(), plan];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let narrowed = one_of("east");
    let after = [&narrowed, files[1], files[2], files[3]];
    let told_of = told(&files, &after, false);
    assert!(
        told_of.len() == 1 && told_of[0].starts_with("warning: "),
        "{told_of:?}"
    );
}

/// As where the old policy leaves Git: what needs no feature gate is a Migration, and no loss.
#[test]
fn one_that_preempts_needs_no_feature_gate_where_the_own_policy_lets_go() {
    let everything = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: everything}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}]
  placement: {clusterAffinity: {clusterNames: [north]}, spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]}
";
    let lets_go = one_of("east").replace("name: orders}]", "name: another}]");
    let next = one_of("west")
        .replace("{name: orders, namespace", "{name: next, namespace")
        .replace("spec:", "spec:\n  preemption: Always\n  priority: 10");
    let own = one_of("east");
    let before = [&*own, ORDERS, everything];
    let told = |own: &str| {
        told_with(
            "gate: {migrations: {mode: Auto}}",
            &before,
            &[own, ORDERS, everything, &next],
        )
    };
    assert_eq!(told(&lets_go), [""; 0]);
    assert_eq!(told(&own).len(), 1);
}
