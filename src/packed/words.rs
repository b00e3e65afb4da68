//! The table of words: what many documents have in common, each under a number.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

/// How many words there can be; and how many of them can be there for texts alone.
const WORDS: usize = 1 << 14;
const TEXTS: usize = 1 << 12;
/// What is longer is spelled out.
const LONGEST: usize = 64;
/// A shorter text isn't any longer than its number.
const SHORTEST_TEXT: usize = 3;
/// How many candidates are counted at a time.
const CANDIDATES: usize = 1 << 12;

/// What a word stands for in a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Name,
    Text,
}

impl Use {
    /// Returns how often a text must come up to become a word. What belongs to one object alone (its name, a time)
    /// comes up in it a few times.
    const fn often(self) -> u8 {
        match self {
            Self::Name => 2,
            Self::Text => 20,
        }
    }
}

/// Each word under its number. Written once each, so that reading needs no lock.
static TABLE: [OnceLock<&'static str>; WORDS] = [const { OnceLock::new() }; WORDS];

static NUMBERS: LazyLock<Mutex<Numbers>> = LazyLock::new(Mutex::default);

struct Numbers {
    of: HashMap<&'static str, u32>,
    texts: usize,
    candidates: Vec<Candidate>,
    hasher: RandomState,
}

/// A text that isn't a word yet, by its hash.
#[derive(Clone, Copy, Default)]
struct Candidate {
    hash: u64,
    times: u8,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            texts: 0,
            candidates: vec![Candidate::default(); CANDIDATES],
            hasher: RandomState::new(),
        }
    }
}

/// Returns the word with a number.
pub(super) fn word(number: u64) -> &'static str {
    let place = usize::try_from(number).ok().and_then(|number| TABLE.get(number));
    place.and_then(OnceLock::get).copied().unwrap_or_default()
}

/// Returns the number of a word; makes it one when it has come up often enough.
pub(super) fn number(text: &str, used: Use) -> Option<u32> {
    if text.len() > LONGEST || used == Use::Text && text.len() < SHORTEST_TEXT {
        return None;
    }
    NUMBERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .number(text, used)
}

impl Numbers {
    fn number(&mut self, text: &str, used: Use) -> Option<u32> {
        if let Some(number) = self.of.get(text) {
            return Some(*number);
        }
        let is_full = self.of.len() == WORDS || used == Use::Text && self.texts == TEXTS;
        if is_full || !self.comes_up_often(text, used) {
            return None;
        }
        let number = u32::try_from(self.of.len()).ok()?;
        // Words are for good, and there are no more than `WORDS` of them.
        let word: &'static str = Box::leak(text.into());
        TABLE.get(self.of.len())?.set(word).ok()?;
        self.of.insert(word, number);
        self.texts += usize::from(used == Use::Text);
        Some(number)
    }

    fn comes_up_often(&mut self, text: &str, used: Use) -> bool {
        let hash = self.hasher.hash_one(text);
        let place = usize::try_from(hash).unwrap_or_default() % CANDIDATES;
        let candidate = &mut self.candidates[place];
        if candidate.hash != hash {
            *candidate = Candidate { hash, times: 0 };
        }
        candidate.times += 1;
        candidate.times >= used.often()
    }
}
