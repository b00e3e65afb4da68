//! One policy and one binding, compiled: what a write has to fulfil, and what is said when it doesn't.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::Context;
use cel::ExecutionError;
use cel::common::traits::Indexer;
use cel::common::types::{MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use serde_json::Value;

use super::super::cel::{self as language, CelValue, Expression, Scope, authorizer};
use super::super::status::Reason;
use super::attributes::Attributes;
use super::matching::MatchResources;
use cutover_karmada::parts::Parts;

/// A compiled `ValidatingAdmissionPolicy`.
#[derive(Debug)]
pub(super) struct Policy {
    pub name: String,
    /// Whether what can't be evaluated is refused.
    pub fail: bool,
    pub params: Option<ParamKind>,
    pub constraints: MatchResources,
    conditions: Vec<Compiled>,
    variables: Vec<(String, Compiled)>,
    validations: Vec<Validation>,
    annotations: Vec<Compiled>,
    /// What all of them look at: of what is written, what was there before, and the parameters.
    objects: [Parts; 2],
    parameters: Parts,
}

/// The kind of the parameters of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParamKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A compiled `ValidatingAdmissionPolicyBinding`.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: String,
    pub policy: String,
    pub params: Option<ParamRef>,
    pub resources: Option<MatchResources>,
    pub deny: bool,
    pub warn: bool,
}

/// Which objects are the parameters.
#[derive(Clone, Debug)]
pub(super) struct ParamRef {
    pub name: String,
    pub namespace: String,
    pub selector: Option<super::super::selector::Selector>,
    pub deny_when_missing: bool,
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub message: String,
    pub reason: Reason,
}

/// What a policy says of a write with one parameter.
#[derive(Debug, Default)]
pub(super) struct PolicyResult {
    /// Those of validations: the binding says what becomes of them.
    pub failed: Vec<Refusal>,
    /// Those of audit annotations, which deny whatever the binding says.
    pub denied: Vec<Refusal>,
}

/// The names of what is written and of what was there before, and of the parameters.
const OBJECTS: [&str; 2] = ["object", "oldObject"];
const PARAMS: &str = "params";

/// What was compiled, or why it could not be.
type Compiled = Result<Expression, String>;

#[derive(Debug)]
struct Validation {
    expression: Compiled,
    message: String,
    message_expression: Option<Compiled>,
    reason: Reason,
}

impl Validation {
    /// Returns the message that an expression makes, if it makes one that can be shown.
    fn made_message(&self, context: &Context<'_, 'static>) -> Option<String> {
        const LONGEST: usize = 5 * 1024;
        let value = evaluate(self.message_expression.as_ref()?, context).ok()?;
        let message = language::text(value.as_ref())?.trim();
        let shown = !message.is_empty() && message.len() <= LONGEST && !message.contains('\n');
        shown.then(|| message.to_owned())
    }
}

/// What the expressions of a policy are about, whatever the parameters: made once for all of them.
pub(super) struct Subject<'a> {
    attributes: &'a Attributes<'a>,
    /// The version of the resource that the policy matched.
    version: &'a str,
    context: Context<'static, 'static>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(policy: &Policy, attributes: &'a Attributes<'a>, version: &'a str) -> Self {
        let mut context = language::context();
        for ((name, parts), object) in OBJECTS
            .iter()
            .zip(&policy.objects)
            .zip([attributes.object, attributes.old])
        {
            bind(&mut context, name, &parts.cut(&attributes.seen(object, version)));
        }
        bind(&mut context, "namespaceObject", &Value::Null);
        let asked = attributes.version.name.as_str();
        bind(&mut context, "request", &attributes.request(asked, version));
        context.add_variable_as_val("authorizer", authorizer::authorizer());
        context.add_variable_as_val("authorizer.requestResource", authorizer::request_resource());
        Self {
            attributes,
            version,
            context,
        }
    }
}

impl std::fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} {}", self.operation, self.resource(), self.name)
    }
}

/// Returns the names that the expressions of a policy may use.
pub(super) fn scope(params: bool, may_authorize: bool) -> Scope {
    let mut scope = Scope::default()
        .with("object", "dyn")
        .with("oldObject", "dyn")
        .with("namespaceObject", "kubernetes.Namespace")
        .with("request", "kubernetes.AdmissionRequest");
    if params {
        scope = scope.with("params", "dyn");
    }
    if may_authorize {
        scope = scope
            .with("authorizer", "kubernetes.authorization.Authorizer")
            .with(
                "authorizer.requestResource",
                "kubernetes.authorization.ResourceCheck",
            );
    }
    scope
}

impl Policy {
    /// Compiles a policy. What it can't compile fails when it is evaluated, as in a real server.
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let params = spec
            .get("paramKind")
            .filter(|kind| !kind.is_null())
            .map(ParamKind::of);
        let mut with_authorizer = scope(params.is_some(), true).composed();
        let mut without = scope(params.is_some(), false).composed();
        let mut variables = Vec::new();
        for variable in list("variables") {
            let name = text(variable, "name");
            let compiled = Expression::compile(&text(variable, "expression"), &with_authorizer);
            let of = compiled
                .as_ref()
                .map_or(language::Type::Dyn, |compiled| compiled.of().clone());
            with_authorizer.compose(&name, of.clone());
            without.compose(&name, of);
            variables.push((name, compiled));
        }
        let compile = |value: &Value, field: &str| Expression::compile(&text(value, field), &with_authorizer);
        let validation = |value: &Value| Validation {
            expression: compile(value, "expression"),
            message: text(value, "message").trim().to_owned(),
            message_expression: value["messageExpression"]
                .as_str()
                .filter(|expression| !expression.is_empty())
                .map(|expression| Expression::compile(expression, &without)),
            reason: match value["reason"].as_str() {
                Some("Forbidden") => Reason::Forbidden,
                Some("RequestEntityTooLarge") => Reason::RequestEntityTooLarge,
                Some("Unauthorized") => Reason::Unauthorized,
                _ => Reason::Invalid,
            },
        };
        let policy = Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            fail: spec["failurePolicy"] != "Ignore",
            constraints: MatchResources::of(&spec["matchConstraints"]),
            conditions: list("matchConditions")
                .map(|condition| compile(condition, "expression"))
                .collect(),
            validations: list("validations").map(validation).collect(),
            annotations: list("auditAnnotations")
                .map(|annotation| compile(annotation, "valueExpression"))
                .collect(),
            variables,
            params,
            objects: [Parts::Whole, Parts::Whole],
            parameters: Parts::Whole,
        };
        Self {
            objects: OBJECTS.map(|name| policy.parts_of(name)),
            parameters: policy.parts_of(PARAMS),
            ..policy
        }
    }

    fn parts_of(&self, name: &str) -> Parts {
        let mut all = Parts::default();
        for expression in self.expressions() {
            all.join(&expression.parts_of(name));
        }
        all
    }

    /// Returns everything that was compiled.
    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let validations = self.validations.iter().flat_map(|validation| {
            std::iter::once(&validation.expression).chain(&validation.message_expression)
        });
        let variables = self.variables.iter().map(|(_, variable)| variable);
        let all = self.conditions.iter().chain(variables).chain(validations);
        all.chain(&self.annotations).flatten()
    }

    /// Says what is wrong with a write; `namespace` is the one that it is in.
    pub(super) fn evaluate(&self, subject: &Subject<'_>, params: &Value, namespace: &Value) -> PolicyResult {
        let mut context = subject.context.new_inner_scope();
        bind(&mut context, PARAMS, &self.parameters.cut(params));
        match self.is_meant(&context) {
            Ok(true) => {}
            Ok(false) => return PolicyResult::default(),
            Err(message) => {
                return PolicyResult {
                    failed: self.failure(message).into_iter().collect(),
                    denied: Vec::new(),
                };
            }
        }
        // Conditions are asked before the namespace is there, and about the resource of the request.
        bind(&mut context, "namespaceObject", namespace);
        let version = subject.version;
        bind(
            &mut context,
            "request",
            &subject.attributes.request(version, version),
        );
        self.bind_variables(&mut context);
        let failed = self
            .validations
            .iter()
            .filter_map(|validation| self.broken(validation, &context))
            .collect();
        let denied = self
            .annotations
            .iter()
            .filter_map(|annotation| self.unannotated(annotation, &context))
            .collect();
        PolicyResult { failed, denied }
    }

    /// Returns whether all conditions hold; one that doesn't hold outweighs those that can't be evaluated.
    fn is_meant(&self, context: &Context<'_, 'static>) -> Result<bool, String> {
        let mut errors: Vec<String> = Vec::new();
        for condition in &self.conditions {
            match evaluate(condition, context) {
                Ok(value) if language::truth(value.as_ref()) == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if !self.fail => Ok(false),
            [error] => Err(error.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Makes `variables`: each is evaluated with those before it, and fails only where it is used.
    fn bind_variables(&self, context: &mut Context<'_, 'static>) {
        let mut variables = Variables::default();
        for (name, compiled) in &self.variables {
            context.add_variable_as_val("variables", Box::new(variables.clone()));
            let value = match compiled {
                Ok(expression) => expression
                    .evaluate(context)
                    .map_err(|error| format!("composited variable \"{name}\" fails to evaluate: {error}")),
                Err(error) => Err(format!(
                    "composited variable \"{name}\" fails to compile: {error}"
                )),
            };
            variables.0 = Arc::new(
                variables
                    .0
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .chain([(name.clone(), value)])
                    .collect(),
            );
        }
        context.add_variable_as_val("variables", Box::new(variables));
    }

    fn broken(&self, validation: &Validation, context: &Context<'_, 'static>) -> Option<Refusal> {
        let value = match evaluate(&validation.expression, context) {
            Ok(value) => value,
            Err(error) => return self.failure(error),
        };
        if language::truth(value.as_ref()) == Some(true) {
            return None;
        }
        let source = validation
            .expression
            .as_ref()
            .map_or("", |expression| expression.source().trim());
        let message = validation
            .made_message(context)
            .or_else(|| Some(validation.message.clone()).filter(|message| !message.is_empty()))
            .unwrap_or_else(|| format!("failed expression: {source}"));
        Some(Refusal {
            message,
            reason: validation.reason,
        })
    }

    fn unannotated(&self, annotation: &Compiled, context: &Context<'_, 'static>) -> Option<Refusal> {
        // A value is for the audit log, which the sandbox doesn't have.
        evaluate(annotation, context)
            .err()
            .and_then(|error| self.failure(error))
    }

    /// Returns what an error of an evaluation comes to.
    pub(super) fn failure(&self, message: String) -> Option<Refusal> {
        self.fail.then_some(Refusal {
            message,
            reason: Reason::Invalid,
        })
    }
}

impl ParamKind {
    fn of(kind: &Value) -> Self {
        let text = |field: &str| kind[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or(("", text("apiVersion")));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text("kind").to_owned(),
        }
    }
}

impl Binding {
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let acts = |action: &str| {
            let actions = spec["validationActions"].as_array();
            actions.is_some_and(|actions| actions.iter().any(|listed| listed == action))
        };
        let said = |field: &str| spec.get(field).filter(|value| !value.is_null());
        Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            params: said("paramRef").map(ParamRef::of),
            resources: said("matchResources").map(MatchResources::of),
            deny: acts("Deny"),
            warn: acts("Warn"),
        }
    }
}

impl ParamRef {
    fn of(reference: &Value) -> Self {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        let selector = reference.get("selector").filter(|selector| !selector.is_null());
        Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(|selector| {
                super::super::selector::Selector::from_label_selector(selector).unwrap_or_default()
            }),
            deny_when_missing: reference["parameterNotFoundAction"] == "Deny",
        }
    }
}

fn bind(context: &mut Context<'_, 'static>, name: &str, value: &Value) {
    context.add_variable_as_val(name, language::from_json(value));
}

fn evaluate(compiled: &Compiled, context: &Context<'_, 'static>) -> Result<CelValue, String> {
    match compiled {
        Err(error) => Err(format!("compilation error: compilation failed: {error}")),
        Ok(expression) => expression
            .evaluate(context)
            .map_err(|error| format!("expression '{}' resulted in error: {error}", expression.source())),
    }
}

/// `variables`: what each of them came to.
#[derive(Clone, Debug, Default)]
struct Variables(Arc<BTreeMap<String, Result<CelValue, String>>>);

impl Val for Variables {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl StaticVal for Variables {}

impl Variables {
    fn value(&self, field: &dyn Val) -> Result<CelValue, ExecutionError> {
        let name = language::text(field).unwrap_or_default();
        match self.0.get(name) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(error)) => Err(ExecutionError::function_error("variables", error)),
            None => Err(ExecutionError::no_such_key(name)),
        }
    }
}

impl Indexer for Variables {
    fn get<'b, 'v>(&'b self, field: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.value(field).map(CowVal::Owned)
    }

    fn steal<'v>(self: Box<Self>, field: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.value(field).map(|value| value as Box<dyn Val + 'v>)
    }
}
