//! Follows some objects of one server for a while: in a member, through Karmada's cluster proxy.
//!
//! Like every watch it only says when to look; who decides on what is there reads it afresh.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;

use super::object::{Served, collection, escape, with_type};
use super::read::{Reader, built_in};
use super::{Error, Result};

/// How long one watch goes on before it has to be begun again: what was lost on the way without a word is seen by then.
const RENEWED: u32 = 60;

/// By how many seconds the server may be late with ending it.
const LATE: u64 = 5;

/// Which objects of a kind are followed.
#[derive(Clone, Debug)]
pub enum Which {
    Named(String),
    Labelled(String),
}

/// What a watch tells of an object: first of each that is there, then of every change.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    There(Value),
    Gone(Value),
}

type Event = std::result::Result<WatchEvent<Value>, kube::Error>;

impl Reader {
    /// Follows objects of a kind, from what is there now. The stream ends when they are not followed any more.
    pub async fn follow(
        &self,
        served: &Served,
        namespace: Option<&str>,
        which: &Which,
    ) -> Result<BoxStream<'static, Followed>> {
        let selector = match which {
            Which::Named(name) => format!("fieldSelector={}", escape(&format!("metadata.name={name}"))),
            Which::Labelled(labels) => format!("labelSelector={}", escape(labels)),
        };
        let path = collection(served, namespace)?;
        let (path, call) = self.place(&path)?;
        let uri = format!("{path}?watch=true&timeoutSeconds={RENEWED}&{selector}");
        let request = Request::get(&uri)
            .body(Vec::new())
            .map_err(|_invalid| Error::BadName(path))?;
        let events = self.cluster.client().request_events::<Value>(request).await;
        let events = events.map_err(|error| Error::from_kube(call, error))?;
        let gvk = served.gvk.clone();
        let told = events.take_while(|event: &Event| {
            let goes_on = !matches!(event, Err(_) | Ok(WatchEvent::Error(_)));
            std::future::ready(goes_on)
        });
        let told = told.filter_map(move |event: Event| {
            std::future::ready(match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    Some(Followed::There(with_type(object, &gvk)))
                }
                Ok(WatchEvent::Deleted(object)) => Some(Followed::Gone(object)),
                Ok(WatchEvent::Bookmark(_) | WatchEvent::Error(_)) | Err(_) => None,
            })
        });
        // A server that is cut off without a word never ends it.
        let ends = tokio::time::sleep(Duration::from_secs(u64::from(RENEWED) + LATE));
        Ok(told.take_until(ends).boxed())
    }

    /// Follows the pods that a label selector matches.
    pub async fn follow_pods(
        &self,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<BoxStream<'static, Followed>> {
        let pods = built_in("Pod", "pods", true);
        self.follow(&pods, namespace, &Which::Labelled(selector.to_owned()))
            .await
    }
}
