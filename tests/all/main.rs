//! One test binary: linking is what costs. A file a room; `support` holds what several of them share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stops;
mod support;

mod action;
mod admission;
mod apply;
mod architecture;
mod ask;
mod asks;
mod belt;
mod beside;
mod border;
mod canaries;
mod cli;
mod cluster;
mod cluster_scope;
mod commit_statuses;
mod crash;
mod differential;
mod drift;
#[cfg(feature = "sandbox")]
mod e2e;
mod entries;
mod evacuation;
mod events;
mod evicted;
mod failover;
mod faults;
mod fence;
mod fights;
#[cfg(feature = "sandbox")]
mod flood;
#[cfg(feature = "sandbox")]
mod forecasts;
mod forge;
mod forgotten;
mod gate;
mod generated;
#[cfg(feature = "sandbox")]
mod handover;
#[cfg(feature = "sandbox")]
mod hooks;
mod hostile;
mod kinds;
mod kubectl;
mod lease;
mod member;
mod metrics;
mod migration;
mod mishaps;
mod network;
mod notify;
mod orphans;
mod outage;
mod placement;
mod plan;
mod process;
mod prune;
mod publish;
mod published;
mod races;
mod rbac;
mod real_server;
mod rebalance;
mod repo;
mod retention;
#[cfg(feature = "sandbox")]
mod review;
mod rivals;
mod rollout;
mod rollout_policy;
mod sandbox_api;
mod sandbox_karmada;
mod secrets;
mod shift;
mod signing;
#[cfg(feature = "sandbox")]
mod status_branch;
mod suspension;
mod sync;
