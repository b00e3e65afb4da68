//! The controller of Deployments in a member: it brings pods to the number that the spec asks for. What is available is counted
//! by the pods, and shows in the status a moment later.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::member::Member;
use crate::plane::generation;

/// Takes note of a spec: the pods come and go by the kubelet.
pub fn operate(member: &mut Member, workload: usize, seen: &Value) -> bool {
    let status = status(member, workload, seen);
    let copy = &mut member.copies[workload];
    let is_news = copy
        .object
        .as_ref()
        .is_some_and(|object| object["status"] != status);
    if is_news {
        copy.report = Some(status);
    }
    is_news
}

fn status(member: &Member, workload: usize, seen: &Value) -> Value {
    let there = member.copies[workload].pods.len();
    let ready = member.ready(workload);
    json!({
        "observedGeneration": generation(seen), "replicas": there, "updatedReplicas": there, "availableReplicas": ready,
    })
}

/// Pods come up to the number that the controller knows of, and go down to it.
#[allow(clippy::comparison_chain, reason = "a pod comes, or a pod goes")]
pub fn kubelet(member: &mut Member, workload: usize) -> bool {
    if member.is_frozen {
        return false;
    }
    let copy = &member.copies[workload];
    let cached = copy.cached.as_ref().filter(|_| copy.object.is_some());
    let wanted = cached.map_or(0, |object| object["spec"]["replicas"].as_u64().unwrap_or(1));
    let wanted = usize::try_from(wanted).unwrap_or_default();
    let mut pods = (*copy.pods).clone();
    let before = pods.len();
    if before < wanted {
        let Some(node) = member.free_node() else {
            return false;
        };
        member.made += 1;
        pods.push(member.pod(workload, member.made, node));
    } else if before > wanted {
        // Whichever goes: the first.
        pods.remove(0);
    } else {
        return false;
    }
    let copy = &mut member.copies[workload];
    copy.pods = Arc::new(pods);
    // Its controller counts again.
    copy.acted = false;
    true
}

/// All pods die: others come in their place.
pub fn kill_pods(member: &mut Member, workload: usize) {
    let copy = &mut member.copies[workload];
    copy.pods = Arc::default();
    copy.acted = false;
}
