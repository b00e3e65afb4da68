//! Karmada's behaviour in the sandbox, fact by fact as it was measured on a real control plane.

mod behind;
mod bindings;
mod losses;
mod members;
mod pins;
mod placement;
mod scheduling;
mod stage;
