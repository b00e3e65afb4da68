//! The roles that come along, tried on a real API server with RBAC on, both ways: they allow all that was asked for, and without any
//! one thing that they allow, something that was asked for is refused.
//!
//! What was asked for is the record of two kinds of runs. Tests of every kind of intent run on the sandbox, each in a process
//! that keeps a record. And the program itself runs as its account on the real API server, whose audit log is the record.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::git::Origin;
use crate::support::real::{self, RealServer};
use crate::support::roles::{self, Asked, Grant};
use crate::support::wait::comes_true;

const ACCOUNT: &str = "system:serviceaccount:cutover-system:cutover";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PATIENCE: Duration = Duration::from_mins(2);

/// Together they ask for all that intents of every kind ask for.
const RUNS: &[&str] = &[
    "beside::a_rollout_begins_only_when_nobody_else_brings_a_version_everywhere_at_once",
    "beside::a_helm_release_is_held_by_its_suspension_alone",
    "beside::what_holds_flux_back_is_seen_on_the_template_and_on_its_kustomization",
    "beside::what_holds_it_back_where_nobody_here_can_see_is_not_taken_for_held",
    "cluster_driven::a_taint_that_goes_before_the_approval_takes_it_along",
    "cluster_scope::it_is_suspended_with_its_policy_and_alone_by_a_pin",
    "cluster_scope::it_moves_with_its_state",
    "cluster_scope::of_several_groups_of_affinities_the_scheduler_stays_with_that_of_the_target",
    "cluster_scope::the_admission_fence_is_tried_and_stands_around_it",
    "evacuation::an_abort_rolls_back_what_is_on_its_way_and_lifts_the_cordon",
    "evacuation::one_that_is_deleted_goes_when_nothing_of_it_is_left",
    "evacuation::three_workloads_leave_two_at_a_time_for_the_least_loaded_clusters",
    "evicted::what_is_duplicated_leaves_and_is_not_given_back_under_the_cordon",
    "failover::hands::a_pin_that_is_torn_off_in_the_midst_of_a_release_is_put_back_and_holds",
    "failover::modes::a_healthy_copy_that_is_evicted_gracefully_stops_with_its_state",
    "events::an_approval_is_asked_for_once_however_long_it_takes_and_whoever_leads",
    "fence::a_migration_that_is_deleted_leaves_nothing_behind_the_fence",
    "fence::migrations_end_as_ever_behind_the_fence",
    "kinds::what_karmada_scales_moves_and_is_held_beside_it",
    "kinds::what_keda_scales_from_zero_is_not_held_beside_it",
    "kinds::of_several_groups_of_affinities_the_scheduler_stays_with_that_of_the_target",
    "rebalance::one_that_stands_waits_for_its_occasion",
    "rebalance::replicas_that_are_divided_are_divided_anew_when_a_cluster_joins",
    "requested::a_migration_that_is_created_late_is_deleted_and_moves_nothing",
    "rollout::a_change_goes_cluster_by_cluster_in_the_order_that_is_given",
    "rollout::a_rollout_that_is_deleted_in_the_middle_comes_to_its_end_first",
    "rollout_policy::a_policy_that_goes_lets_what_it_began_come_to_its_end_and_then_changes_go_out_as_ever",
    "rollout_policy::every_change_of_what_is_selected_goes_cluster_by_cluster_and_the_rest_goes_out_as_ever",
    "shift::a_shift_that_has_gone_is_brought_back_with_its_suspension",
    "shift::an_autoscaler_that_comes_in_the_middle_holds_it_until_it_is_gone",
    "shift::what_is_asked_for_afterwards_is_suspended_and_stays_so",
    "suspension::a_policy_with_several_workloads_is_suspended_as_a_whole_and_all_are_listed",
    "suspension::it_ends_by_itself_and_lists_what_goes_out_before_it_goes",
    "suspension::pins::a_pin_that_somebody_edits_is_written_anew",
    "suspension::pins::a_suspension_of_the_whole_policy_stands_beside_one_by_a_pin",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_allow_what_is_asked_for_and_nothing_else() {
    let Some(tools) = real::tools_for("the roles") else {
        return;
    };
    let mut asked = tokio::task::spawn_blocking(asked_in_tests).await.unwrap();
    let server = Kube::start(&tools).await;
    server.set_up().await;
    let installing = server.install().await;
    asked.extend(server.run().await);

    let refused = server.refused(ACCOUNT, &asked).await;
    assert!(refused.is_empty(), "deploy/rbac.yaml lacks {refused:#?}");
    server.limited_to_one_namespace(&asked).await;

    let grants = roles::grants_to_the_account(&roles::objects());
    let unused = server.unused(&grants, &asked).await;
    assert!(unused.is_empty(), "nothing needs {unused:#?} of deploy/rbac.yaml");
    let broad = could_be_of_names(&grants, &asked);
    assert!(broad.is_empty(), "`resourceNames` could limit {broad:#?}");
    let unused = unused_of_install(&installing);
    assert!(unused.is_empty(), "`init --cluster` does not need {unused:#?}");
}

/// Without a role, `cutover check` names what is missing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_what_the_account_may_not_do() {
    let Some(tools) = real::tools_for("the check of roles") else {
        return;
    };
    let server = Kube::start(&tools).await;
    server.set_up().await;
    server.install().await;
    let kubeconfig = server.kubeconfig("cutover").await;
    let look = || -> (Option<i32>, Vec<Value>) {
        let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["check", "-o", "json", "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        let checks = document["checks"].as_array().unwrap().clone();
        let about_rights = |check: &Value| check["name"].as_str().unwrap().starts_with("permissions");
        (
            output.status.code(),
            checks.into_iter().filter(about_rights).collect(),
        )
    };
    let (code, checks) = look();
    assert_eq!((code, checks.len()), (Some(0), 1), "{checks:#?}");
    assert_eq!(checks[0]["outcome"], "ok", "{checks:#?}");
    for (binding, outcome, words) in [
        ("cutover-dry-runs", "warning", "create works of work.karmada.io"),
        ("cutover-intents", "failed", "create migrations of cutover.dev"),
    ] {
        let path = format!("{RBAC}/clusterrolebindings/{binding}");
        server.ask("DELETE", &path, &Value::Null).await;
        let expects = |checks: &[Value]| {
            checks.iter().any(|check| {
                let message = check["message"].as_str().unwrap();
                check["outcome"] == outcome && message.contains(ACCOUNT) && message.contains(words)
            })
        };
        // The server's authorizer hears of it by a watch.
        server
            .until("the missing right is named", async || expects(&look().1))
            .await;
    }
    assert_eq!(look().0, Some(1));
}

/// Kinds whose objects others name, or that get their names by what they are about: no role can know them.
const NAMED_BY_OTHERS: &[(&str, &str)] = &[
    // By the names of syncs, of what asks for a canary, and of what an Event is about.
    ("", "configmaps"),
    ("", "events"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("argoproj.io", "applications"),
    ("cluster.karmada.io", "clusters"),
    ("cutover.dev", "claims"),
    ("cutover.dev", "evacuations"),
    ("cutover.dev", "failoverplans"),
    ("cutover.dev", "migrations"),
    ("cutover.dev", "rebalances"),
    ("cutover.dev", "replicashifts"),
    ("cutover.dev", "rolloutpolicies"),
    ("cutover.dev", "rollouts"),
    ("cutover.dev", "suspensions"),
    ("helm.toolkit.fluxcd.io", "helmreleases"),
    ("kustomize.toolkit.fluxcd.io", "kustomizations"),
    ("policy.karmada.io", "clusteroverridepolicies"),
    ("policy.karmada.io", "clusterpropagationpolicies"),
    ("policy.karmada.io", "overridepolicies"),
    ("policy.karmada.io", "propagationpolicies"),
    ("work.karmada.io", "clusterresourcebindings"),
    ("work.karmada.io", "resourcebindings"),
];

/// Returns what is granted of whatever name, and asked for of no more than two, by these names.
fn could_be_of_names<'a>(
    grants: &'a BTreeSet<Grant>,
    asked: &'a BTreeSet<Asked>,
) -> Vec<(&'a Grant, BTreeSet<&'a str>)> {
    const OF_A_NAME: [&str; 4] = ["get", "update", "patch", "delete"];
    let is_broad = |grant: &&Grant| {
        let resource = grant.resource.split('/').next().unwrap_or_default();
        grant.name.is_none()
            && OF_A_NAME.contains(&grant.verb.as_str())
            && !NAMED_BY_OTHERS.contains(&(grant.group.as_str(), resource))
    };
    let with_names = grants.iter().filter(is_broad).map(|grant| {
        let allowed = asked.iter().filter(|asked| grant.allows(asked));
        (grant, allowed.map(|asked| asked.name.as_str()).collect())
    });
    with_names
        .filter(|(_, names): &(_, BTreeSet<&str>)| names.len() <= 2)
        .collect()
}

/// In the namespace of the workloads, if the kind has namespaces.
fn also(verb: &str, group: &str, resource: &str, subresource: &str) -> Asked {
    let wide = resource.starts_with("cluster") || resource == "claims";
    let namespace = if wide { "" } else { "shop" };
    Asked {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: String::new(),
        dry_run: false,
    }
}

/// Something that a grant allows.
fn sample(grant: &Grant) -> Asked {
    let (resource, subresource) = grant.resource.split_once('/').unwrap_or((&grant.resource, ""));
    Asked {
        verb: grant.verb.clone(),
        group: grant.group.clone(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: grant.namespace.clone().unwrap_or_default(),
        name: grant.name.clone().unwrap_or_default(),
        dry_run: false,
    }
}

/// Runs the tests in a process of their own, and returns what their reconcilers asked for. A record that is named already is
/// taken as it is.
fn asked_in_tests() -> BTreeSet<Asked> {
    if let Some(path) = std::env::var_os(roles::RECORD) {
        return read(Path::new(&path));
    }
    let record = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--test-threads", "2"])
        .args(RUNS)
        .env(roles::RECORD, record.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{} passed; 0 failed", RUNS.len());
    assert!(output.status.success() && said.contains(&all), "{said}");
    read(record.path())
}

fn read(record: &Path) -> BTreeSet<Asked> {
    let text = std::fs::read_to_string(record).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Of the role by which people install.
fn unused_of_install(asked: &BTreeSet<Asked>) -> Vec<Grant> {
    let objects = roles::objects();
    let role = objects
        .iter()
        .find(|role| role["metadata"]["name"] == "cutover-install");
    let grants = roles::grants_of(role.unwrap(), None).into_iter();
    grants
        .filter(|grant| !asked.iter().any(|asked| grant.allows(asked)))
        .collect()
}

struct Kube {
    server: RealServer,
    client: Client,
}

impl Kube {
    async fn start(tools: &Path) -> Self {
        let server = RealServer::with_rbac(tools).await;
        let client = server.client().await;
        Self { server, client }
    }

    /// What an administrator does: the roles, and what the account needs for what this test has in Git.
    async fn set_up(&self) {
        for namespace in ["karmada-system", "shop", "second"] {
            self.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}}))
                .await;
        }
        for object in roles::objects() {
            self.create(&collection(&object), object).await;
        }
        let verbs = json!(["get", "list", "watch", "create", "patch", "delete"]);
        let synced =
            json!([{"apiGroups": ["flink.apache.org"], "resources": ["flinkdeployments"], "verbs": verbs}]);
        self.bind("synced", None, &synced, &account("cutover")).await;
        let install = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cutover-install"},
            "subjects": [account("installer")],
        });
        self.create(&collection(&install), install).await;
        let accounts = "/api/v1/namespaces/cutover-system/serviceaccounts";
        self.create(accounts, json!({"metadata": {"name": "installer"}}))
            .await;
    }

    /// Installs the definitions and the fence, by the role that is for it; returns what was asked for.
    async fn install(&self) -> BTreeSet<Asked> {
        // One of the definitions is new.
        let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloadprofiles.cutover.dev";
        self.ask("DELETE", crd, &Value::Null).await;
        self.until("a definition is gone", async || {
            self.ask("GET", crd, &Value::Null).await.0 == 404
        })
        .await;
        let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["init", "--cluster", "--reconciler", ACCOUNT, "--kubeconfig"])
            .arg(self.kubeconfig("installer").await)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("it refuses"), "{said}");
        let mut asked = self.logged("system:serviceaccount:cutover-system:installer");
        // Whoever writes a policy must be allowed to read its parameters; the server asks itself, and doesn't log it.
        for verb in ["get", "list"] {
            asked.insert(also(verb, "cutover.dev", "claims", ""));
        }
        asked
    }

    /// Runs the program as its account, until it has synced and looked at an intent; returns what it asked for.
    #[expect(clippy::too_many_lines, reason = "one story, told in order")]
    async fn run(&self) -> BTreeSet<Asked> {
        let config = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Config", "interval": "1s",
            "syncs": [{"name": "fleet", "path": "fleet", "prune": true}],
        });
        let job = crate::support::fleet::job("orders:1.0").to_string();
        let other = job.replace("\"orders\"", "\"other\"");
        let origin = Origin::with(&[
            ("cutover.yaml", config.to_string().as_str()),
            ("fleet/orders.yaml", job.as_str()),
            ("fleet/other.yaml", other.as_str()),
        ]);
        let state = tempfile::tempdir().unwrap();
        let log = state.path().join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["-v", "run", "--repo"])
            .arg(origin.path())
            .arg("--kubeconfig")
            .arg(self.kubeconfig("cutover").await)
            .arg("--state-dir")
            .arg(state.path().join("state"))
            .env_remove("KUBECONFIG")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        let jobs = "/apis/flink.apache.org/v1beta1/namespaces/shop/flinkdeployments";
        self.until("what Git has is applied", async || {
            assert!(
                running.0.try_wait().unwrap().is_none(),
                "{}",
                std::fs::read_to_string(&log).unwrap()
            );
            self.ask("GET", &format!("{jobs}/other"), &Value::Null).await.0 == 200
        })
        .await;
        // The set of what is applied changes, and comes to be about one more namespace.
        let elsewhere = job.replace("\"shop\"", "\"second\"");
        origin.commit(
            "main",
            &[
                ("fleet/other.yaml", "# nothing\n"),
                ("fleet/elsewhere.yaml", elsewhere.as_str()),
            ],
        );
        self.until("what Git has no more is gone", async || {
            self.ask("GET", &format!("{jobs}/other"), &Value::Null).await.0 == 404
        })
        .await;
        let elsewhere = jobs.replace("shop", "second");
        self.until("what came to Git is applied", async || {
            self.ask("GET", &format!("{elsewhere}/orders"), &Value::Null)
                .await
                .0
                == 200
        })
        .await;
        let migrations = "/apis/cutover.dev/v1alpha1/namespaces/shop/migrations";
        let migration = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "move", "namespace": "shop"},
            "spec": {"to": "west", "workload":
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}},
        });
        self.create(migrations, migration).await;
        self.until("the intent has been looked at", async || {
            let (_, migration) = self.ask("GET", &format!("{migrations}/move"), &Value::Null).await;
            !migration["status"]["phase"].is_null()
        })
        .await;
        self.plan(&origin, &state.path().join("plan")).await;
        let ended = Command::new("kill")
            .arg(running.0.id().to_string())
            .status()
            .unwrap();
        assert!(ended.success() && running.0.wait().unwrap().success());
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(!said.contains("forbidden"), "{said}");
        self.logged(ACCOUNT).into_iter().filter(Asked::is_ours).collect()
    }

    /// Plans as the account: the hash of a plan is salted with what tells this control plane from others.
    async fn plan(&self, origin: &Origin, state: &Path) {
        let planned = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["plan", "--repo"])
            .arg(origin.path())
            .arg("--kubeconfig")
            .arg(self.kubeconfig("cutover").await)
            .arg("--state-dir")
            .arg(state)
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&planned.stderr);
        assert!(planned.status.success(), "{said}");
    }

    /// Returns what a user asked for, by the server's own log.
    fn logged(&self, user: &str) -> BTreeSet<Asked> {
        let mut asked = BTreeSet::new();
        for event in self.server.audit_log() {
            if event["user"]["username"] != user || event["objectRef"].is_null() {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = &event["objectRef"];
            let one = Asked {
                verb: text(&event["verb"]),
                group: text(&object["apiGroup"]),
                resource: text(&object["resource"]),
                subresource: text(&object["subresource"]),
                namespace: text(&object["namespace"]),
                name: text(&object["name"]),
                dry_run: text(&event["requestURI"]).contains("dryRun=All"),
            };
            // Also of what the user has to allow: here, that is done.
            let decision = &event["annotations"]["authorization.k8s.io/decision"];
            assert_eq!(decision, "allow", "{user} may not {one:?}: {event:#}");
            // An apply that creates needs the right to create, too.
            if one.verb == "patch" && event["responseStatus"]["code"] == 201 {
                asked.insert(Asked {
                    verb: "create".to_owned(),
                    ..one.clone()
                });
            }
            asked.insert(one);
        }
        asked
    }

    /// Returns what a user would be refused.
    async fn refused(&self, user: &str, asked: &BTreeSet<Asked>) -> Vec<Asked> {
        let tried = stream::iter(asked).map(|asked| async move {
            let allowed = self.may(user, &[], asked).await;
            (!allowed).then(|| asked.clone())
        });
        tried.buffered(8).filter_map(std::future::ready).collect().await
    }

    /// A binding of `cutover-intents` in one namespace suffices for what is asked for there, and for nothing elsewhere.
    async fn limited_to_one_namespace(&self, asked: &BTreeSet<Asked>) {
        let limited = |binding: &Value| {
            binding["kind"] == "ClusterRoleBinding" && binding["metadata"]["name"] == "cutover-intents"
        };
        let mut objects = roles::objects();
        for object in &mut objects {
            if limited(object) {
                object["kind"] = json!("RoleBinding");
                object["metadata"]["namespace"] = json!("shop");
            }
        }
        let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"});
        for mut binding in objects {
            if binding["subjects"].is_array() {
                binding["metadata"]["name"] = json!(format!(
                    "limited-{}",
                    binding["metadata"]["name"].as_str().unwrap()
                ));
                binding["subjects"] = json!([user]);
                self.create(&collection(&binding), binding).await;
            }
        }
        let is_written = |asked: &&Asked| {
            asked.namespace == "shop" && asked.verb == "patch" && asked.group == "cutover.dev"
        };
        let sample = asked.iter().find(is_written).unwrap();
        self.until("the limited user may do something", async || {
            self.may("limited", &[], sample).await
        })
        .await;
        let there: BTreeSet<Asked> = asked
            .iter()
            .filter(|asked| {
                ["", "shop", "cutover-system", "karmada-system"].contains(&asked.namespace.as_str())
            })
            .cloned()
            .collect();
        assert_eq!(self.refused("limited", &there).await, []);
        let elsewhere = Asked {
            namespace: "elsewhere".to_owned(),
            ..sample.clone()
        };
        assert!(!self.may("limited", &[], &elsewhere).await, "{elsewhere:?}");
        assert!(self.may(ACCOUNT, &[], &elsewhere).await, "{elsewhere:?}");
    }

    /// Returns what could be taken away from the roles without anything being refused that was asked for.
    ///
    /// There is a user for each thing that is granted, who may do everything else.
    async fn unused(&self, grants: &BTreeSet<Grant>, asked: &BTreeSet<Asked>) -> Vec<Grant> {
        let scopes: BTreeSet<Option<String>> = grants.iter().map(|grant| grant.namespace.clone()).collect();
        let rules = |scope: &Option<String>, without: Option<&Grant>| -> Value {
            let kept = grants
                .iter()
                .filter(|grant| grant.namespace == *scope && Some(*grant) != without);
            kept.map(Grant::rule).collect()
        };
        let group = |scope: &Option<String>| format!("all-of-{}", scope.as_deref().unwrap_or("all"));
        for scope in &scopes {
            let subject =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group(scope)});
            self.bind(&group(scope), scope.as_deref(), &rules(scope, None), &subject)
                .await;
        }
        let tried = stream::iter(grants.iter().enumerate()).map(|(number, grant)| {
            let others: Vec<String> = scopes
                .iter()
                .filter(|scope| **scope != grant.namespace)
                .map(group)
                .collect();
            let rules = rules(&grant.namespace, Some(grant));
            async move {
                let user = format!("without-{number}");
                let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
                self.bind(&user, grant.namespace.as_deref(), &rules, &subject)
                    .await;
                let needed: Vec<&Asked> = asked.iter().filter(|asked| grant.allows(asked)).collect();
                // Something else that the same role allows: it is in force. One that allows nothing else can't be late.
                let other = grants
                    .iter()
                    .find(|other| other.namespace == grant.namespace && *other != grant);
                if let Some(other) = other {
                    let sample = sample(other);
                    self.until("a role is in force", async || self.may(&user, &[], &sample).await)
                        .await;
                }
                for asked in needed {
                    if !self.may(&user, &others, asked).await {
                        return None;
                    }
                }
                Some(grant.clone())
            }
        });
        tried.buffered(8).filter_map(std::future::ready).collect().await
    }

    /// Makes a role of these rules and binds it, in a namespace or everywhere.
    async fn bind(&self, name: &str, namespace: Option<&str>, rules: &Value, subject: &Value) {
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let metadata = json!({"name": name, "namespace": namespace});
        let api = "rbac.authorization.k8s.io/v1";
        let role =
            json!({"apiVersion": api, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules});
        let binding = json!({
            "apiVersion": api, "kind": format!("{prefix}RoleBinding"), "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name},
        });
        for object in [role, binding] {
            self.create(&collection(&object), object).await;
        }
    }

    /// Asks the API server whether it would let somebody do that.
    async fn may(&self, user: &str, groups: &[String], asked: &Asked) -> bool {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": {
                "verb": asked.verb, "group": asked.group, "resource": asked.resource, "subresource": asked.subresource,
                "namespace": asked.namespace, "name": asked.name,
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (code, answer) = self.ask("POST", path, &review).await;
        assert_eq!(code, 201, "{answer:#}");
        answer["status"]["allowed"] == true
    }

    /// Returns a kubeconfig of a service account, with a token of the server.
    async fn kubeconfig(&self, name: &str) -> std::path::PathBuf {
        let path = format!("/api/v1/namespaces/cutover-system/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
        let (code, answer) = self.ask("POST", &path, &request).await;
        assert_eq!(code, 201, "{answer:#}");
        self.server
            .kubeconfig_of(name, answer["status"]["token"].as_str().unwrap())
    }

    async fn create(&self, path: &str, object: Value) {
        let (code, answer) = self.ask("POST", path, &object).await;
        assert_eq!(code, 201, "{object:#}\n{answer:#}");
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn until(&self, what: &str, holds: impl AsyncFnMut() -> bool) {
        let came = comes_true(PATIENCE, Duration::from_millis(20), holds).await;
        assert!(came, "{what}: not after {PATIENCE:?}");
    }
}

/// Dropped, it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": "cutover-system"})
}

/// Returns the path to which an object is posted.
fn collection(object: &Value) -> String {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let group = match object["apiVersion"].as_str().unwrap() {
        "v1" => "/api/v1",
        _ => RBAC,
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    }
}
