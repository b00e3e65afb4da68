//! Where the suite plays: the control plane and the members that the environment names, or else a sandbox behind
//! kubeconfigs. In both, what runs in the members is the suite's own: the sandbox's simulators, each on a kube client.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cutover::api;
use cutover::name::ClusterName;
use cutover::sandbox::ledger::Ledger;
use cutover::sandbox::member::savepoints::Savepoints;
use cutover::sandbox::member::{self, Clock, Context, Simulators, Timings, node_name};
use cutover::sandbox::world::{Kubeconfigs, crds};
use cutover::sandbox::{World, WorldOptions};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{
    BINDINGS, CLUSTERS, CRDS, DEPLOYMENTS, FENCE_BINDINGS, FENCES, INTENTS, JOBS, NAMESPACES, NODES, Server,
};
use cutover_testing::wait::comes_true;

/// How long anything may take before the suite gives up.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The policies that `cutover init --cluster` installs, each with a binding of its name.
const FENCE: [&str; 5] = [
    "cutover-bindings",
    "cutover-works",
    "cutover-overrides",
    "cutover-claims",
    "cutover-dry-runs",
];

pub struct Place {
    pub control: Server,
    pub members: BTreeMap<String, Member>,
    /// The suite's own namespace, in the control plane and in every member.
    pub namespace: String,
    pub ledger: Ledger,
    /// What was there about the suite's things before it began.
    before: BTreeMap<String, BTreeSet<String>>,
    /// What the suite brought, to be taken away again.
    brought: Brought,
    /// The members that are cut off, each with the address by which the control plane reaches it.
    cut_off: Mutex<BTreeMap<String, Value>>,
    sandbox: Option<Sandbox>,
}

pub struct Member {
    pub server: Server,
    pub simulators: Simulators,
}

#[derive(Default)]
struct Brought {
    own_crds: Vec<String>,
    /// The policies of the admission fence, by name.
    fences: Vec<&'static str>,
    own_namespace: bool,
    job_crds: Vec<String>,
    /// Definitions of other tools' kinds, in the control plane.
    others_crds: Mutex<Vec<String>>,
    nodes: Vec<String>,
}

struct Sandbox {
    world: World,
    _kubeconfigs: Kubeconfigs,
    _dir: TempDir,
}

impl Place {
    /// Finds the control plane that the environment names; else starts a sandbox.
    pub async fn find(sandbox: WorldOptions) -> Self {
        let timings = sandbox.timings.clone();
        match std::env::var_os("CUTOVER_E2E_KUBECONFIG") {
            Some(control) => Self::of(Path::new(&control), &named_members(), timings, None).await,
            None => Self::sandbox(sandbox).await,
        }
    }

    async fn sandbox(options: WorldOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let timings = options.timings.clone();
        let world = World::start(WorldOptions {
            simulators: false,
            start: Timestamp::now(),
            ..options
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let kubeconfigs = world.serve(address, dir.path()).await.unwrap();
        let (control, members) = (kubeconfigs.control.clone(), kubeconfigs.members.clone());
        let sandbox = Sandbox {
            world,
            _kubeconfigs: kubeconfigs,
            _dir: dir,
        };
        Self::of(&control, &members, timings, Some(sandbox)).await
    }

    async fn of(
        control: &Path,
        members: &BTreeMap<String, PathBuf>,
        timings: Timings,
        sandbox: Option<Sandbox>,
    ) -> Self {
        let control = Server::of(control).await;
        let suffix: String = std::iter::repeat_with(|| fastrand::char('a'..='z'))
            .take(6)
            .collect();
        let namespace = format!("cutover-e2e-{suffix}");
        let mut servers = BTreeMap::new();
        for (name, kubeconfig) in members {
            servers.insert(name.clone(), Server::of(kubeconfig).await);
        }
        alone(&control, &servers).await;
        let mut before = BTreeMap::new();
        let all = servers.iter().map(|(name, server)| (name.as_str(), server));
        for (name, server) in all.chain([("the control plane", &control)]) {
            let there = server.objects_about(&words(&namespace)).await.unwrap();
            before.insert(name.to_owned(), there);
        }
        let mut place = Self {
            control,
            members: BTreeMap::new(),
            namespace,
            ledger: Ledger::new(),
            before,
            brought: Brought::default(),
            cut_off: Mutex::default(),
            sandbox,
        };
        place.bring_definitions(&servers).await;
        place.bring_namespace(&servers).await;
        place.bring_to_life(servers, &timings).await;
        place
    }

    /// Two members, by the order of their names.
    pub fn pair(&self) -> [&str; 2] {
        let mut names = self.members.keys();
        [names.next().unwrap(), names.next().unwrap()]
    }

    /// Cuts a member off from the control plane; both go on.
    pub async fn cut_off(&self, cluster: &str) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.world.faults().partition(cluster);
        }
        let there = self.control.get(CLUSTERS, None, cluster).await.unwrap();
        let endpoint = there["spec"]["apiEndpoint"].clone();
        self.cut().insert(cluster.to_owned(), endpoint);
        // Nobody listens there.
        self.point(cluster, &json!("https://127.0.0.1:9")).await;
    }

    pub async fn reconnect(&self, cluster: &str) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.world.faults().heal(cluster);
        }
        let endpoint = self.cut().remove(cluster).expect("it is cut off");
        self.point(cluster, &endpoint).await;
    }

    /// Whatever a scenario has left cut off.
    pub async fn reconnect_all(&self) {
        let cut: Vec<String> = self.cut().keys().cloned().collect();
        for cluster in cut {
            self.reconnect(&cluster).await;
        }
    }

    async fn point(&self, cluster: &str, endpoint: &Value) {
        let patch = json!({"spec": {"apiEndpoint": endpoint}});
        self.control.patch(CLUSTERS, None, cluster, patch).await.unwrap();
    }

    fn cut(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Value>> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the definition of a kind of another tool's to the control plane, where there is none.
    pub async fn define(&self, crd: Value) {
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        if self.control.get(CRDS, None, &name).await.is_some() {
            return;
        }
        self.control.create(CRDS, None, crd).await;
        let brought = &self.brought.others_crds;
        brought
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name.clone());
        until(&format!("{name} is served"), async || {
            let crd = self.control.get(CRDS, None, &name).await.unwrap_or_default();
            let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        })
        .await;
    }

    async fn bring_definitions(&mut self, servers: &BTreeMap<String, Server>) {
        for crd in api::crds() {
            let name = crd.metadata.name.unwrap();
            if self.control.get(CRDS, None, &name).await.is_none() {
                self.brought.own_crds.push(name);
            }
        }
        for name in FENCE {
            if self.control.get(FENCES, None, name).await.is_none() {
                self.brought.fences.push(name);
            }
        }
        let own = self.control.get(NAMESPACES, None, api::OWN_NAMESPACE).await;
        self.brought.own_namespace = own.is_none();
        let installed = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["init", "--cluster", "--kubeconfig"])
            .arg(&self.control.kubeconfig)
            .output()
            .unwrap();
        assert!(
            installed.status.success(),
            "{}",
            String::from_utf8_lossy(&installed.stderr)
        );
        let all = servers.iter().map(|(name, server)| (name.as_str(), server));
        for (name, server) in all.chain([("", &self.control)]) {
            let [crd] = <[Value; 1]>::try_from(crds::member()).unwrap();
            let crd_name = crd["metadata"]["name"].as_str().unwrap().to_owned();
            if server.get(CRDS, None, &crd_name).await.is_none() {
                server.create(CRDS, None, crd).await;
                self.brought.job_crds.push(name.to_owned());
            }
        }
        // Karmada asks members for their kinds now and then, and places nothing where a kind isn't served.
        let wanted = json!({"groupVersion": "flink.apache.org/v1beta1"});
        for name in servers.keys() {
            until(
                &format!("Karmada knows that {name} serves FlinkDeployments"),
                async || {
                    let cluster = self.control.get(CLUSTERS, None, name).await;
                    let cluster = cluster.unwrap_or_else(|| panic!("no cluster {name} is joined"));
                    let groups = cluster["status"]["apiEnablements"].as_array().cloned();
                    groups
                        .unwrap_or_default()
                        .iter()
                        .any(|group| group["groupVersion"] == wanted["groupVersion"])
                },
            )
            .await;
        }
    }

    /// Karmada makes the namespace in every member.
    async fn bring_namespace(&self, servers: &BTreeMap<String, Server>) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace},
        });
        self.control.create(NAMESPACES, None, namespace).await;
        for (name, server) in servers {
            until(&format!("{name} has the namespace"), async || {
                server.get(NAMESPACES, None, &self.namespace).await.is_some()
            })
            .await;
        }
    }

    async fn bring_to_life(&mut self, servers: BTreeMap<String, Server>, timings: &Timings) {
        let (clock, savepoints) = (Clock::starting_at(Timestamp::now()), Savepoints::new());
        for (name, server) in servers {
            let has_nodes = !server.list(NODES, None).await.is_empty();
            let cluster = ClusterName::new(name.as_str());
            if !has_nodes {
                self.brought.nodes.push(name.clone());
            }
            let context = Context {
                cluster,
                scope: member::Scope {
                    namespace: Some(self.namespace.clone()),
                    has_nodes,
                },
                seed: fastrand::u64(..),
                clock,
                ledger: self.ledger.clone(),
                savepoints: savepoints.clone(),
                timings: timings.clone(),
                lag: Arc::new(|_: &ClusterName, _: &str| Duration::ZERO),
            };
            let simulators = member::spawn(server.client.clone(), context);
            let member = Member { server, simulators };
            self.members.insert(name, member);
        }
    }

    /// Takes everything away that the suite brought, and returns what is left all the same.
    ///
    /// Members have to be there until their copies have gone, with whoever takes finalizers off them.
    pub async fn clear(mut self) -> Vec<String> {
        let _ = self
            .control
            .delete(NAMESPACES, None, &self.namespace)
            .await
            .inspect_err(|error| say(format!("the namespace can't be deleted: {error}")));
        let everywhere = self.members.values().map(|member| &member.server);
        for server in everywhere.chain([&self.control]) {
            until_or_not(async || server.get(NAMESPACES, None, &self.namespace).await.is_none()).await;
        }
        let members = std::mem::take(&mut self.members);
        let mut servers: BTreeMap<String, Server> = BTreeMap::new();
        for (name, member) in members {
            servers.insert(name, member.server);
        }
        for name in &self.brought.nodes {
            let node = node_name(&ClusterName::new(name.as_str()));
            let _ = servers[name].delete(NODES, None, &node).await;
        }
        // Before the definition of their parameters: without it they refuse every change of a binding.
        for name in &self.brought.fences {
            let _ = self.control.delete(FENCE_BINDINGS, None, name).await;
            let _ = self.control.delete(FENCES, None, name).await;
        }
        let others = self.brought.others_crds.get_mut();
        let others = std::mem::take(others.unwrap_or_else(PoisonError::into_inner));
        for name in self.brought.own_crds.iter().chain(&others) {
            let _ = self.control.delete(CRDS, None, name).await;
        }
        if self.brought.own_namespace {
            let _ = self.control.delete(NAMESPACES, None, api::OWN_NAMESPACE).await;
        }
        servers.insert(String::new(), self.control.clone());
        for name in &self.brought.job_crds {
            let _ = servers[name]
                .delete(CRDS, None, "flinkdeployments.flink.apache.org")
                .await;
        }
        servers.remove("");
        servers.insert("the control plane".to_owned(), self.control.clone());
        let words = words(&self.namespace);
        let mut left = Vec::new();
        for (name, server) in &servers {
            let before = &self.before[name];
            let mut there = BTreeSet::new();
            let gone = async || match server.objects_about(&words).await {
                Ok(now) => {
                    there = now;
                    there.is_subset(before)
                }
                Err(_) => false,
            };
            if !until_or_not(gone).await {
                left.extend(there.difference(before).map(|object| format!("{name}: {object}")));
            }
        }
        left
    }
}

/// What the suite's things are known by, wherever they are.
fn words(namespace: &str) -> Vec<String> {
    vec![
        namespace.to_owned(),
        "cutover.dev".to_owned(),
        api::OWN_NAMESPACE.to_owned(),
        "flinkdeployments.flink.apache.org".to_owned(),
        "-node-1".to_owned(),
    ]
}

/// Nobody else's intents are there, and nobody else lets Flink jobs come alive.
async fn alone(control: &Server, members: &BTreeMap<String, Server>) {
    assert!(members.len() >= 2, "a migration needs two members");
    for kind in INTENTS {
        let there = control.list(kind, None).await.len();
        assert_eq!(
            there, 0,
            "{} are in the control plane, and the suite's reconciler would carry them out",
            kind.plural
        );
    }
    for (name, member) in members {
        let jobs = member.list(JOBS, None).await;
        let operators = member.list(DEPLOYMENTS, None).await;
        let operated = operators
            .iter()
            .any(|deployment| deployment["metadata"]["name"] == "flink-kubernetes-operator");
        assert!(
            jobs.is_empty() && !operated,
            "{name} runs Flink jobs, or Flink's operator, which the suite's simulator would act beside"
        );
    }
    // A read that fails here says better what is wrong than a scenario would.
    control.list(BINDINGS, None).await;
}

/// Reads `east=/path/to/kubeconfig,west=…`.
fn named_members() -> BTreeMap<String, PathBuf> {
    let named = std::env::var("CUTOVER_E2E_MEMBERS").expect("CUTOVER_E2E_MEMBERS=NAME=KUBECONFIG,…");
    let pair = |pair: &str| {
        let (name, path) = pair.split_once('=').expect("NAME=KUBECONFIG");
        (name.trim().to_owned(), PathBuf::from(path.trim()))
    };
    named.split(',').map(pair).collect()
}

/// Waits for something; fails when it takes too long.
pub async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    assert!(until_or_not(holds).await, "{what}: not after {PATIENCE:?}");
}

pub async fn until_or_not(holds: impl AsyncFnMut() -> bool) -> bool {
    comes_true(PATIENCE, Duration::from_millis(25), holds).await
}

/// Tells whoever runs the suite with `--nocapture`.
#[allow(clippy::print_stdout)]
pub fn say(line: impl AsRef<str>) {
    println!("{}", line.as_ref());
}
