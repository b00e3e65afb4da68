//! Karmada's behaviour in the sandbox, fact by fact as it was measured on a real control plane.

mod bindings;
mod members;
mod pins;
mod placement;
mod scheduling;
mod stage;
