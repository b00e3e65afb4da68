//! Fresh reads that many want at once. Each gets one that was sent after it had asked; all who ask while one is under way
//! share the next. So what a hundred want at once is asked for twice, and nobody gets an older answer than alone.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::answer::{Answer, Read};

#[derive(Default)]
pub(super) struct SingleFlight(Mutex<HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>);

/// The last read of something. Whoever asks for it holds the lock meanwhile.
type Slot<T> = tokio::sync::Mutex<Option<Read<Arc<T>>>>;

impl SingleFlight {
    /// `what`: names the question; `asked`: the tick before it; `ask`: sends it, with a later tick.
    pub(super) async fn read<T: Send + Sync + 'static>(
        &self,
        what: &str,
        asked: u64,
        ask: impl Future<Output = Read<T>>,
    ) -> Read<Arc<T>> {
        let slot = self.slot::<T>(what);
        let mut last = slot.lock().await;
        if let Some(read) = last.as_ref().filter(|read| read.sent > asked) {
            return read.clone();
        }
        let read = ask.await.map(|value| Answer::Found(Arc::new(value)));
        *last = Some(read.clone());
        read
    }

    fn slot<T: Send + Sync + 'static>(&self, what: &str) -> Arc<Slot<T>> {
        let key = (TypeId::of::<T>(), what.to_owned());
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key).cloned().and_then(|slot| slot.downcast().ok()) {
            return slot;
        }
        // What nobody asks for at the moment has nothing that is of use later.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        let slot = Arc::new(Slot::<T>::default());
        slots.insert(key, slot.clone());
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A server that answers when it is let, and counts how often it was asked.
    struct Server {
        clock: AtomicU64,
        asked: AtomicU64,
        answers: Semaphore,
        single_flight: SingleFlight,
    }

    impl Server {
        fn tick(&self) -> u64 {
            self.clock.fetch_add(1, Ordering::SeqCst)
        }

        async fn read(&self) -> (u64, Read<Arc<u64>>) {
            let asked = self.tick();
            let ask = async {
                let sent = self.tick();
                let number = self.asked.fetch_add(1, Ordering::SeqCst);
                self.answers.acquire().await.unwrap().forget();
                Read {
                    sent,
                    answered: self.tick(),
                    answer: Answer::Found(number),
                    silent: false,
                }
            };
            (asked, self.single_flight.read("it", asked, ask).await)
        }
    }

    fn server() -> Arc<Server> {
        Arc::new(Server {
            clock: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            answers: Semaphore::new(0),
            single_flight: SingleFlight::default(),
        })
    }

    #[tokio::test]
    async fn who_asks_while_one_is_under_way_shares_the_next_and_gets_nothing_older_than_the_question() {
        let server = server();
        let ask = |server: &Arc<Server>| {
            let server = Arc::clone(server);
            tokio::spawn(async move { server.read().await })
        };
        let first = ask(&server);
        while server.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..50).map(|_| ask(&server)).collect();
        while server.clock.load(Ordering::SeqCst) < 52 {
            tokio::task::yield_now().await;
        }
        server.answers.add_permits(100);
        assert_eq!(first.await.unwrap().1.answer, Answer::Found(Arc::new(0)));
        for other in others {
            let (asked, read) = other.await.unwrap();
            assert_eq!(read.answer, Answer::Found(Arc::new(1)));
            assert!(read.sent > asked);
        }
        assert_eq!(server.read().await.1.answer, Answer::Found(Arc::new(2)));
    }

    #[tokio::test]
    async fn one_that_gives_up_leaves_the_others_to_ask_themselves() {
        let server = server();
        let gives_up = tokio::spawn({
            let server = Arc::clone(&server);
            async move { server.read().await }
        });
        while server.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        gives_up.abort();
        server.answers.add_permits(1);
        assert_eq!(server.read().await.1.answer, Answer::Found(Arc::new(1)));
    }
}
