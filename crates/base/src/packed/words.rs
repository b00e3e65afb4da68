//! The table of words: what many documents have in common, each under a number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

/// How many words there can be; and how many of them can be there for texts alone.
const MOST: usize = 1 << 14;
const TEXTS: usize = 1 << 12;
/// What is longer is spelled out.
const LONGEST: usize = 64;
/// A shorter text isn't any longer than its number.
const SHORTEST_TEXT: usize = 3;
/// How many candidates are counted at a time: in each row those that came up last.
const ROWS: usize = 1 << 10;
const ROW: usize = 4;

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

/// The words of this process.
pub(super) static WORDS: LazyLock<Words> = LazyLock::new(Words::new);

thread_local! {
    /// The words of this process that a thread has come across: to find these again it needs no lock.
    static KNOWN: RefCell<HashMap<&'static str, u32>> = RefCell::default();
}

pub(super) struct Words {
    /// Each word under its number. Written once each, so that reading needs no lock.
    table: Box<[OnceLock<&'static str>]>,
    numbers: Mutex<Numbers>,
}

struct Numbers {
    of: HashMap<&'static str, u32>,
    texts: usize,
    candidates: Vec<[Candidate; ROW]>,
    hasher: RandomState,
}

/// A text that isn't a word yet, by its hash.
#[derive(Clone, Copy, Default)]
struct Candidate {
    hash: u64,
    times: u8,
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            table: (0..MOST).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::new(Numbers {
                of: HashMap::new(),
                texts: 0,
                candidates: vec![Default::default(); ROWS],
                hasher: RandomState::new(),
            }),
        }
    }

    /// Returns the word with a number.
    pub(super) fn word(&self, number: u64) -> &'static str {
        let place = usize::try_from(number)
            .ok()
            .and_then(|number| self.table.get(number));
        place.and_then(OnceLock::get).copied().unwrap_or_default()
    }

    /// Returns the number of a word; makes it one when it has come up often enough.
    pub(super) fn number(&self, text: &str, used: Use) -> Option<u32> {
        if text.len() > LONGEST || used == Use::Text && text.len() < SHORTEST_TEXT {
            return None;
        }
        if !std::ptr::eq(self, &raw const *WORDS) {
            return self.find(text, used);
        }
        KNOWN.with_borrow_mut(|known| {
            if let Some(number) = known.get(text) {
                return Some(*number);
            }
            let number = self.find(text, used)?;
            known.insert(self.word(number.into()), number);
            Some(number)
        })
    }

    fn find(&self, text: &str, used: Use) -> Option<u32> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.of.get(text) {
            return Some(*number);
        }
        if !numbers.has_room(used) || !numbers.comes_up_often(text, used) {
            return None;
        }
        let number = u32::try_from(numbers.of.len()).ok()?;
        // Words are for good, and there are no more than `MOST` of them.
        let word: &'static str = Box::leak(text.into());
        self.table.get(numbers.of.len())?.set(word).ok()?;
        numbers.of.insert(word, number);
        numbers.texts += usize::from(used == Use::Text);
        Some(number)
    }
}

impl Numbers {
    fn has_room(&self, used: Use) -> bool {
        self.of.len() < MOST && (used == Use::Name || self.texts < TEXTS)
    }

    fn comes_up_often(&mut self, text: &str, used: Use) -> bool {
        let hash = self.hasher.hash_one(text);
        let row = &mut self.candidates[usize::try_from(hash % ROWS as u64).unwrap_or_default()];
        let place = row.iter().position(|candidate| candidate.hash == hash);
        row[..=place.unwrap_or(ROW - 1)].rotate_right(1);
        if place.is_none() {
            row[0] = Candidate { hash, times: 0 };
        }
        row[0].times = row[0].times.saturating_add(1);
        row[0].times >= used.often()
    }
}
