//! The other problems there are, for the notice of one event: everything is looked at when a notice is sent.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::overview::Seen;
use cutover_cluster::off_the_runtime;
use cutover_core::report::Headlines;
use cutover_forge::notify::Besides;

/// How long a look serves: notices come in groups.
const SERVES: Duration = Duration::from_millis(500);

/// Returns what adds to notices what else isn't well.
pub(super) fn other_problems(seen: Seen) -> Besides {
    let look = Mutex::new(Look { seen, last: None });
    Besides::new(move |subject, filter| {
        // Everything is gone through for it.
        off_the_runtime(|| {
            let mut look = look.lock().unwrap_or_else(PoisonError::into_inner);
            let headlines = look.headlines(Instant::now());
            headlines.besides(subject, |namespace| filter.reaches(namespace))
        })
    })
}

struct Look {
    seen: Seen,
    last: Option<(Instant, Headlines)>,
}

impl Look {
    fn headlines(&mut self, now: Instant) -> &Headlines {
        let last = self.last.take();
        let last = last.filter(|(at, _)| now.duration_since(*at) < SERVES);
        let (_, headlines) = self
            .last
            .insert(last.unwrap_or_else(|| (now, Headlines::of(&self.seen.overview()))));
        headlines
    }
}
