//! A member cluster: the copies of workloads in it, the pods that they run in, the nodes of those, and who reaches what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cutover_core::intent::member::{self, Pod};
use cutover_core::intent::{Read, Seen};
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;
use serde_json::{Value, json};

use crate::ledger::{By, Ledger, Origin};
use crate::plane::{generation, text};
use crate::{deployment, flink, ledger};

/// The node that pods run on, and one that they may go to.
pub const NODES: [&str; 2] = ["node-1", "node-2"];

/// Who acts on copies of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Flink,
    Deployment,
}

/// What is in one cluster of one workload.
#[derive(Clone, Debug)]
pub struct Copy {
    operator: Operator,
    name: String,
    pub object: Option<Arc<Value>>,
    pub pods: Arc<Vec<Pod>>,
    /// The object as the operator has read it, and whether it has acted on that.
    pub(crate) cached: Option<Arc<Value>>,
    pub(crate) acted: bool,
    /// What the operator has found out, and not written down yet.
    pub(crate) report: Option<Value>,
    /// The process that runs, and writes.
    pub(crate) process: Option<Process>,
    /// The version of the Work that it was brought to.
    applied: u64,
}

/// What runs in pods, whatever the API says of those.
#[derive(Clone, Debug)]
pub struct Process {
    pub copy: ledger::Copy,
    pub node: &'static str,
    /// What it was deployed with: it begins there again when it fails.
    pub deployed: Origin,
    /// It was told to end, and leaves this handle.
    pub ends: Option<Option<String>>,
}

/// What a look at a workload in a member cluster shows, before it is copied.
#[derive(Clone, Debug)]
pub struct Shown {
    object: Option<Arc<Value>>,
    pods: Arc<Vec<Pod>>,
    nodes: BTreeMap<&'static str, bool>,
    all_nodes: bool,
    is_seen: bool,
    refuses: bool,
}

impl Shown {
    /// Returns whether it shows the same. What is one and the same does; another one may.
    pub fn is(&self, other: &Self) -> bool {
        let is_same_object = match (&self.object, &other.object) {
            (Some(this), Some(that)) => Arc::ptr_eq(this, that),
            (this, that) => this.is_none() && that.is_none(),
        };
        is_same_object
            && Arc::ptr_eq(&self.pods, &other.pods)
            && self.nodes == other.nodes
            && (self.all_nodes, self.is_seen, self.refuses) == (other.all_nodes, other.is_seen, other.refuses)
    }
}

/// One member cluster.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: ClusterName,
    pub copies: Vec<Copy>,
    /// Whether cutover reaches it, through the proxy.
    pub is_seen: bool,
    /// Whether Karmada reaches it.
    pub is_steered: bool,
    /// Reads are answered, and refused.
    pub refuses: bool,
    /// Its operators stand still, with what they have read last.
    pub is_frozen: bool,
    /// Its operators can make no savepoint.
    pub falls_back: bool,
    /// No state handle can be read there: a job that is to start from one never comes up.
    pub reads_no_handle: bool,
    /// It doesn't exist any more, nor what ran in it.
    pub is_gone: bool,
    pub nodes: BTreeMap<&'static str, bool>,
    pub(crate) made: u32,
}

impl Member {
    pub fn new(name: &str) -> Self {
        Self {
            name: ClusterName::new(name),
            copies: Vec::new(),
            is_seen: true,
            is_steered: true,
            refuses: false,
            is_frozen: false,
            falls_back: false,
            reads_no_handle: false,
            is_gone: false,
            nodes: NODES.map(|node| (node, true)).into(),
            made: 0,
        }
    }

    pub fn add(&mut self, operator: Operator, name: &str) {
        self.copies.push(Copy {
            operator,
            name: name.to_owned(),
            object: None,
            pods: Arc::default(),
            cached: None,
            acted: true,
            report: None,
            process: None,
            applied: 0,
        });
    }

    /// Returns which copy of a workload is there.
    pub fn copy(&self, workload: usize) -> Option<ledger::Copy> {
        let uid = text(self.copies[workload].object.as_ref()?, "/metadata/uid")?;
        Some((self.name.clone(), uid.to_owned()))
    }

    /// Karmada writes the object as a Work has it: spec, labels and annotations are the Work's, everything else stays. One
    /// that Karmada hasn't made stays as it is, unless the Work says otherwise.
    pub fn apply(&mut self, workload: usize, version: u64, manifest: &Value) -> bool {
        if self.copies[workload].applied == version {
            return false;
        }
        let Some(object) = self.copies[workload].object.clone() else {
            self.made += 1;
            let mut object = manifest.clone();
            object["metadata"]["uid"] = format!("{}-{}", self.name, self.made).into();
            object["metadata"]["generation"] = 1.into();
            let copy = &mut self.copies[workload];
            copy.object = Some(Arc::new(object));
            copy.applied = version;
            return true;
        };
        let overwrites = manifest["metadata"]["annotations"][meta::CONFLICT_RESOLUTION] == "overwrite";
        if object["metadata"]["labels"][meta::MANAGED] != "true" && !overwrites {
            return false;
        }
        let copy = &mut self.copies[workload];
        copy.applied = version;
        let mut new = (*object).clone();
        if new["spec"] != manifest["spec"] {
            new["spec"] = manifest["spec"].clone();
            new["metadata"]["generation"] = (generation(&object) + 1).into();
        }
        for map in ["labels", "annotations"] {
            new["metadata"][map] = manifest["metadata"][map].clone();
        }
        let is_news = new != *object;
        if is_news {
            copy.object = Some(Arc::new(new));
        }
        is_news
    }

    /// Karmada lets go of the object, and leaves it there.
    pub fn let_go(&mut self, workload: usize) {
        let copy = &mut self.copies[workload];
        if let Some(object) = &mut copy.object {
            Arc::make_mut(object)["metadata"]["labels"] = json!({});
        }
        copy.applied = 0;
    }

    /// The object goes, and what it ran.
    pub fn delete(&mut self, workload: usize, ledger: &mut Ledger, by: By) {
        if let Some(copy) = self.copy(workload) {
            ledger.gone(&copy, by);
        }
        let copy = &mut self.copies[workload];
        copy.object = None;
        copy.pods = Arc::default();
        copy.process = None;
        copy.report = None;
        copy.applied = 0;
    }

    /// The operator reads the object: one that stands still has read what it will act on when it goes on.
    pub fn read(&mut self, workload: usize) -> bool {
        let frozen = self.is_frozen;
        let copy = &mut self.copies[workload];
        let is_same = match (&copy.cached, &copy.object) {
            (Some(cached), Some(object)) => Arc::ptr_eq(cached, object),
            (None, None) => true,
            _ => false,
        };
        if is_same || (frozen && !copy.acted) {
            return false;
        }
        copy.cached.clone_from(&copy.object);
        copy.acted = false;
        true
    }

    /// The operator acts on what it has read last.
    pub fn operate(&mut self, workload: usize, ledger: &mut Ledger) -> bool {
        if self.is_frozen || self.copies[workload].acted || self.copies[workload].report.is_some() {
            return false;
        }
        self.copies[workload].acted = true;
        let (Some(seen), Some(copy)) = (self.copies[workload].cached.clone(), self.copy(workload)) else {
            return false;
        };
        // Of an object that was made anew it knows nothing yet.
        if text(&seen, "/metadata/uid") != Some(&copy.1) {
            return false;
        }
        match self.copies[workload].operator {
            Operator::Flink => flink::operate(self, workload, &seen, &copy, ledger),
            Operator::Deployment => deployment::operate(self, workload, &seen),
        }
    }

    /// What the operator has found out shows in the object.
    pub fn report(&mut self, workload: usize) -> bool {
        if self.is_frozen {
            return false;
        }
        let copy = &mut self.copies[workload];
        let (Some(status), Some(object)) = (copy.report.take(), &mut copy.object) else {
            return false;
        };
        let is_news = object["status"] != status;
        if is_news {
            Arc::make_mut(object)["status"] = status;
        }
        is_news
    }

    /// Pods come up, and those that were told to end do so.
    pub fn kubelet(&mut self, workload: usize, ledger: &mut Ledger) -> bool {
        match self.copies[workload].operator {
            Operator::Flink => self.end_process(workload, ledger),
            Operator::Deployment => deployment::kubelet(self, workload),
        }
    }

    fn end_process(&mut self, workload: usize, ledger: &mut Ledger) -> bool {
        let copy = &mut self.copies[workload];
        let is_over = copy
            .process
            .as_ref()
            .is_some_and(|process| process.ends.is_some());
        // A node that isn't Ready ends nothing that it is told to end.
        let node = copy.process.as_ref().map(|process| process.node);
        if node.is_some_and(|node| self.nodes.get(node) == Some(&false)) {
            return false;
        }
        if let Some(process) = copy.process.take_if(|_| is_over) {
            ledger.end(&process.copy, process.ends.flatten().as_deref(), By::Tool);
            copy.pods = Arc::default();
        }
        is_over
    }

    /// The pods of a workload die, and come again.
    pub fn kill_pods(&mut self, workload: usize, ledger: &mut Ledger) {
        if self.copies[workload].operator == Operator::Deployment {
            deployment::kill_pods(self, workload);
            return;
        }
        let Some(process) = self.copies[workload].process.clone() else {
            return;
        };
        if process.ends.is_some() {
            return;
        }
        ledger.end(&process.copy, None, By::Itself);
        ledger.start(&process.copy, &process.deployed);
        let again = ledger.runs;
        let pods = Arc::make_mut(&mut self.copies[workload].pods);
        for pod in pods {
            pod.uid = format!("pod-{again}");
            pod.name = format!("pod-{again}");
        }
    }

    /// A node is lost, or found again: its pods are gone from the API meanwhile, and what they ran goes on.
    pub fn set_node(&mut self, node: &'static str, ready: bool) {
        self.nodes.insert(node, ready);
        if ready {
            return;
        }
        for copy in &mut self.copies {
            if copy.pods.iter().any(|pod| pod.node.as_deref() == Some(node)) {
                let stay = copy.pods.iter().filter(|pod| pod.node.as_deref() != Some(node));
                copy.pods = Arc::new(stay.cloned().collect());
            }
        }
    }

    /// The cluster is destroyed.
    pub fn destroy(&mut self, ledgers: &mut [Ledger]) {
        (self.is_seen, self.is_steered, self.is_gone) = (false, false, true);
        for (workload, ledger) in ledgers.iter_mut().enumerate().take(self.copies.len()) {
            self.delete(workload, ledger, By::Itself);
        }
    }

    /// The pods of a workload that are up.
    pub fn ready(&self, workload: usize) -> usize {
        self.copies[workload]
            .pods
            .iter()
            .filter(|pod| pod.is_ready)
            .count()
    }

    /// Returns what a read through the proxy gives.
    ///
    /// `all_nodes`: those that have a pod of the workload, too.
    pub fn see(&self, workload: usize, all_nodes: bool, read: &mut dyn FnMut() -> Read) -> member::Member {
        if let Some((why, silent)) = self.unseen() {
            return member::Member {
                object: Seen::unknown(&why),
                pods: Seen::unknown(&why),
                nodes: Seen::unknown(&why),
                ended: std::collections::BTreeSet::new(),
                unchanged: Duration::ZERO,
                silent,
            };
        }
        let copy = &self.copies[workload];
        let nodes = self.nodes.iter().map(|(node, ready)| (self.node(node), *ready));
        let has_pod = |node: &String| copy.pods.iter().any(|pod| pod.node.as_ref() == Some(node));
        let nodes = nodes.filter(|(node, _)| all_nodes || !has_pod(node));
        member::Member {
            object: Seen::known(copy.object.as_deref().cloned(), read()),
            pods: Seen::known((*copy.pods).clone(), read()),
            nodes: Seen::known(nodes.collect(), read()),
            ended: std::collections::BTreeSet::new(),
            unchanged: Duration::ZERO,
            silent: false,
        }
    }

    pub fn shown(&self, workload: usize, all_nodes: bool) -> Shown {
        let copy = &self.copies[workload];
        Shown {
            object: copy.object.clone(),
            pods: Arc::clone(&copy.pods),
            nodes: self.nodes.clone(),
            all_nodes,
            is_seen: self.is_seen,
            refuses: self.refuses,
        }
    }

    /// The same, where nothing of it has changed: it is read anew.
    pub fn see_again(known: &mut member::Member, read: &mut dyn FnMut() -> Read) {
        again(&mut known.object, read);
        again(&mut known.pods, read);
        again(&mut known.nodes, read);
    }

    /// Returns why nothing of it can be seen, and whether it gives no answer at all.
    pub fn unseen(&self) -> Option<(String, bool)> {
        if !self.is_seen {
            return Some((format!("{} gives no answer", self.name), true));
        }
        self.refuses
            .then(|| (format!("{}: 403 forbidden", self.name), false))
    }

    pub(crate) fn node(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    pub(crate) fn pod(&self, workload: usize, number: u32, node: &str) -> Pod {
        Pod {
            name: format!("{}-{number}", self.copies[workload].name),
            node: Some(self.node(node)),
            uid: format!("pod-{}-{number}", self.name),
            is_ready: true,
            began: true,
            restarts: 0,
            has_ended: false,
            labels: [("component".to_owned(), "jobmanager".to_owned())].into(),
            trouble: None,
        }
    }

    /// Returns the first node that is Ready.
    pub(crate) fn free_node(&self) -> Option<&'static str> {
        self.nodes
            .iter()
            .find(|(_, ready)| **ready)
            .map(|(node, _)| *node)
    }
}

fn again<T>(seen: &mut Seen<T>, next: &mut dyn FnMut() -> Read) {
    if let Seen::Known { read, .. } = seen {
        *read = next();
    }
}
