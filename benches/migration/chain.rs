//! From the news that an effect needed to the effect, read from a trace of one migration alone.
//!
//! A look (a pass of the worker) that ends in a rest did not have what the next effect needed. So that came at the earliest
//! with the first watch event after the last such look began, or with the answer to the effect before it: the delay counts
//! from there, and is never less than it was. Where no event came in between, it counts from the end of the rest, and the
//! effect counts as unannounced: a timer began it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cutover::reconcile::intents::Side;
use serde::Serialize;

use super::controller::{Entry, What};

/// A worker that does nothing for longer than this rests.
const REST: Duration = Duration::from_millis(5);

/// The same event is written down here and wakes the worker in either order.
const SAME: Duration = Duration::from_millis(1);

/// What one migration cost.
#[derive(Debug, Serialize)]
pub struct Cost {
    pub name: String,
    pub whole_ms: f64,
    /// From news to effect, summed over the effects.
    pub delay_ms: f64,
    /// The part of that in which an answer of the API server was waited for.
    pub api_ms: f64,
    /// From the last answer that an effect's decision can have needed to the effect, summed over the effects.
    pub decision_ms: f64,
    /// The part of that in which the journal, which comes before the effect, was being written.
    pub journal_ms: f64,
    pub requests: usize,
    pub writes: usize,
    pub unannounced: usize,
    pub effects: Vec<Effect>,
    pub asked: Vec<Asked>,
    pub heard: Vec<Heard>,
}

/// A request other than a watch.
#[derive(Debug, Serialize)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub sent_ms: f64,
    pub answered_ms: Option<f64>,
}

/// A watch event.
#[derive(Debug, Serialize)]
pub struct Heard {
    pub object: String,
    pub at_ms: f64,
}

/// Times count from the beginning of the migration.
#[derive(Debug, Serialize)]
pub struct Effect {
    pub what: String,
    pub news_ms: f64,
    /// When the last read was answered before it was sent.
    pub looked_ms: f64,
    pub journal_ms: f64,
    pub sent_ms: f64,
    pub api_ms: f64,
    pub announced: bool,
}

impl Cost {
    /// Counts the requests by what they ask of which kind; names are left out.
    pub fn by_path(&self) -> Vec<(String, usize)> {
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for asked in &self.asked {
            let what = format!("{} {}", asked.method, kind_in(&asked.path));
            *counted.entry(what).or_default() += 1;
        }
        let mut counted: Vec<_> = counted.into_iter().collect();
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counted
    }

    #[expect(clippy::too_many_lines, reason = "one field after the other")]
    pub fn of(trace: &[Entry], name: &str, begun: Instant, whole: Duration) -> Self {
        let ms = |at: Instant| at.saturating_duration_since(begun).as_secs_f64() * 1e3;
        let trace: Vec<&Entry> = trace.iter().filter(|entry| entry.at >= begun).collect();
        let looks = looks(&trace, name);
        let mut effects: Vec<Effect> = Vec::new();
        let mut answered: Option<Instant> = None;
        for entry in &trace {
            let What::Wrote { side, what, .. } = &entry.what else {
                continue;
            };
            if what.ends_with(": journal") {
                continue;
            }
            if *side == Side::After {
                answered = Some(entry.at);
                continue;
            }
            let (news, announced) = news(&trace, &looks, answered, entry.at);
            let looked = looked(&trace, news, entry.at);
            effects.push(Effect {
                what: what.clone(),
                looked_ms: ms(looked),
                journal_ms: in_flight(&trace, looked, entry.at).as_secs_f64() * 1e3,
                news_ms: ms(news),
                sent_ms: ms(entry.at),
                api_ms: in_flight(&trace, news, entry.at).as_secs_f64() * 1e3,
                announced,
            });
        }
        let asked: Vec<Asked> = trace
            .iter()
            .filter_map(|entry| match &entry.what {
                What::Asked {
                    method,
                    path,
                    answered,
                } => Some(Asked {
                    method: method.clone(),
                    path: path.clone(),
                    sent_ms: ms(entry.at),
                    answered_ms: answered.map(ms),
                }),
                _ => None,
            })
            .collect();
        let heard = trace.iter().filter_map(|entry| match &entry.what {
            What::Heard(key) => Some(Heard {
                object: key.to_string(),
                at_ms: ms(entry.at),
            }),
            _ => None,
        });
        Self {
            name: name.to_owned(),
            whole_ms: whole.as_secs_f64() * 1e3,
            delay_ms: effects.iter().map(|effect| effect.sent_ms - effect.news_ms).sum(),
            api_ms: effects.iter().map(|effect| effect.api_ms).sum(),
            decision_ms: effects
                .iter()
                .map(|effect| effect.sent_ms - effect.looked_ms)
                .sum(),
            journal_ms: effects.iter().map(|effect| effect.journal_ms).sum(),
            requests: asked.len(),
            writes: asked.iter().filter(|asked| asked.method != "GET").count(),
            unannounced: effects.iter().filter(|effect| !effect.announced).count(),
            effects,
            heard: heard.collect(),
            asked,
        }
    }
}

/// Returns the kind that a path is about, and whether it is one in a member.
fn kind_in(path: &str) -> String {
    let (path, side) = match path.split_once("/proxy/") {
        Some((_, path)) => (path, "member: "),
        None => (path, ""),
    };
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(at) = parts.iter().position(|part| *part == "namespaces")
        && parts.len() > at + 2
    {
        parts.drain(..at + 2);
    } else {
        let version = if parts.first() == Some(&"api") { 2 } else { 3 };
        parts.drain(..version.min(parts.len()));
    }
    let (kind, sub) = (parts.first().copied().unwrap_or("/"), parts.get(2));
    let what = if parts.len() > 1 { "one of " } else { "" };
    let sub = sub.map(|sub| format!("/{sub}")).unwrap_or_default();
    format!("{side}{what}{kind}{sub}")
}

/// A look at everything: when it began, and whether the worker rested before.
struct Look {
    began: Instant,
    rested: bool,
}

/// Every look reads the intent, beside other things: it begins with the first request after a rest, or after another look.
fn looks(trace: &[&Entry], name: &str) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    let mut last: Option<Instant> = None;
    let mut roused: Option<Instant> = None;
    for entry in trace {
        match &entry.what {
            What::Asked {
                method,
                path,
                answered,
            } => {
                if last.is_none_or(|last| entry.at.saturating_duration_since(last) > REST) {
                    roused = Some(entry.at);
                }
                if method == "GET" && path.ends_with(&format!("/migrations/{name}")) {
                    let begun = roused.take();
                    looks.push(Look {
                        began: begun.unwrap_or(entry.at),
                        rested: begun.is_some(),
                    });
                }
                last = last.max(*answered);
            }
            What::Wrote { intent, .. } if intent.name == name => last = last.max(Some(entry.at)),
            _ => {}
        }
    }
    looks
}

/// Returns when what an effect needed can have come at the earliest, and whether an event told of it.
fn news(trace: &[&Entry], looks: &[Look], answered: Option<Instant>, sent: Instant) -> (Instant, bool) {
    let before = looks.partition_point(|look| look.began < sent);
    let first = looks[..before].iter().rposition(|look| look.rested).unwrap_or(0);
    let Some(began) = looks.get(first).map(|look| look.began) else {
        return (sent, false);
    };
    if let Some(answered) = answered.filter(|answered| *answered >= began) {
        return (answered, true);
    }
    let in_vain = first.checked_sub(1).map(|before| looks[before].began);
    let heard = trace.iter().find(|entry| {
        // The intent itself is news once; after that its events are echoes of the journal.
        let is_news = matches!(&entry.what, What::Heard(key) if key.kind != "Migration" || in_vain.is_none());
        is_news && in_vain.is_none_or(|in_vain| entry.at > in_vain + SAME) && entry.at <= began + SAME
    });
    // The answer to the last effect is newer than an event from before it.
    match (heard.map(|entry| entry.at), answered) {
        (Some(heard), Some(answered)) if answered <= began => (heard.max(answered), true),
        (Some(heard), _) => (heard, true),
        (None, _) => (began, false),
    }
}

/// Returns when the last read was answered before an effect was sent; where none was since its news, the news.
fn looked(trace: &[&Entry], news: Instant, sent: Instant) -> Instant {
    let reads = trace.iter().filter_map(|entry| match &entry.what {
        What::Asked { method, answered, .. } if method == "GET" => *answered,
        _ => None,
    });
    let last = reads.filter(|answered| *answered <= sent).max();
    last.map_or(news, |last| last.max(news))
}

/// Returns how long of a span of time at least one request was under way.
fn in_flight(trace: &[&Entry], from: Instant, until: Instant) -> Duration {
    let (mut total, mut covered) = (Duration::ZERO, from);
    for entry in trace {
        let What::Asked { answered, .. } = &entry.what else {
            continue;
        };
        let (begin, end) = (entry.at.max(covered), answered.unwrap_or(until).min(until));
        if end > begin {
            total += end - begin;
            covered = end;
        }
    }
    total
}
