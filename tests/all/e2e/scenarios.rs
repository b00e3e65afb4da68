//! What is played: each scenario is one workload (or a few), an intent about it, and what happens to both.

mod beside;
mod evacuation;
mod failover;
mod migration;
mod rollout;
mod rollout_policy;
mod shift;
mod suspension;

use futures::future::LocalBoxFuture;

use super::act::Act;
use super::server::{
    EVACUATIONS, MIGRATIONS, PLANS, ROLLOUT_POLICIES, ROLLOUTS, Resource, SHIFTS, SUSPENSIONS,
};

/// A name, which the workload has too, the kind of its intent, and what is played.
pub struct Scenario {
    pub name: &'static str,
    pub asks: Resource,
    pub play: fn(Act) -> LocalBoxFuture<'static, ()>,
}

macro_rules! scenarios {
    ($($name:literal: $asks:ident, $kind:ident::$play:ident;)*) => {
        pub const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: $name,
            asks: $asks,
            play: |act| Box::pin($kind::$play(act)),
        },)*];
    };
}

scenarios! {
    // The first: all that runs in the cluster leaves it.
    "tainted": EVACUATIONS, evacuation::a_tainted_cluster_is_evacuated_before_karmada_evicts;
    "plain-move": MIGRATIONS, migration::moves_with_its_state;
    "with-policy": MIGRATIONS, migration::the_policy_of_the_same_push_names_the_target_alone;
    "policy-edit": MIGRATIONS, migration::an_edit_of_the_policy_moves_the_job_and_its_revert_moves_it_back;
    "requested": MIGRATIONS, migration::the_template_in_git_asks_by_an_annotation;
    "requested-live": MIGRATIONS, migration::the_live_template_asks_by_an_annotation;
    "broken-image": MIGRATIONS, migration::an_image_that_cannot_start_goes_back;
    "abort": MIGRATIONS, migration::an_abort_gives_the_source_its_job_back;
    "start-first": MIGRATIONS, migration::a_deployment_runs_in_both_before_it_leaves_one;
    "pin-edited": MIGRATIONS, migration::a_pin_that_somebody_edits_is_put_right;
    "pin-deleted": MIGRATIONS, migration::a_pin_that_somebody_deletes_is_there_again;
    "late-scheduler": MIGRATIONS, migration::the_scheduler_overwrites_the_clusters_behind_a_backlog;
    "resumed": MIGRATIONS, migration::somebody_resumes_scheduling_in_the_middle;
    "no-dispatch": MIGRATIONS, migration::dispatching_is_suspended_before_and_in_the_middle;
    "killed": MIGRATIONS, migration::killed_in_every_phase_it_goes_on;
    "beside-flux": MIGRATIONS, beside::flux_changes_the_template_until_its_kustomization_is_suspended;
    "beside-argo": MIGRATIONS, beside::argo_cd_is_told_to_skip_what_is_moved;
    "failover": PLANS, failover::karmada_evicts_a_guarded_job_which_goes_on_with_its_state;
    "sent-on": PLANS, failover::a_failover_whose_target_is_lost_is_sent_on;
    "purge": PLANS, failover::an_old_copy_that_is_kept_goes_when_a_person_says_so;
    "evacuation": EVACUATIONS, evacuation::three_jobs_leave_a_cluster;
    "evicted": EVACUATIONS, evacuation::what_runs_in_two_clusters_leaves_one;
    "shift": SHIFTS, shift::replicas_go_over_and_never_become_fewer;
    "rollout": ROLLOUTS, rollout::a_wave_that_fails_is_undone;
    "rollout-policy": ROLLOUT_POLICIES, rollout_policy::changes_of_what_it_selects_go_in_waves_one_workload_at_a_time;
    "suspension": SUSPENSIONS, suspension::no_change_reaches_a_suspended_cluster;
    "pinned": SUSPENSIONS, suspension::one_workload_of_a_shared_policy_is_kept_by_a_pin;
}

const IMAGE: &str = "registry.k8s.io/pause:3.9";
/// No registry has it, and the simulators can't pull it.
const BROKEN: &str = "registry.invalid/job:2.0.0-broken";

/// The phases of a kind in which an intent that is to succeed would rest for ever.
const DEAD_ENDS: &[&str] = &["Failed", "RolledBack", "Aborted", "Halted", "Undone"];
