//! Who leads, decided from what is seen of one Lease. No I/O and no clock: times are handed in.
//!
//! A Lease that somebody holds is respected until nothing of it has changed for as long as its holder said, counted from
//! when *this* process saw it as it is: no clock is compared with another machine's. Its holder counts from before it sent
//! its last renewal, and stops writing a margin earlier. So two never write at once, as long as their clocks don't differ
//! in speed by more than that margin.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use cutover_core::api::{PLAIN_FORMAT, STATUS_FORMAT};

/// Annotation of the Lease: the format that whoever leads after its holder has to read, because everything is written in it. A status
/// or a claim that asks for a newer one says so itself, and is left alone for its own.
pub(super) const FORMAT: &str = "cutover.dev/format";

/// How long a lease lasts, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    seconds: u32,
}

impl Terms {
    pub const DEFAULT: Self = Self { seconds: 15 };
    pub const SHORTEST: Self = Self { seconds: 3 };
    pub const LONGEST: Self = Self { seconds: 600 };

    /// Returns terms with a lease of whole seconds; `None` for one that is too short or too long to make sense.
    pub fn lasting(duration: Duration) -> Option<Self> {
        let seconds = u32::try_from(duration.as_secs()).ok()?;
        let sensible = (Self::SHORTEST.seconds..=Self::LONGEST.seconds).contains(&seconds);
        (sensible && duration.subsec_nanos() == 0).then_some(Self { seconds })
    }

    /// How long the lease must be left unchanged before others may take it.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// How long its holder writes after it sent its last renewal: what is left of the duration is the margin.
    pub fn leadership(self) -> Duration {
        self.duration() * 2 / 3
    }

    pub fn renew_every(self) -> Duration {
        self.duration() / 3
    }

    /// How often those who wait look, and how soon a renewal that failed is tried again.
    pub fn look_every(self) -> Duration {
        self.duration() / 10
    }

    /// How long one request may take.
    pub fn request(self) -> Duration {
        self.duration() / 5
    }
}

/// What one candidate knows.
#[derive(Clone, Debug)]
pub(super) struct Election {
    me: String,
    terms: Terms,
    seen: Option<Sighting>,
}

/// A Lease as it was seen.
#[derive(Clone, Debug)]
struct Sighting {
    lease: Lease,
    /// From when on it is known to be as it is.
    since: Instant,
    /// It has been deleted; its holder may not know that yet.
    is_gone: bool,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// To write this: instead of exactly the one whose `resourceVersion` it has, or as the first one.
    Claim(Box<Lease>),
    /// Somebody else leads, and may until then.
    Wait { holder: String, until: Instant },
    /// A newer version has led, and may have left what this one can't read: it doesn't lead, whoever does.
    Newer { format: u32 },
}

impl Election {
    pub(super) const fn new(me: String, terms: Terms) -> Self {
        Self {
            me,
            terms,
            seen: None,
        }
    }

    /// Takes in an answer, with a time after it came.
    pub(super) fn see(&mut self, lease: Option<Lease>, now: Instant) {
        match (lease, &mut self.seen) {
            (Some(lease), Some(seen)) if !seen.is_gone && version(&lease) == version(&seen.lease) => {}
            (Some(lease), _) => {
                self.seen = Some(Sighting {
                    lease,
                    since: now,
                    is_gone: false,
                });
            }
            (None, Some(seen)) => seen.is_gone = true,
            (None, None) => {}
        }
    }

    /// Returns whether the Lease, as it was seen last, is this candidate's.
    pub(super) fn is_mine(&self) -> bool {
        self.seen
            .as_ref()
            .is_some_and(|seen| !seen.is_gone && holder(&seen.lease) == self.me)
    }

    /// Returns who had the Lease when it was seen last; nothing when nobody had.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
    }

    pub(super) fn next(&self, now: Instant, wall: Timestamp) -> Next {
        if let Some(format) = self.format_seen().filter(|format| *format > STATUS_FORMAT) {
            return Next::Newer { format };
        }
        if let Some(seen) = &self.seen {
            let (holder, until) = (self.holder(), seen.since + self.promised(&seen.lease));
            if !holder.is_empty() && holder != self.me && now < until {
                return Next::Wait {
                    holder: holder.to_owned(),
                    until,
                };
            }
        }
        Next::Claim(Box::new(self.claim(wall)))
    }

    /// Returns the format in which an earlier leader has written everything; nothing where the Lease doesn't say it.
    fn format_seen(&self) -> Option<u32> {
        let seen = self.seen.as_ref().filter(|seen| !seen.is_gone)?;
        let format = seen.lease.metadata.annotations.as_ref()?.get(FORMAT)?;
        // What can't be read is no format of this program's.
        Some(format.parse().unwrap_or(u32::MAX))
    }

    /// Returns what gives the Lease back; nothing when it isn't this candidate's.
    pub(super) fn release(&self, wall: Timestamp) -> Option<Lease> {
        let mut lease = self.seen.as_ref().filter(|_| self.is_mine())?.lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(after(spec, wall));
        Some(lease)
    }

    fn claim(&self, wall: Timestamp) -> Lease {
        let seen = self.seen.as_ref();
        let before = seen.and_then(|seen| seen.lease.spec.clone()).unwrap_or_default();
        let renews = self.is_mine();
        let transitions = before.lease_transitions.unwrap_or(0);
        let now = after(&before, wall);
        let mut metadata = match seen {
            Some(seen) if !seen.is_gone => seen.lease.metadata.clone(),
            _ => ObjectMeta::default(),
        };
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(FORMAT.to_owned(), PLAIN_FORMAT.to_string());
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.clone()),
                lease_duration_seconds: i32::try_from(self.terms.seconds).ok(),
                acquire_time: before.acquire_time.filter(|_| renews).or(Some(now.clone())),
                lease_transitions: Some(match seen {
                    Some(_) if !renews => transitions.saturating_add(1),
                    _ => transitions,
                }),
                renew_time: Some(now),
                ..before
            }),
        }
    }

    /// How long the holder may think that it leads without having told anybody.
    fn promised(&self, lease: &Lease) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.terms.duration(), Duration::from_secs)
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

fn version(lease: &Lease) -> (Option<&str>, Option<&str>) {
    let meta = &lease.metadata;
    (meta.uid.as_deref(), meta.resource_version.as_deref())
}

/// A renewal always changes the Lease, even on a machine whose clock stands still or was set back: otherwise the server
/// would write nothing, and those who wait would see no renewal.
fn after(spec: &LeaseSpec, wall: Timestamp) -> MicroTime {
    let step = jiff::SignedDuration::from_micros(1);
    let least = spec
        .renew_time
        .as_ref()
        .and_then(|last| last.0.checked_add(step).ok());
    MicroTime(least.map_or(wall, |least| least.max(wall)))
}

#[cfg(test)]
mod tests;
