//! What comes between: done by people, by Karmada, by what breaks.

use cutover_core::api::MARKER_ANNOTATION;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverrideRule, PurgeMode};
use serde_json::json;

use crate::Sim;
use crate::karmada;
use crate::ledger::By;
use crate::plane::Stored;

/// One thing that comes between, about the first workload and the first intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nobody reaches a cluster; what runs in it goes on.
    CutOff(&'static str),
    AllCutOff,
    /// Karmada doesn't reach a cluster, and cutover does.
    NotSteered(&'static str),
    /// Reads of a cluster are refused.
    Refused(&'static str),
    /// A cluster is destroyed, and everything in it.
    Gone(&'static str),
    /// The same, and somebody takes it out of the binding.
    GoneAndDropped(&'static str),
    /// The same, and somebody unjoins it.
    GoneAndUnjoined(&'static str),
    NodeLost(&'static str),
    OperatorFrozen(&'static str),
    FallsBack(&'static str),
    PodsDie(&'static str),
    CopyDeleted(&'static str),
    WorkDeleted(&'static str),
    ControllersReplaced,
    SchedulerReplaced,
    /// Somebody lets the scheduler have the workload.
    SchedulingResumed,
    /// The same, and it keeps one of the clusters.
    SchedulerKeeps(&'static str),
    Evicted(&'static str, PurgeMode),
    PinEdited,
    /// The rules of the pin go but for the marker: whoever did it wanted the workload to run.
    PinLoosened,
    PinDeleted,
    ClaimDeleted,
    TemplateEdited,
    GitDown,
    ApiServerDown,
    Aborted,
    Deleted,
    Paused,
    /// The controller is killed, and another replica takes over.
    Killed,
}

impl Event {
    /// Returns all of them, about clusters by these names.
    pub fn all(clusters: &[&'static str]) -> Vec<Self> {
        let mut all = vec![
            Self::AllCutOff,
            Self::ControllersReplaced,
            Self::SchedulerReplaced,
            Self::SchedulingResumed,
            Self::PinEdited,
            Self::PinDeleted,
            Self::ClaimDeleted,
            Self::TemplateEdited,
            Self::GitDown,
            Self::ApiServerDown,
            Self::Aborted,
            Self::Deleted,
            Self::Paused,
            Self::Killed,
        ];
        for cluster in clusters {
            all.extend([
                Self::CutOff(cluster),
                Self::NotSteered(cluster),
                Self::Refused(cluster),
                Self::Gone(cluster),
                Self::NodeLost(cluster),
                Self::OperatorFrozen(cluster),
                Self::FallsBack(cluster),
                Self::PodsDie(cluster),
                Self::CopyDeleted(cluster),
                Self::WorkDeleted(cluster),
                Self::SchedulerKeeps(cluster),
                Self::Evicted(cluster, PurgeMode::Gracefully),
                Self::Evicted(cluster, PurgeMode::Directly),
                Self::Evicted(cluster, PurgeMode::Never),
            ]);
        }
        all
    }

    /// Returns what is done about clusters that are destroyed.
    pub fn of_lost(clusters: &[&'static str]) -> Vec<Self> {
        let each = |cluster: &&'static str| [Self::GoneAndDropped(cluster), Self::GoneAndUnjoined(cluster)];
        clusters.iter().flat_map(each).collect()
    }

    /// Returns whether somebody took away what keeps others from writing, or the state itself.
    pub const fn is_hostile(self) -> bool {
        matches!(
            self,
            Self::PinEdited
                | Self::PinLoosened
                | Self::PinDeleted
                | Self::CopyDeleted(_)
                | Self::PodsDie(_)
                | Self::Gone(_)
                | Self::GoneAndDropped(_)
                | Self::GoneAndUnjoined(_)
        )
    }

    /// Returns whether it is never over.
    pub const fn is_for_good(self) -> bool {
        matches!(
            self,
            Self::Gone(_) | Self::GoneAndDropped(_) | Self::GoneAndUnjoined(_)
        )
    }

    pub fn happens(self, sim: &mut Sim) {
        sim.tell(|| format!("*** {self:?}"));
        match self {
            Self::CutOff(name) => reach(sim, name, (false, false)),
            Self::NotSteered(name) => reach(sim, name, (true, false)),
            Self::AllCutOff => {
                let names: Vec<ClusterName> = sim.members.iter().map(|member| member.name.clone()).collect();
                for name in names {
                    reach(sim, name.as_str(), (false, false));
                }
            }
            Self::Refused(name) => on(sim, name, |member| member.refuses = true),
            Self::OperatorFrozen(name) => on(sim, name, |member| member.is_frozen = true),
            Self::FallsBack(name) => on(sim, name, |member| member.falls_back = true),
            Self::NodeLost(name) => {
                sim.pods_were_lost = true;
                on(sim, name, |member| {
                    member.set_node(crate::member::NODES[0], false);
                });
            }
            Self::Gone(name) => gone(sim, name),
            Self::GoneAndDropped(name) => {
                gone(sim, name);
                drop_from_binding(sim, name);
            }
            Self::GoneAndUnjoined(name) => {
                gone(sim, name);
                sim.plane.unjoin(&ClusterName::new(name));
            }
            Self::PodsDie(_) | Self::CopyDeleted(_) | Self::WorkDeleted(_) => self.hits_copy(sim),
            Self::ControllersReplaced => sim.replace_controllers(),
            Self::SchedulerReplaced => sim.replace_scheduler(),
            Self::SchedulingResumed => {
                sim.pods_were_lost = true;
                resume_scheduling(sim);
            }
            Self::SchedulerKeeps(name) => {
                sim.pods_were_lost = true;
                sim.scheduler.keeps_last = sim.members.last().is_some_and(|last| last.name.as_str() == name);
                resume_scheduling(sim);
                sim.settle();
            }
            Self::Evicted(name, purge) => {
                sim.pods_were_lost = true;
                karmada::evict(&mut sim.plane, 0, &ClusterName::new(name), purge);
                sim.listed_by[0] = By::Others;
            }
            Self::PinEdited | Self::PinLoosened | Self::PinDeleted | Self::ClaimDeleted => {
                self.hits_custody(sim);
            }
            Self::TemplateEdited => edit_template(sim),
            Self::GitDown => sim.plane.git.is_down = true,
            Self::ApiServerDown => sim.plane.is_down = true,
            Self::Aborted => sim.actors[0].abort(),
            Self::Deleted => sim.actors[0].delete(),
            Self::Paused => sim.actors[0].pause(true),
            Self::Killed => sim.die(),
        }
    }

    fn hits_copy(self, sim: &mut Sim) {
        sim.pods_were_lost = true;
        match self {
            Self::PodsDie(name) => {
                if let Some(place) = place(sim, name) {
                    sim.members[place].kill_pods(0, &mut sim.ledgers[0]);
                }
            }
            Self::CopyDeleted(name) => {
                if let Some(place) = place(sim, name) {
                    sim.members[place].delete(0, &mut sim.ledgers[0], By::Others);
                }
            }
            Self::WorkDeleted(name) => {
                let name = ClusterName::new(name);
                if let Some(work) = sim.plane.workloads[0].works.get(&name).cloned() {
                    let mut work = (**work).clone();
                    work.metadata.deletion_timestamp =
                        serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
                    sim.plane.put_work(0, &name, work);
                    sim.listed_by[0] = By::Others;
                }
            }
            _ => {}
        }
    }

    fn hits_custody(self, sim: &mut Sim) {
        let version = sim.plane.next_version();
        let workload = sim.plane.workload_mut(0);
        match self {
            Self::ClaimDeleted => workload.claim = None,
            Self::PinDeleted => workload.pin = None,
            _ => {
                if let Some(pin) = &workload.pin {
                    let mut edited = (***pin).clone();
                    edited
                        .spec
                        .override_rules
                        .retain(|rule| self == Self::PinLoosened && carries_the_marker(rule));
                    edited.metadata.resource_version = Some(version.to_string());
                    workload.pin = Some(Stored::new(version, edited));
                }
            }
        }
    }

    /// What lasts is over.
    pub fn is_over(self, sim: &mut Sim) {
        let names: Vec<ClusterName> = sim.members.iter().map(|member| member.name.clone()).collect();
        for name in names {
            let is_gone = sim
                .members
                .iter()
                .any(|member| member.name == name && member.is_gone);
            if is_gone {
                continue;
            }
            reach(sim, name.as_str(), (true, true));
            on(sim, name.as_str(), |member| {
                (member.refuses, member.is_frozen, member.falls_back) = (false, false, false);
                member.set_node(crate::member::NODES[0], true);
            });
        }
        (sim.plane.git.is_down, sim.plane.is_down) = (false, false);
        if self == Self::Paused {
            sim.actors[0].pause(false);
        }
        sim.tell(|| format!("*** {self:?} is over"));
    }
}

fn place(sim: &Sim, name: &str) -> Option<usize> {
    sim.members.iter().position(|member| member.name.as_str() == name)
}

fn on(sim: &mut Sim, name: &str, change: impl FnOnce(&mut crate::member::Member)) {
    if let Some(member) = sim.member(name) {
        change(member);
    }
}

fn reach(sim: &mut Sim, name: &str, (seen, steered): (bool, bool)) {
    on(sim, name, |member| {
        (member.is_seen, member.is_steered) = (seen, steered);
    });
    sim.plane.set_ready(&ClusterName::new(name), steered);
}

fn gone(sim: &mut Sim, name: &str) {
    sim.pods_were_lost = true;
    sim.plane.set_ready(&ClusterName::new(name), false);
    if let Some(place) = place(sim, name) {
        sim.members[place].destroy(&mut sim.ledgers);
    }
}

fn carries_the_marker(rule: &OverrideRule) -> bool {
    serde_json::to_string(rule).is_ok_and(|rule| rule.contains(MARKER_ANNOTATION))
}

fn drop_from_binding(sim: &mut Sim, name: &str) {
    let Some(binding) = sim.plane.workloads[0].binding.clone() else {
        return;
    };
    let mut json = binding.json.clone();
    if let Some(clusters) = json["spec"]["clusters"].as_array_mut() {
        clusters.retain(|cluster| cluster["name"] != name);
    }
    sim.plane.put_binding(0, json);
    sim.listed_by[0] = By::Others;
}

fn resume_scheduling(sim: &mut Sim) {
    let binding = sim.plane.workloads[0].binding.clone();
    if let Some(binding) = binding {
        let mut json = binding.json.clone();
        json["spec"]["suspension"]["scheduling"] = false.into();
        sim.plane.put_binding(0, json);
    }
}

/// Git wants another template; where nobody rolls it out, it is applied.
fn edit_template(sim: &mut Sim) {
    let Some(live) = sim.plane.workloads[0].template.clone() else {
        return;
    };
    let mut edited = (**live).clone();
    edited["spec"]["edited"] = json!(live.version);
    let hash = format!("edited-{}", live.version);
    let is_rolled_out = sim
        .actors
        .iter()
        .any(|actor| actor.kind() == "Rollout" && actor.workload() == 0);
    if is_rolled_out {
        sim.wants(0, &hash, edited);
    } else {
        sim.plane.put_template(0, edited);
    }
}
