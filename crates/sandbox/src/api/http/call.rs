//! One request: from its path, parameters and body to a verb, and from the verb's result to a response.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use serde_json::Value;
use tower::BoxError;

use super::super::registry::{Kind, NAMESPACES, Version};
use super::super::status::{Details, Status};
use super::super::strategy;
use super::super::write::{Target, Written};
use super::super::{
    ApiServer, Clock, DeleteOptions, FieldValidation, Resource, Subresource, metadata, scale,
};
use super::negotiate::{self, Accept};
use super::query::{Query, Verb};
use super::respond::{self, Answer};
use super::route::{self, Place, Route};
use super::{Aggregated, Dropped, RequestInfo, discovery, openapi};

/// One request being answered.
pub(super) struct Call<'a> {
    pub server: &'a ApiServer,
    pub request: Request<Bytes>,
    pub user: String,
}

impl Call<'_> {
    pub(super) fn info(&self) -> RequestInfo {
        let Route::Objects(place) = route::parse(self.request.uri().path()) else {
            return RequestInfo {
                verb: "raw",
                user: self.user.clone(),
                ..RequestInfo::default()
            };
        };
        let query = Query::parse(self.request.uri());
        let watch = query.as_ref().is_ok_and(|query| query.flag("watch"));
        let dry_run = query.is_ok_and(|query| query.get("dryRun").is_some());
        let verb = match (self.request.method(), &place.name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if watch => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) => "deletecollection",
            _ => "raw",
        };
        RequestInfo {
            verb,
            group: place.group,
            resource: place.plural,
            namespace: place.namespace,
            name: place.name,
            subresource: place.subresource,
            dry_run,
            user: self.user.clone(),
        }
    }

    pub(super) async fn answer(self, cut: BoxFuture<'static, ()>) -> Response<Body> {
        let route = route::parse(self.request.uri().path());
        let yaml = Accept::parse(self.request.headers()).prefers_yaml();
        if let Route::Objects(place) = &route
            && let Some(handler) = self.aggregated(place)
        {
            return handler.handle(self.request, self.user).await;
        }
        let head = *self.request.method() == Method::HEAD;
        let answered = match route {
            Route::Objects(place) => self.objects(&place, cut),
            Route::Text(text) => Ok(respond::text(StatusCode::OK, text)),
            Route::Unknown => Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n")),
            route @ (Route::OpenApiV2 | Route::OpenApiV3 | Route::OpenApiV3Of { .. }) => {
                openapi::answer(self.server, &route, self.request.uri(), self.request.headers())
            }
            other => discovery::answer(self.server, &other, self.request.headers()),
        };
        let response = answered.unwrap_or_else(|status| respond::refusal_as(&status, yaml));
        if head {
            response.map(|_| Body::empty())
        } else {
            response
        }
    }

    /// Returns the handler of a request that no served kind answers.
    fn aggregated(&self, place: &Place) -> Option<Arc<dyn Aggregated>> {
        let mounted = self
            .server
            .inner
            .aggregated
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let handler = mounted.get(&(place.group.clone(), place.version.clone()))?;
        let served = self.server.kind(&place.resource()).is_some();
        let known = matches!(place.subresource.as_deref(), None | Some("status" | "scale"));
        (!served || !known).then(|| Arc::clone(handler))
    }

    fn objects(&self, place: &Place, cut: BoxFuture<'static, ()>) -> Result<Response<Body>, Status> {
        let resource = place.resource();
        let kind = self.server.kind(&resource);
        let Some(kind) = kind.filter(|kind| kind.served(&place.version).is_some()) else {
            let known_group = place.group.is_empty() || self.server.builds_in(&place.group, &place.version);
            let nothing = || respond::text(StatusCode::NOT_FOUND, "404 page not found\n");
            return if known_group {
                Err(Status::no_such_resource())
            } else {
                Ok(nothing())
            };
        };
        let Some(version) = kind.served(&place.version) else {
            return Err(Status::no_such_resource());
        };
        let accept = Accept::parse(self.request.headers());
        let subresource = subresource_of(&kind, version, place)?;
        if !kind.custom {
            self.route(&kind, place, subresource, &accept)?;
        }
        let on = On {
            subresource,
            clock: &self.server.inner.clock,
            query: Query::parse(self.request.uri())?,
            accept,
            resource,
            kind: &kind,
            version,
            place,
        };
        if kind.custom && kind.namespaced && place.namespace.is_none() && place.name.is_some() {
            return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
        }
        let collection = place.name.is_none();
        let whole = !kind.namespaced || place.namespace.is_some();
        let reads = matches!(*self.request.method(), Method::GET | Method::HEAD);
        if kind.custom && !whole && !reads {
            return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
        }
        match *self.request.method() {
            Method::GET if collection && on.query.flag("watch") => self.watch(&on, cut),
            Method::GET => self.read(&on),
            Method::HEAD if kind.custom => self.read(&on),
            // The name in the path of a creation isn't looked at.
            Method::POST if kind.custom && whole && on.subresource.is_none() => self.create(&on),
            Method::POST if collection && whole => self.create(&on),
            Method::PUT if !collection => self.update(&on),
            Method::PATCH if !collection => self.patch(&on),
            Method::DELETE if !collection && on.subresource.is_none() => self.delete(&on),
            Method::DELETE if collection && whole && on.resource != NAMESPACES => self.delete_collection(&on),
            Method::PUT | Method::PATCH if kind.custom => Err(Status::bad_request("name must be provided")),
            _ if kind.custom => Err(Status::not_supported(&on.resource, self.action())),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Refuses what a real server's router of built-in kinds refuses before a handler sees the request: by the path,
    /// then the method, then the type of a patch, then the forms that the client takes.
    fn route(
        &self,
        kind: &Kind,
        place: &Place,
        subresource: Option<Subresource>,
        accept: &Accept,
    ) -> Result<(), Status> {
        if kind.namespaced && place.namespace.is_none() && place.name.is_some() {
            return Err(Status::no_such_resource());
        }
        let collection = place.name.is_none();
        let whole = !kind.namespaced || place.namespace.is_some();
        let routed = match *self.request.method() {
            Method::GET => subresource != Some(Subresource::Finalize),
            Method::POST => collection && whole,
            Method::PUT => !collection,
            Method::PATCH => !collection && subresource != Some(Subresource::Finalize),
            Method::DELETE if collection => whole && kind.resource != NAMESPACES,
            Method::DELETE => subresource.is_none(),
            _ => false,
        };
        if !routed {
            return Err(Status::method_not_allowed());
        }
        if *self.request.method() == Method::PATCH {
            negotiate::check_patch_type(self.request.headers(), kind)?;
        }
        accept.check_router(*self.request.method() == Method::GET && collection)
    }

    /// Returns the verb that a method stands for; others stand for none.
    fn action(&self) -> &'static str {
        match *self.request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        }
    }

    fn read(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        on.check_accept()?;
        let Some(name) = &on.place.name else {
            let list = self
                .server
                .list(&on.resource, on.place.namespace(), &on.query.list_options()?)?;
            return on.answer().list(&list);
        };
        let object = self.server.get(&on.resource, on.place.namespace(), name)?;
        match &on.version.scale {
            Some(paths) if on.subresource == Some(Subresource::Scale) => {
                on.answer().scale(&scale::of(&object, paths))
            }
            _ => on.answer().object(StatusCode::OK, &object),
        }
    }

    fn create(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        on.check_accept()?;
        negotiate::check_body_type(self.request.headers())?;
        let mut options = on.query.write_options(Verb::Create, self.manager(), &self.user)?;
        let body = negotiate::body(self.request.headers(), self.request.body(), on.kind)?;
        options.duplicates = body.duplicates;
        let body = body.object;
        let target = Target {
            name: "",
            ..on.target()
        };
        on.written(&self.server.create_at(target, body, &options)?)
    }

    fn update(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        on.check_accept()?;
        let mut options = on.query.write_options(Verb::Update, self.manager(), &self.user)?;
        let body = negotiate::body(self.request.headers(), self.request.body(), on.kind)?;
        options.duplicates = body.duplicates;
        let body = body.object;
        on.written(&self.server.update_at(on.target(), body, &options)?)
    }

    fn patch(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        negotiate::check_patch_type(self.request.headers(), on.kind)?;
        on.check_accept()?;
        let verb = if negotiate::is_apply(self.request.headers()) {
            Verb::Apply
        } else {
            Verb::Patch
        };
        let mut options = on.query.write_options(verb, self.manager(), &self.user)?;
        let lenient = options.field_validation == FieldValidation::Ignore;
        let patch = match negotiate::patch(self.request.headers(), self.request.body(), on.kind, lenient) {
            Ok((patch, duplicates)) => {
                options.duplicates = duplicates;
                patch
            }
            // A patch is read once there is something to patch.
            Err(status) => {
                let name = on.place.name.as_deref().unwrap_or_default();
                if verb != Verb::Apply {
                    self.server.get(&on.resource, on.place.namespace(), name)?;
                }
                return Err(status);
            }
        };
        on.written(&self.server.patch_at(on.target(), &patch, &options)?)
    }

    fn delete(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        let options = self.delete_options(on)?;
        let name = on.place.name.as_deref().unwrap_or_default();
        let deleted = self
            .server
            .delete_at(&on.resource, on.place.namespace(), name, &options)?;
        let response = if deleted.gone && !strategy::shows_deleted(&on.resource) {
            on.gone(&deleted.object)
        } else {
            on.answer().object(StatusCode::OK, &deleted.object)
        };
        response.map(|response| respond::with_warnings(response, &deleted.warnings))
    }

    fn delete_options(&self, on: &On<'_>) -> Result<DeleteOptions, Status> {
        on.check_accept()?;
        if !self.request.body().is_empty() {
            negotiate::check_body_type(self.request.headers())?;
        }
        on.query.delete_options(self.request.body(), &self.user)
    }

    fn delete_collection(&self, on: &On<'_>) -> Result<Response<Body>, Status> {
        let options = self.delete_options(on)?;
        let selected = on.query.list_options()?;
        let list = self
            .server
            .delete_collection(&on.resource, on.place.namespace(), &selected, &options)?;
        on.answer().list(&list)
    }

    fn watch(&self, on: &On<'_>, cut: BoxFuture<'static, ()>) -> Result<Response<Body>, Status> {
        let options = on.query.watch_options()?;
        let watch = self
            .server
            .watch(&on.resource, on.place.namespace(), options.revision, &options)?;
        let events = watch.map(on.answer().event_encoder()?);
        let broken = futures::stream::once(async { Err(BoxError::from(Dropped)) });
        let is_cut = Arc::new(AtomicBool::new(false));
        let ends = {
            let is_cut = Arc::clone(&is_cut);
            async move {
                cut.await;
                is_cut.store(true, Ordering::Relaxed);
            }
        };
        // A watch that ends by itself ends well.
        let broken = broken.filter(move |_| std::future::ready(is_cut.load(Ordering::Relaxed)));
        let body = Body::from_stream(events.take_until(Box::pin(ends)).chain(broken));
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, respond::JSON);
        Ok(response)
    }

    /// Returns the field manager of a client that names none: the first part of its user agent.
    fn manager(&self) -> &str {
        let agent = self
            .request
            .headers()
            .get(header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok());
        agent
            .and_then(|agent| agent.split('/').next())
            .filter(|agent| !agent.is_empty())
            .unwrap_or(&self.user)
    }
}

/// What a request works on, once it is known to be served.
struct On<'a> {
    resource: Resource,
    kind: &'a Arc<Kind>,
    version: &'a Version,
    place: &'a Place,
    subresource: Option<Subresource>,
    query: Query,
    accept: Accept,
    clock: &'a Clock,
}

impl On<'_> {
    /// Refuses a client that takes no form in which this could be answered.
    fn check_accept(&self) -> Result<(), Status> {
        self.accept.choose(respond::FORMS).map(drop)
    }

    fn answer(&self) -> Answer<'_> {
        Answer {
            kind: self.kind,
            version: self.version,
            accept: &self.accept,
            query: &self.query,
            clock: self.clock,
        }
    }

    fn target(&self) -> Target<'_> {
        Target {
            resource: &self.resource,
            version: Some(&self.place.version),
            namespace: self.place.namespace(),
            name: self.place.name.as_deref().unwrap_or_default(),
            subresource: self.subresource,
        }
    }

    fn written(&self, written: &Written) -> Result<Response<Body>, Status> {
        if self.subresource == Some(Subresource::Scale) {
            return self.answer().scale(&written.object);
        }
        self.answer().written(written)
    }

    /// Answers a deletion after which there is nothing left.
    fn gone(&self, last: &Value) -> Result<Response<Body>, Status> {
        let details = Details {
            uid: metadata::uid(last).to_owned(),
            ..Details::of(&self.resource, metadata::name(last))
        };
        let success = serde_json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details.to_json(),
        });
        self.answer().plain(StatusCode::OK, &success)
    }
}

fn subresource_of(kind: &Kind, version: &Version, place: &Place) -> Result<Option<Subresource>, Status> {
    match place.subresource.as_deref() {
        None => Ok(None),
        Some("status") if version.status => Ok(Some(Subresource::Status)),
        Some("scale") if version.scale.is_some() => Ok(Some(Subresource::Scale)),
        Some("finalize") if kind.resource == NAMESPACES => Ok(Some(Subresource::Finalize)),
        Some(_) if kind.custom => {
            let name = place.name.as_deref().unwrap_or_default();
            Err(Status::not_found(&kind.resource, name))
        }
        Some(_) => Err(Status::no_such_resource()),
    }
}
