//! What comes next for an intent: a command, where a person is asked; else what happens by itself, and when.

use jiff::Timestamp;

use super::Line;
use super::answer::{IF_SO, offered};
use super::summary::Summary;
use super::told::{HINT, styled};
use crate::api::{Standing, WaitCode, WaitingFor};
use crate::units::{duration, instant};

/// Returns the lines that say what comes next, and what happens if a person who is asked does nothing; none of what has ended well.
pub(super) fn lines(one: &Summary, now: Timestamp) -> Vec<Line> {
    lines_until(one, now, "")
}

/// The same for what several have in common, whose limits differ: `one` has the first of these.
pub(super) fn first_lines(one: &Summary, now: Timestamp) -> Vec<Line> {
    lines_until(one, now, ", the first of them")
}

fn lines_until(one: &Summary, now: Timestamp, which: &str) -> Vec<Line> {
    let mut lines = asked_of_a_person(one);
    let label = if lines.is_empty() { "next:" } else { "else:" };
    let by_itself = match lines.as_slice() {
        [] => by_itself(one, now, which),
        _ => one
            .common
            .waiting_for
            .as_ref()
            .and_then(|wait| timed(wait, now, which)),
    };
    lines.extend(by_itself.map(|next| Line::new(format!("  {} {next}", styled(HINT, label)))));
    lines
}

fn asked_of_a_person(one: &Summary) -> Vec<Line> {
    let label = styled(HINT, "next:");
    let wait = one.common.waiting_for.as_ref();
    let offers = wait.filter(|wait| wait.code == WaitCode::Evidence && !wait.offers.is_empty());
    if let Some(wait) = offers {
        let head = Line::new(format!("  {label} {IF_SO}"));
        let commands = offered(&one.place, wait).into_iter();
        let commands = commands.map(|command| Line::new(format!("    {command}")).whole());
        return std::iter::once(head).chain(commands).collect();
    }
    let line = |next: &String| {
        let line = Line::new(format!("  {label} {next}"));
        if next.starts_with("cutover ") || next.starts_with("kubectl ") {
            line.whole()
        } else {
            line
        }
    };
    one.next.iter().map(line).collect()
}

/// Returns what happens without anybody's doing.
fn by_itself(one: &Summary, now: Timestamp, which: &str) -> Option<String> {
    let wait = one.common.waiting_for.as_ref();
    let is_asked_for = matches!(one.phase, "Aborted" | "EndedBefore");
    if one.has_ended || one.standing.is_over() {
        return (one.standing == Standing::Failed && !is_asked_for)
            .then(|| "fix the cause, then change its file, or create it under another name".to_owned());
    }
    if let Some((wait, timed)) = wait.and_then(|wait| Some((wait, timed(wait, now, which)?))) {
        // What is waited for comes first; that it doesn't come is the exception.
        let is_limit = wait.then.is_some() && !wait.is_a_matter_of_time();
        let waits = is_limit && wait.code == WaitCode::Evidence;
        return Some(if waits {
            format!("it continues as soon as this happens; otherwise {timed}")
        } else {
            timed
        });
    }
    let words = match (one.standing, wait) {
        (Standing::InForce, None) => "nothing to do: it stays in force",
        (_, Some(_)) => "nothing to do: it continues as soon as this happens",
        (_, None) => "nothing to do: it continues by itself",
    };
    Some(words.to_owned())
}

/// Returns when a wait ends by itself, and what happens then.
fn timed(wait: &WaitingFor, now: Timestamp, which: &str) -> Option<String> {
    let until = wait.until?;
    let then = wait.then.as_deref().unwrap_or("it ends");
    let left = until.duration_since(now);
    Some(if left.is_positive() {
        format!("in {} ({}): {then}{which}", duration(left), instant(until))
    } else {
        format!("now, since {}: {then}{which}", instant(until))
    })
}
