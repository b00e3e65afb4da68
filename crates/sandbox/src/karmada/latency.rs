//! How long things take, as measured on a real control plane: read the numbers as proportions.

use crate::faults::Span;

/// A client's limit of requests: so many at once, then so many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub per_second: u32,
}

/// One row a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A client's request, there and back.
    pub request: Span,
    /// The same through the cluster proxy.
    pub proxy: Span,
    /// From a write to the caches of the control plane's controllers.
    pub cache: Span,
    /// From a write to the override policies in the binding controller's cache.
    pub override_cache: Span,
    /// From a write in a member to the caches of Karmada.
    pub member_cache: Span,
    /// Template to binding.
    pub detect: Span,
    /// One binding in the scheduler.
    pub schedule: Span,
    /// What makes a scheduler with a backlog slow.
    pub scheduler_rate: Rate,
    /// From an override policy's event to the bindings that it touches.
    pub override_fan_out: Span,
    /// Computing one Work that turns out to be unchanged.
    pub compute: Span,
    /// Computing and writing one Work.
    pub write_work: Span,
    /// A Work into its member.
    pub apply: Span,
    /// A member object's status into its Work.
    pub reflect: Span,
    /// Works' status into binding and template.
    pub aggregate: Span,
    /// A look of the failover and eviction controllers at a binding.
    pub evict: Span,
    /// A Kubernetes event about something.
    pub event: Span,
}

impl Latencies {
    /// As on a real control plane with three members on two cores.
    pub const fn measured() -> Self {
        Self {
            request: Span::millis(2, 6),
            proxy: Span::millis(8, 24),
            cache: Span::millis(2, 8),
            override_cache: Span::millis(2, 15),
            member_cache: Span::millis(3, 20),
            detect: Span::millis(12, 45),
            schedule: Span::millis(8, 25),
            scheduler_rate: Rate {
                burst: 60,
                per_second: 40,
            },
            override_fan_out: Span::millis(15, 70),
            compute: Span::millis(1, 4),
            write_work: Span::millis(8, 45),
            apply: Span::millis(2, 70),
            reflect: Span::millis(5, 150),
            aggregate: Span::millis(5, 250),
            evict: Span::millis(5, 60),
            event: Span::millis(300, 900),
        }
    }

    /// As fast as can be without losing the order of stages: for tests that are not about races.
    pub const fn fast() -> Self {
        const STEP: Span = Span::millis(1, 1);
        Self {
            request: Span::NONE,
            proxy: Span::NONE,
            cache: STEP,
            override_cache: STEP,
            member_cache: STEP,
            detect: STEP,
            schedule: STEP,
            scheduler_rate: Rate {
                burst: 10_000,
                per_second: 10_000,
            },
            override_fan_out: STEP,
            compute: Span::NONE,
            write_work: STEP,
            apply: STEP,
            reflect: STEP,
            aggregate: STEP,
            evict: STEP,
            event: STEP,
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::measured()
    }
}
