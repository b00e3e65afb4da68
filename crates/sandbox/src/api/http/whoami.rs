//! `SelfSubjectReview`: tells a caller who he is. Nothing is kept of it, and discovery doesn't list it.

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use serde_json::json;

use super::negotiate::Form;
use super::{Aggregated, respond};
use crate::api::Status;
use crate::api::admission::attributes::user_info;

#[derive(Debug)]
pub(in crate::api) struct WhoAmI;

impl Aggregated for WhoAmI {
    fn handle(&self, request: Request<Bytes>, user: String) -> BoxFuture<'static, Response<Body>> {
        let asked = request.method() == Method::POST && request.uri().path().ends_with("/selfsubjectreviews");
        let answer = if asked {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
                "metadata": {"creationTimestamp": null}, "status": {"userInfo": user_info(&user)},
            });
            respond::encode(StatusCode::CREATED, Form::Json, &review)
                .unwrap_or_else(|status| respond::refusal(&status))
        } else {
            respond::refusal(&Status::no_such_resource())
        };
        std::future::ready(answer).boxed()
    }
}
