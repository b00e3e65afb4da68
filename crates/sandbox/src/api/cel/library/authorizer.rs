//! `authorizer`: the sandbox has no authorization, so every check is allowed.

use cel::common::types::{CelBool, CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env};

use super::{Answer, Arguments};

static AUTHORIZER: Type = Type::new_unspecified_type("kubernetes.authorization.Authorizer");
static PATH: Type = Type::new_unspecified_type("kubernetes.authorization.PathCheck");
static GROUP: Type = Type::new_unspecified_type("kubernetes.authorization.GroupCheck");
static RESOURCE: Type = Type::new_unspecified_type("kubernetes.authorization.ResourceCheck");
static DECISION: Type = Type::new_unspecified_type("kubernetes.authorization.Decision");

/// A step of a check; nothing depends on what it is about.
#[derive(Clone, Copy, Debug)]
struct Step(&'static Type);

impl Val for Step {
    fn get_type(&self) -> &Type {
        self.0
    }

    fn cel_type() -> &'static Type {
        &AUTHORIZER
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl StaticVal for Step {}

/// Returns what `authorizer` stands for.
pub(in super::super::super) fn authorizer() -> Box<dyn Val> {
    Box::new(Step(&AUTHORIZER))
}

/// Returns what `authorizer.requestResource` stands for.
pub(in super::super::super) fn request_resource() -> Box<dyn Val> {
    Box::new(Step(&RESOURCE))
}

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    let to_path: cel::common::functions::Function = |_| step(&PATH);
    let to_group: cel::common::functions::Function = |_| step(&GROUP);
    let to_resource: cel::common::functions::Function = |_| step(&RESOURCE);
    let to_decision: cel::common::functions::Function = |_| step(&DECISION);
    let to_authorizer: cel::common::functions::Function = |_| step(&AUTHORIZER);
    let steps = [
        ("path", &AUTHORIZER, 1, to_path),
        ("group", &AUTHORIZER, 1, to_group),
        ("serviceAccount", &AUTHORIZER, 2, to_authorizer),
        ("resource", &GROUP, 1, to_resource),
        ("subresource", &RESOURCE, 1, to_resource),
        ("namespace", &RESOURCE, 1, to_resource),
        ("name", &RESOURCE, 1, to_resource),
        ("fieldSelector", &RESOURCE, 1, to_resource),
        ("labelSelector", &RESOURCE, 1, to_resource),
        ("check", &PATH, 1, to_decision),
        ("check", &RESOURCE, 1, to_decision),
        ("allowed", &DECISION, 0, |_| truth(true)),
        ("errored", &DECISION, 0, |_| truth(false)),
        ("reason", &DECISION, 0, nothing),
        ("error", &DECISION, 0, nothing),
    ];
    for (name, of, texts, function) in steps {
        let id = format!("{}.{name}", of.name());
        let texts = (0..texts).map(|_| STRING_TYPE).collect();
        environment.add_member_overload(name, &id, of.to_owned(), texts, function)?;
    }
    Ok(())
}

fn step<'b, 'v>(of: &'static Type) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Step(of)))
}

fn truth<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn nothing<'b, 'v>(_: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from("")))
}
