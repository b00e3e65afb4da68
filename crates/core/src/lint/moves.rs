//! Intents that move many workloads: what can be told of them from the files alone.

use crate::api::{self, EvacuationSpec, RebalanceSpec};
use crate::finding::{Code, Finding};
use crate::intent::moves::{Chosen, MoveStrategy, taint_key};
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::did_you_mean;
use cutover_karmada::{Placement, Taint};

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    for evacuation in set.of_kind(api::GROUP, EvacuationSpec::KIND) {
        let Some(spec) = aim::<EvacuationSpec>(evacuation, set, findings) else {
            continue;
        };
        if spec.cordon {
            tolerated(evacuation, set, findings);
        }
        in_vain(evacuation, &spec, findings);
    }
    for rebalance in set.of_kind(api::GROUP, RebalanceSpec::KIND) {
        aim::<RebalanceSpec>(rebalance, set, findings);
    }
}

/// Says what is wrong with the spec itself; the machine would say the same. One that can't be read the schema has told of.
fn aim<A: MoveStrategy>(intent: &Manifest, set: &Set, findings: &mut Vec<Finding>) -> Option<A> {
    let spec: A = serde_json::from_value(intent.value.get("spec")?.clone()).ok()?;
    let mut wrong = spec.refused();
    wrong.extend(Chosen::of(spec.moves()).err().unwrap_or_default());
    for finding in wrong {
        let at = intent.location("/spec");
        let message = format!("{}: {}", intent.key, finding.message);
        findings.push(Finding::new(Code::BadMoves, at, message).maybe_hint(finding.hint));
    }
    let kinds: Vec<&str> = set.definitions().map(|object| object.key.kind.as_str()).collect();
    for (index, kind) in spec.moves().select.kinds.iter().enumerate() {
        let name = kind.split_once('.').map_or(kind.as_str(), |(kind, _)| kind);
        if !kinds.contains(&name) {
            let at = intent.location(&format!("/spec/select/kinds/{index}"));
            let message = format!(
                "no file defines an object of kind {kind}, which {} selects",
                intent.key
            );
            let hint = did_you_mean(name, kinds.iter().copied());
            findings.push(Finding::new(Code::UnknownKind, at, message).maybe_hint(hint));
        }
    }
    Some(spec)
}

/// What is said beside something that makes it say nothing.
fn in_vain(evacuation: &Manifest, spec: &EvacuationSpec, findings: &mut Vec<Finding>) {
    if spec.keep_cordoned && !spec.cordon {
        let at = evacuation.location("/spec/keepCordoned");
        let message = format!("{} keeps a cordon that it doesn't put up", evacuation.key);
        findings.push(
            Finding::new(Code::InVain, at, message).hint("leave spec.cordon out, or spec.keepCordoned"),
        );
    }
    let to = &spec.moves.to.clusters;
    let own = spec.cluster.as_ref().filter(|_| to.len() > 1);
    if let Some(index) = own.and_then(|own| to.iter().position(|cluster| cluster == own)) {
        let at = evacuation.location(&format!("/spec/to/clusters/{index}"));
        let message = format!("{} empties {}: nothing is moved there", evacuation.key, to[index]);
        findings.push(Finding::new(Code::InVain, at, message).hint("take it off the list"));
    }
}

/// A policy that tolerates the cordon puts new work where the evacuation takes it away.
fn tolerated(evacuation: &Manifest, set: &Set, findings: &mut Vec<Finding>) {
    let cordon = Taint {
        key: taint_key(&evacuation.key.name),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let policies = ["PropagationPolicy", "ClusterPropagationPolicy"];
    for policy in policies
        .into_iter()
        .flat_map(|kind| set.of_kind("policy.karmada.io", kind))
    {
        let placement = policy
            .value
            .pointer("/spec/placement")
            .cloned()
            .unwrap_or_default();
        let Ok(placement) = serde_json::from_value::<Placement>(placement) else {
            continue;
        };
        let mut tolerations = placement.cluster_tolerations.iter().enumerate();
        if let Some((index, _)) = tolerations.find(|(_, toleration)| toleration.tolerates(&cordon)) {
            let at = policy.location(&format!("/spec/placement/clusterTolerations/{index}"));
            let message = format!(
                "{} tolerates the taint with which {} keeps new work off its cluster",
                policy.key, evacuation.key
            );
            let hint = "name the taints that are to be tolerated by their keys";
            findings.push(Finding::new(Code::ToleratesCordon, at, message).hint(hint));
        }
    }
}
