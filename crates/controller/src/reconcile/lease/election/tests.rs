//! The rules one by one, and a model of many candidates, one Lease and a network that does what it likes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms::DEFAULT;
const SECOND: Duration = Duration::from_secs(1);
/// How long a history of the model goes on.
const LONG: Duration = Duration::from_mins(10);

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// A server that keeps one Lease.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    /// Writes by compare-and-swap.
    fn write(&mut self, mut lease: Lease) -> Option<Lease> {
        let known = self
            .lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        if lease.metadata.resource_version != known {
            return None;
        }
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease);
        self.lease.clone()
    }
}

fn claimed(election: &mut Election, server: &mut Server, now: Instant, wall: Timestamp) -> bool {
    let Next::Claim(lease) = election.next(now, wall) else {
        return false;
    };
    let written = server.write(*lease);
    let won = written.is_some();
    election.see(written.or_else(|| server.lease.clone()), now);
    won
}

fn spec(server: &Server) -> LeaseSpec {
    server.lease.clone().unwrap().spec.unwrap()
}

#[test]
fn who_reads_only_earlier_formats_does_not_lead_after_a_newer_version() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut one = Election::new("one".into(), TERMS);
    assert!(claimed(&mut one, &mut server, now, wall(0)));
    let lease = server.lease.as_mut().unwrap();
    let format = lease
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .get_mut(FORMAT)
        .unwrap();
    assert_eq!(*format, PLAIN_FORMAT.to_string());
    let newer = STATUS_FORMAT + 1;
    for (left, seen) in [(&*newer.to_string(), newer), ("of another kind", u32::MAX)] {
        let mut lease = server.lease.clone().unwrap();
        let annotations = lease.metadata.annotations.as_mut().unwrap();
        annotations.insert(FORMAT.to_owned(), left.to_owned());
        let lease = server.write(lease);
        for name in ["one", "other"] {
            let mut candidate = Election::new(name.into(), TERMS);
            candidate.see(lease.clone(), now);
            let expected = Next::Newer { format: seen };
            assert_eq!(candidate.next(now + LONG, wall(600)), expected, "{name}");
        }
    }
}

#[test]
fn a_lease_that_nobody_has_is_taken_and_one_that_somebody_has_is_waited_for() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut one = Election::new("one".into(), TERMS);
    let mut other = Election::new("other".into(), TERMS);
    assert!(claimed(&mut one, &mut server, now, wall(0)));
    other.see(server.lease.clone(), now);
    let expected = Next::Wait {
        holder: "one".into(),
        until: now + 15 * SECOND,
    };
    assert_eq!(other.next(now + 14 * SECOND, wall(14)), expected);

    // Its clock says that hours have passed: only what this candidate has seen by its own counts.
    assert_eq!(other.next(now + 14 * SECOND, wall(100_000)), expected);
    assert!(claimed(&mut one, &mut server, now + 5 * SECOND, wall(5)));
    other.see(server.lease.clone(), now + 6 * SECOND);
    assert!(matches!(
        other.next(now + 20 * SECOND, wall(20)),
        Next::Wait { .. }
    ));
    assert!(claimed(&mut other, &mut server, now + 21 * SECOND, wall(21)));
    assert!(!claimed(&mut one, &mut server, now + 21 * SECOND, wall(21)));
    let spec = spec(&server);
    assert_eq!(spec.holder_identity.as_deref(), Some("other"));
    assert_eq!(spec.lease_transitions, Some(1));
    assert_eq!(spec.acquire_time, Some(MicroTime(wall(21))));
}

#[test]
fn a_renewal_keeps_the_time_of_acquisition_and_is_seen_whatever_the_clock_does() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut one = Election::new("one".into(), TERMS);
    assert!(claimed(&mut one, &mut server, now, wall(0)));
    let first = spec(&server);
    assert!(claimed(&mut one, &mut server, now, wall(-3600)));
    let renewed = spec(&server);
    assert_eq!(renewed.acquire_time, first.acquire_time);
    assert!(renewed.renew_time > first.renew_time);
    assert_eq!(renewed.lease_transitions, Some(0));
}

#[test]
fn a_lease_that_was_given_back_is_free_at_once() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut one = Election::new("one".into(), TERMS);
    let mut other = Election::new("other".into(), TERMS);
    assert_eq!(one.release(wall(0)), None);
    assert!(claimed(&mut one, &mut server, now, wall(0)));
    assert!(server.write(one.release(wall(1)).unwrap()).is_some());
    other.see(server.lease.clone(), now);
    assert!(claimed(&mut other, &mut server, now, wall(1)));
}

#[test]
fn a_lease_that_is_deleted_is_respected_as_long_as_its_holder_may_not_know() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut one = Election::new("one".into(), TERMS);
    let mut other = Election::new("other".into(), TERMS);
    assert!(claimed(&mut one, &mut server, now, wall(0)));
    other.see(server.lease.clone(), now);
    server.lease = None;
    other.see(None, now + SECOND);
    one.see(None, now + SECOND);
    assert!(!one.is_mine());
    assert!(matches!(
        other.next(now + 14 * SECOND, wall(14)),
        Next::Wait { .. }
    ));
    let Next::Claim(lease) = other.next(now + 15 * SECOND, wall(15)) else {
        panic!("still waits");
    };
    // As the first one: of the deleted one it has neither version nor uid.
    let without_annotations = ObjectMeta {
        annotations: None,
        ..lease.metadata
    };
    assert_eq!(without_annotations, ObjectMeta::default());
}

#[test]
fn the_holder_says_how_long_it_needs() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut long = Election::new("long".into(), Terms::lasting(60 * SECOND).unwrap());
    let mut short = Election::new("short".into(), Terms::SHORTEST);
    assert!(claimed(&mut long, &mut server, now, wall(0)));
    short.see(server.lease.clone(), now);
    assert!(matches!(
        short.next(now + 59 * SECOND, wall(59)),
        Next::Wait { .. }
    ));
    assert!(matches!(short.next(now + 60 * SECOND, wall(60)), Next::Claim(_)));
}

#[test]
fn durations_that_make_no_sense_are_refused() {
    for (millis, sensible) in [
        (3000, true),
        (2000, false),
        (3500, false),
        (600_000, true),
        (601_000, false),
    ] {
        assert_eq!(
            Terms::lasting(Duration::from_millis(millis)).is_some(),
            sensible,
            "{millis}"
        );
    }
    // A renewal may fail, and be tried again, within the term of leadership.
    assert!(TERMS.renew_every() + TERMS.look_every() + TERMS.request() < TERMS.leadership());
}

/// A time of leading as a candidate believes in it: from the answer to when it stops writing.
#[derive(Debug)]
struct Reign {
    who: usize,
    from: Duration,
    until: Duration,
    /// It gave the Lease back, at its end or later, and knew that it did not lead any more before it said so.
    given_back: bool,
}

/// What is on its way from or to a candidate.
enum Mail {
    Look,
    Claim {
        lease: Lease,
        sent: Duration,
    },
    Release {
        lease: Lease,
    },
    Answer {
        lease: Option<Lease>,
        won: Option<Duration>,
    },
    Nothing,
}

struct Candidate {
    election: Election,
    reign: Option<usize>,
}

impl Candidate {
    /// Takes in what a claim came to, and ends the reign that is over.
    fn believe(&mut self, who: usize, now: Duration, won: Option<Duration>, reigns: &mut Vec<Reign>) {
        let lasts = won
            .map(|sent| sent + TERMS.leadership())
            .filter(|until| *until > now);
        match (lasts, self.reign) {
            (Some(until), None) => {
                self.reign = Some(reigns.len());
                reigns.push(Reign {
                    who,
                    from: now,
                    until,
                    given_back: false,
                });
            }
            (Some(until), Some(reign)) if reigns[reign].until > now => reigns[reign].until = until,
            _ => {}
        }
        if let Some(reign) = self.reign
            && (reigns[reign].until <= now || !self.election.is_mine())
        {
            reigns[reign].until = reigns[reign].until.min(now);
            self.reign = None;
        }
    }

    fn write(&mut self, now: Duration, next: Next, random: &mut fastrand::Rng, reigns: &mut [Reign]) -> Mail {
        let Next::Claim(lease) = next else {
            return Mail::Look;
        };
        if random.u8(0..4) == 0 {
            return Mail::Look;
        }
        if random.u8(0..12) == 0
            && let Some(reign) = self.reign.take()
        {
            let who = reigns[reign].who;
            reigns[reign].until = now;
            for own in reigns.iter_mut().filter(|own| own.who == who) {
                own.given_back = true;
            }
            let lease = self.election.release(wall(0)).unwrap();
            return Mail::Release { lease };
        }
        Mail::Claim {
            lease: *lease,
            sent: now,
        }
    }
}

impl Server {
    fn answer(&mut self, mail: Mail) -> Mail {
        let mut won = None;
        match mail {
            Mail::Claim { lease, sent } => won = self.write(lease).map(|_| sent),
            Mail::Release { lease } => drop(self.write(lease)),
            Mail::Look | Mail::Answer { .. } | Mail::Nothing => {}
        }
        let lease = self.lease.clone();
        Mail::Answer { lease, won }
    }
}

/// Plays a history: candidates ask, claim, renew and give back; each message takes as long as it likes, and may be lost
/// before or after it did something; a candidate may stop in its tracks, which is the same as an answer that comes late.
fn history(seed: u64, candidates: usize) -> Vec<Reign> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (start, mut server, mut reigns) = (Instant::now(), Server::default(), Vec::new());
    let mut all: Vec<Candidate> = (0..candidates)
        .map(|who| Candidate {
            election: Election::new(format!("candidate-{who}"), TERMS),
            reign: None,
        })
        .collect();
    // Who gets what, or whose it is at the server, in the order of time.
    let mut events: BTreeMap<(Duration, usize), (usize, bool, Mail)> = (0..candidates)
        .map(|who| ((Duration::ZERO, who), (who, false, Mail::Nothing)))
        .collect();
    for serial in candidates.. {
        let Some(((now, _), (who, at_server, mail))) = events.pop_first().filter(|((now, _), _)| *now < LONG)
        else {
            break;
        };
        let slowest = if random.u8(0..10) == 0 { 40_000 } else { 900 };
        let mut delay = Duration::from_millis(random.u64(0..slowest));
        let next = if at_server {
            server.answer(mail)
        } else {
            let candidate = &mut all[who];
            let mut won = None;
            if let Mail::Answer { lease, won: ours } = mail {
                candidate.election.see(lease, start + now);
                won = ours;
            }
            candidate.believe(who, now, won, &mut reigns);
            delay += Duration::from_millis(random.u64(0..2500));
            // Clocks of machines are hours apart.
            let wall = wall(i64::try_from(7200 * who + now.as_millis() as usize / 1000).unwrap());
            let next = candidate.election.next(start + now, wall);
            candidate.write(now, next, &mut random, &mut reigns)
        };
        let lost = random.u8(0..8) == 0;
        let event = if lost {
            (who, false, Mail::Nothing)
        } else {
            (who, !at_server, next)
        };
        events.insert((now + delay, serial), event);
    }
    reigns
}

fn assert_one_at_a_time(reigns: &[Reign]) {
    for (index, one) in reigns.iter().enumerate() {
        for other in reigns[index + 1..].iter().filter(|other| other.who != one.who) {
            let (first, second) = if one.from <= other.from {
                (one, other)
            } else {
                (other, one)
            };
            let margin = if first.given_back {
                Duration::ZERO
            } else {
                TERMS.duration().saturating_sub(TERMS.leadership())
            };
            assert!(first.until + margin <= second.from, "{first:#?} {second:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn two_never_lead_at_once(seed: u64, candidates in 2_usize..5) {
        assert_one_at_a_time(&history(seed, candidates));
    }
}

#[test]
fn one_that_lost_its_lease_and_won_it_again_can_give_it_back() {
    assert_one_at_a_time(&history(4_357_546_238_528_355_425, 3));
}

#[test]
fn the_model_has_many_changes_of_leader() {
    let all: Vec<Reign> = (0..40).flat_map(|seed| history(seed, 3)).collect();
    let given_back = all.iter().filter(|reign| reign.given_back).count();
    assert!(
        all.len() > 200 && given_back > 20,
        "{} reigns, {given_back} given back",
        all.len()
    );
}
