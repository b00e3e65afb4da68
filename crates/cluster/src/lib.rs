//! A Karmada control plane and its members through kube clients: connect, discover, read, write, observe, apply.
//!
//! Everything sent has a time limit and a retry budget. Reads come in two kinds that can't be mixed up: [`Observer`]
//! answers from a watch cache and is good for deciding what to look at; [`Reader`] asks the server, says when it
//! asked, and is the only thing a proof may be made of. What is wanted is decided elsewhere.

mod answer;
mod apply;
mod applyset;
mod circuit_breaker;
mod compute;
mod connect;
mod delete;
mod discover;
mod error;
mod exchange;
mod follow;
mod install;
mod limits;
mod object;
mod observe;
mod progress;
mod prometheus;
mod read;
mod single_flight;
mod write;

pub use answer::{Answer, Read};
pub use apply::{Answers, Conflict, Failure, Outcome, Write, apply, create_namespace, rehearse};
pub use applyset::{Parent, Unusable, delete_parent, read_parent, read_parents, write_parent};
pub use compute::off_the_runtime;
pub use connect::{Cluster, ConnectOptions, connect};
pub use delete::{Deleted, delete, rehearse_deletion};
pub use discover::{Discovery, Lookup};
pub use error::Error;
pub use exchange::{Exchange, RequestObserver};
pub use follow::{Followed, Which};
pub use install::{Installed, install, install_crds};
pub use limits::Limits;
pub use object::Served;
pub use observe::{Change, Form, Keep, KeepManagedFields, KindState, News, Observer, Watched};
pub use progress::{ProgressObserver, Task, TaskObserver, TaskProgress};
pub use prometheus::{Prometheus, PrometheusOptions, Queried};
pub use read::Reader;
pub use write::{Applied, Exactly, FieldConflict, Mode, Replaced, Writer, Written};

pub type Result<T, E = Error> = std::result::Result<T, E>;
