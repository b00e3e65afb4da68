//! Karmada's behaviour in the sandbox, fact by fact as it was measured on a real control plane.

mod control;
mod members;
mod placement;
mod stage;
