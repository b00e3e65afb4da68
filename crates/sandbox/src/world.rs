//! A whole Karmada put together: a control plane, its controllers, members and what runs in them.
//!
//! Everything happens on the tokio runtime that a [`World`] is started on; with tokio's clock paused, one seed gives
//! one history. Dropping it ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::api::{ApiServer, Options, Patch, Snapshot, Status, Subresource, WriteOptions, gc};
use super::clock::Clock;
use super::faults::{Faults, Plan, ServerFaults};
use super::karmada::{
    self, CONTROLLER_MANAGER, ClusterProxy, Context, Features, Latencies, SCHEDULER, Tasks, Webhooks,
};
use super::ledger::Ledger;
use super::member::savepoints::Savepoints;
use super::member::{self, Simulators, Timings};
use super::traffic::Traffic;
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;

mod accounts;
/// The definitions that the servers of a world begin with.
pub mod crds;
mod rejoin;

/// How to start a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    pub members: Vec<String>,
    /// From what uids, names, delays and faults come: one seed gives one history.
    pub seed: u64,
    /// What goes wrong by itself; [`World::faults`] adds to it by hand.
    pub faults: Plan,
    pub latencies: Latencies,
    /// How long things take within members.
    pub timings: Timings,
    pub features: Features,
    /// Whether workloads come alive in the members.
    pub simulators: bool,
    /// Accounts that every namespace of a member gets, as the charts of operators make them there.
    pub service_accounts: Vec<String>,
    /// What the clock shows at the beginning.
    pub start: Timestamp,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            members: ["east", "west", "north"].map(str::to_owned).to_vec(),
            seed: 1,
            faults: Plan::default(),
            latencies: Latencies::measured(),
            timings: Timings::default(),
            features: Features::default(),
            simulators: true,
            service_accounts: Vec::new(),
            // 2026-01-01T00:00:00Z: the history that a seed gives has the same times in every run.
            start: Timestamp::constant(1_767_225_600, 0),
        }
    }
}

impl WorldOptions {
    /// Returns options for tests that are not about races or times.
    pub fn fast() -> Self {
        Self {
            latencies: Latencies::fast(),
            ..Self::default()
        }
    }
}

/// A running Karmada.
#[derive(Debug)]
pub struct World {
    control: ApiServer,
    members: BTreeMap<String, Member>,
    clock: Clock,
    faults: Faults,
    traffic: Traffic,
    ledger: Ledger,
    savepoints: Savepoints,
    /// The tasks of each process of the control plane, and those of the world itself.
    tasks: Vec<Tasks>,
}

/// A process of the control plane, and what starts its controllers.
type Process = (&'static str, fn(&Context));

/// One member cluster.
#[derive(Debug)]
pub struct Member {
    pub name: String,
    pub api: ApiServer,
    /// As it was before anything came here.
    fresh: Snapshot,
    /// `None` where somebody else lets workloads come alive.
    simulators: Option<Mutex<Simulators>>,
}

impl Member {
    /// Returns a client that goes to the member directly, not through Karmada.
    pub fn client(&self) -> kube::Client {
        self.api.client("system:admin")
    }

    /// Does something with what runs in the member: freeze or crash its operators, look at its jobs.
    ///
    /// # Panics
    /// When the world was started without simulators.
    pub fn simulators<T>(&self, what: impl FnOnce(&mut Simulators) -> T) -> T {
        let Some(simulators) = &self.simulators else {
            unreachable!("nothing runs in {}: the world has no simulators", self.name);
        };
        what(&mut simulators.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// From what a deletion leaves behind to its removal.
const CHORE_LAG: Duration = Duration::from_millis(10);

/// The users of the sandbox.
const ADMIN: &str = "system:admin";
const CLIENT: &str = "cutover";

impl World {
    /// Starts a world. Must be called on a tokio runtime.
    pub fn start(options: WorldOptions) -> Self {
        let clock = Clock::starting_at(options.start);
        let faults = Faults::new(options.seed);
        let control = server("karmada", options.seed, clock);
        control.admit(Arc::new(Webhooks::new(options.seed, clock)));
        install(&control, &crds::control_plane());
        for namespace in ["karmada-system", "karmada-cluster"] {
            create_namespace(&control, namespace);
        }
        let mut world = Self {
            control,
            members: BTreeMap::new(),
            clock,
            faults,
            traffic: Traffic::default(),
            ledger: Ledger::new(),
            savepoints: Savepoints::new(),
            tasks: Vec::new(),
        };
        for (index, name) in (1..).zip(&options.members) {
            let member = world.start_member(name, options.seed.wrapping_add(index), &options);
            world.join(&member);
            world.members.insert(name.clone(), member);
        }
        world.serve_members(&options);
        world.start_processes(&options);
        let own = Tasks::default();
        own.spawn(options.faults.clone().run(world.faults.clone()));
        for server in std::iter::once(&world.control).chain(world.members.values().map(|member| &member.api))
        {
            own.spawn(chores(server.clone()));
        }
        if !options.service_accounts.is_empty() {
            for member in world.members.values() {
                own.spawn(accounts::give(
                    member.api.clone(),
                    options.service_accounts.clone(),
                ));
            }
        }
        world.tasks.push(own);
        world.disturb(&options);
        world
    }

    /// Returns a client of the control plane, as the user under which this tool works.
    pub fn client(&self) -> kube::Client {
        self.control.client(CLIENT)
    }

    /// Returns a client of the control plane as somebody else; users whose name begins with `system:` meet no faults.
    pub fn client_as(&self, user: &str) -> kube::Client {
        self.control.client(user)
    }

    pub fn control_plane(&self) -> &ApiServer {
        &self.control
    }

    /// Returns a member.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn member(&self, name: &str) -> &Member {
        &self.members[name]
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn savepoints(&self) -> &Savepoints {
        &self.savepoints
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the count of what the control plane has been asked for.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    fn start_member(&self, name: &str, seed: u64, options: &WorldOptions) -> Member {
        let api = server(name, seed, self.clock);
        install(&api, &crds::member());
        let fresh = api.save();
        let faults = self.faults.clone();
        let context = member::Context {
            cluster: ClusterName::new(name),
            scope: member::Scope::default(),
            seed,
            clock: member::Clock::starting_at(options.start),
            ledger: self.ledger.clone(),
            savepoints: self.savepoints.clone(),
            timings: options.timings.clone(),
            lag: Arc::new(move |cluster: &ClusterName, _: &str| {
                faults.lag_of(&format!("operators/{cluster}"))
            }),
        };
        let simulators = options
            .simulators
            .then(|| Mutex::new(member::spawn(api.client(ADMIN), context)));
        Member {
            name: name.to_owned(),
            api,
            fresh,
            simulators,
        }
    }

    fn join(&self, member: &Member) {
        create_namespace(&self.control, &meta::execution_namespace(&member.name));
        self.register(member);
    }

    /// Registers a member: its Cluster object, Ready.
    fn register(&self, member: &Member) {
        let id = member
            .api
            .get(&karmada::kinds::NAMESPACES, None, "kube-system")
            .map(|namespace| namespace["metadata"]["uid"].clone())
            .unwrap_or_default();
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": member.name, "finalizers": [meta::CLUSTER_FINALIZER]},
            "spec": {"id": id, "syncMode": "Push", "apiEndpoint": format!("https://{}.members.invalid", member.name)},
        });
        let writer = WriteOptions::manager("karmadactl");
        must(
            self.control
                .create(&karmada::kinds::CLUSTERS, None, cluster, &writer),
        );
        let status = json!({"status": karmada::cluster_status(&member.api, self.clock.now(), true)});
        let (name, status) = (member.name.as_str(), Patch::Merge(status));
        let (kind, part) = (&karmada::kinds::CLUSTERS, Some(Subresource::Status));
        must(self.control.patch(kind, None, name, part, &status, &writer));
    }

    fn serve_members(&self, options: &WorldOptions) {
        let members = self.member_servers();
        let proxy = ClusterProxy::new(
            members,
            self.faults.clone(),
            options.latencies.proxy,
            options.seed,
        );
        self.control
            .mount("cluster.karmada.io", "v1alpha1", Arc::new(proxy));
    }

    fn member_servers(&self) -> Arc<BTreeMap<String, ApiServer>> {
        Arc::new(
            self.members
                .iter()
                .map(|(name, member)| (name.clone(), member.api.clone()))
                .collect(),
        )
    }

    fn start_processes(&mut self, options: &WorldOptions) {
        let members = self.member_servers();
        let starts: [Process; 2] = [
            (CONTROLLER_MANAGER, karmada::start_controller_manager),
            (SCHEDULER, karmada::start_scheduler),
        ];
        for (process, start) in starts {
            let context = Context {
                control: self.control.clone(),
                members: Arc::clone(&members),
                clock: self.clock,
                faults: self.faults.clone(),
                seed: options.seed,
                latencies: options.latencies,
                features: options.features,
                process,
                tasks: Tasks::default(),
            };
            self.tasks.push(context.tasks.clone());
            karmada::begin(&context, start);
            let supervisor = Tasks::default();
            supervisor.spawn(karmada::supervise(context, start));
            self.tasks.push(supervisor);
        }
    }

    fn disturb(&self, options: &WorldOptions) {
        let disturbance = ServerFaults::new(
            self.faults.clone(),
            options.latencies.request,
            self.traffic.clone(),
        );
        self.control.disturb(Arc::new(disturbance));
    }

    /// Serves control plane and members over plain HTTP, and writes a kubeconfig for each into a folder. The control
    /// plane gets the address, members get ports of the system's choice on the same host.
    ///
    /// Callers are taken for administrators.
    pub async fn serve(&self, address: SocketAddr, folder: &Path) -> std::io::Result<Kubeconfigs> {
        let tasks = Tasks::default();
        let control = listen(&tasks, &self.control, address, &folder.join("karmada.kubeconfig")).await?;
        let mut members = BTreeMap::new();
        for member in self.members.values() {
            let path = folder.join(format!("{}.kubeconfig", member.name));
            let address = SocketAddr::new(address.ip(), 0);
            members.insert(
                member.name.clone(),
                listen(&tasks, &member.api, address, &path).await?,
            );
        }
        Ok(Kubeconfigs {
            control,
            members,
            tasks,
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for tasks in &self.tasks {
            tasks.stop();
        }
    }
}

/// What is served, and where its kubeconfigs are; dropped, it is no longer served.
#[derive(Debug)]
pub struct Kubeconfigs {
    pub control: PathBuf,
    pub members: BTreeMap<String, PathBuf>,
    tasks: Tasks,
}

impl Drop for Kubeconfigs {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

async fn listen(
    tasks: &Tasks,
    server: &ApiServer,
    address: SocketAddr,
    path: &Path,
) -> std::io::Result<PathBuf> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::fs::write(path, kubeconfig(server.name(), address)).await?;
    let server = server.clone();
    tasks.spawn(async move {
        if let Err(error) = server.serve(listener, ADMIN).await {
            tracing::error!(%error, "an API server of the sandbox is no longer served");
        }
    });
    Ok(path.to_owned())
}

fn kubeconfig(name: &str, address: SocketAddr) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    });
    format!("{config:#}\n")
}

/// Garbage collection and the deletion of namespaces: the chores of kube-controller-manager, until it is stopped.
async fn chores(server: ApiServer) {
    let task = AbortOnDrop(gc::spawn(server, CHORE_LAG));
    std::future::pending::<()>().await;
    drop(task);
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn server(name: &str, seed: u64, clock: Clock) -> ApiServer {
    ApiServer::new(Options {
        clock: clock.for_server(),
        ..Options::new(name, seed)
    })
}

fn install(server: &ApiServer, crds: &[Value]) {
    for crd in crds {
        must(server.install(crd));
    }
}

fn create_namespace(server: &ApiServer, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let writer = WriteOptions::manager("karmada-init");
    must(server.create(&karmada::kinds::NAMESPACES, None, namespace, &writer));
}

/// Reports a refusal that only a bug in the sandbox can cause: what is written here is the sandbox's own.
fn must<T>(result: Result<T, Status>) {
    if let Err(status) = result {
        debug_assert!(false, "the sandbox refuses its own beginning: {status}");
        tracing::error!(%status, "the sandbox refuses its own beginning");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_world_that_ends_leaves_nothing_behind() {
        let world = World::start(WorldOptions::default());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let control = world.control_plane().clone();
        let east = world.member("east").api.clone();
        drop(world);
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
        // The control plane serves its members.
        assert_eq!((control.holders(), east.holders()), (1, 2));
    }
}
