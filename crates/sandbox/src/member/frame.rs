//! What simulated operators have in common: a cache of their kind, and a pass over all of its objects whenever one has changed
//! or something is due. What becomes of an object is its [`Life`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::cache::{Cache, Key};
use super::pods::Shown;
use super::{Context, PodView, later, status};
use crate::ledger::{Group, Origin, Start, Writer};
use crate::store::fitted;
use cutover_karmada::name::ObjectKey;

/// One object: namespace and name, and `metadata.uid`.
pub type Id = (Key, String);

/// What an operator makes of one of its objects, as a function of time.
pub trait Life: Sized + Send + 'static {
    /// What is the same for all objects of the operator.
    type Operator: Send + 'static;
    /// What the operator sees of an object.
    type Seen: Send + Sync + 'static;
    /// The annotation that the operator writes into its objects.
    const ANNOTATION: Option<&'static str> = None;

    /// Takes from an object what the operator acts on. Its status is taken out already.
    fn see(object: DynamicObject) -> Self::Seen;

    fn begin(seen: &Self::Seen) -> Self;

    /// Brings it a step further; what nothing is seen of is gone.
    fn advance(
        &mut self,
        operator: &mut Self::Operator,
        seen: Option<&Self::Seen>,
        context: &Context,
        now: Timestamp,
    );

    /// Returns when it has to be looked at again, if nothing changes until then.
    fn next_change(&self, now: Timestamp) -> Timestamp;

    /// Returns whether nothing is left of it once its object is gone.
    fn is_over(&self) -> bool;

    fn can_write(&self, now: Timestamp) -> bool;

    /// Called when it begins to write: returns what it goes on from. Most have their state where every cluster reaches it.
    fn beginning(&mut self, _context: &Context, key: &Key, _now: Timestamp) -> Beginning {
        Beginning::shared(key)
    }

    /// Called when it no longer writes: returns behind which handle its state is, where it leaves one, and how many writes that is.
    fn ending(&mut self, _context: &Context, _key: &Key, _now: Timestamp) -> Option<(String, u64)> {
        None
    }

    fn pods(&self, operator: &Self::Operator, id: &Id, now: Timestamp) -> Vec<PodView>;

    /// Returns what the operator tells of it.
    fn tell(&mut self, operator: &Self::Operator, now: Timestamp) -> Told;
}

/// What a run goes on from.
#[derive(Debug)]
pub struct Beginning {
    pub group: Group,
    pub from: Origin,
    /// How many writes that stands for, where the ledger doesn't know.
    pub writes: u64,
}

impl Beginning {
    /// The state is in a store that every cluster reaches.
    pub fn shared((namespace, name): &Key) -> Self {
        Self {
            group: Group::Stateful,
            from: Origin::Volume(format!("shared/{namespace}/{name}")),
            writes: 0,
        }
    }
}

/// What an operator writes into an object.
#[derive(Debug)]
pub struct Told {
    pub status: Value,
    /// The value of [`Life::ANNOTATION`].
    pub annotation: Option<String>,
}

impl Told {
    pub fn status(status: Value) -> Self {
        Self {
            status,
            annotation: None,
        }
    }
}

/// An object as the cache has it.
struct Sight<S> {
    uid: String,
    status: Value,
    annotation: Option<String>,
    seen: S,
}

fn sight<L: Life>(mut object: DynamicObject) -> Sight<L::Seen> {
    Sight {
        uid: object.uid().unwrap_or_default(),
        status: fitted(object.data["status"].take()),
        annotation: L::ANNOTATION.and_then(|name| object.annotations().get(name).cloned()),
        seen: L::see(object),
    }
}

/// Runs an operator and the pods of its objects, for ever.
pub async fn run<L: Life>(
    client: Client,
    context: Arc<Context>,
    resource: ApiResource,
    operator: L::Operator,
) {
    let cache = Cache::<Sight<L::Seen>>::new();
    let mut changes = cache.subscribe();
    let own = Arc::clone(&context);
    let plural = resource.plural.clone();
    let behind = || own.lag.behind(&own.cluster, &plural);
    let feed = cache
        .clone()
        .feed(client.clone(), resource.clone(), behind, &own, sight::<L>);
    let work = async {
        let mut frame = Frame::<L> {
            client,
            context,
            resource,
            operator,
            lives: BTreeMap::new(),
            shown: Shown::default(),
        };
        loop {
            changes.mark_unchanged();
            let next = frame.pass(&cache).await;
            tokio::select! {
                () = frame.context.clock.sleep_until(next) => {}
                _ = changes.changed() => {}
            }
        }
    };
    tokio::join!(feed, work);
}

struct Frame<L: Life> {
    client: Client,
    context: Arc<Context>,
    resource: ApiResource,
    operator: L::Operator,
    lives: BTreeMap<Id, Lived<L>>,
    shown: Shown,
}

impl<L: Life> Frame<L> {
    /// Brings every object a step further; returns when to look again.
    async fn pass(&mut self, cache: &Cache<Sight<L::Seen>>) -> Timestamp {
        let now = self.context.clock.now();
        let mut wanted = BTreeMap::new();
        for (key, sight) in cache.all() {
            wanted.insert((key, sight.uid.clone()), sight);
        }
        for (id, sight) in &wanted {
            self.lives.entry(id.clone()).or_insert_with(|| Lived {
                life: L::begin(&sight.seen),
                writes: false,
            });
        }
        let mut again = Timestamp::MAX;
        let mut told = Vec::new();
        for (id, lived) in &mut self.lives {
            let seen = wanted.get(id).map(|sight| &sight.seen);
            lived.life.advance(&mut self.operator, seen, &self.context, now);
            lived.report(&self.context, &self.resource, id, now);
            again = again.min(lived.life.next_change(now));
            if seen.is_some() {
                told.push((id.0.clone(), lived.life.tell(&self.operator, now)));
            }
        }
        self.lives
            .retain(|id, lived| wanted.contains_key(id) || !lived.life.is_over());
        let pods = self
            .lives
            .iter()
            .flat_map(|(id, lived)| lived.life.pods(&self.operator, id, now))
            .collect();
        let mut complete = self.shown.show(&self.client, &self.context, pods).await;
        for (key, told) in told {
            let sight = cache.get(&key);
            complete &= write::<L>(&self.client, &self.resource, &key, sight.as_deref(), &told).await;
        }
        if complete {
            again
        } else {
            later(now, self.context.timings.retry).min(again)
        }
    }
}

/// Writes what is told of an object; `false`: it has to be tried again.
async fn write<L: Life>(
    client: &Client,
    resource: &ApiResource,
    key: &Key,
    sight: Option<&Sight<L::Seen>>,
    told: &Told,
) -> bool {
    let mut complete = true;
    if let Some(name) = L::ANNOTATION
        && sight.is_some_and(|sight| sight.annotation != told.annotation)
    {
        let metadata = json!({"annotations": {name: told.annotation}});
        complete &= status::merge(client, resource, key, &metadata).await;
    }
    let shown = sight.map(|sight| &sight.status);
    complete &= status::write(client, resource, key, shown, &told.status).await;
    complete
}

struct Lived<L> {
    life: L,
    writes: bool,
}

impl<L: Life> Lived<L> {
    /// Tells the ledger when it begins to write and when it no longer does.
    fn report(&mut self, context: &Context, resource: &ApiResource, (key, uid): &Id, now: Timestamp) {
        let writes = self.life.can_write(now);
        if writes == self.writes {
            return;
        }
        self.writes = writes;
        let workload = ObjectKey {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace: Some(key.0.clone()),
            name: key.1.clone(),
        };
        let writer = Writer {
            cluster: context.cluster.clone(),
            uid: uid.clone(),
        };
        if writes {
            let beginning = self.life.beginning(context, key, now);
            context.ledger.writer_started(Start {
                workload,
                writer,
                group: beginning.group,
                at: now,
                handle_given: None,
                restored_from: beginning.from,
                writes: beginning.writes,
                by_itself: false,
            });
            return;
        }
        if let Some((handle, writes)) = self.life.ending(context, key, now) {
            context
                .ledger
                .handle_taken(&workload, &writer, now, &handle, writes);
        }
        context.ledger.writer_stopped(&workload, &writer, now);
    }
}
