//! The API server of the sandbox.

// What the server decides, as pure functions: no I/O, no async.
/// Server-side apply and the ownership of fields.
pub mod apply;
/// The kinds that every API server serves without a CRD.
pub mod builtin;
/// Sets of fields and their `FieldsV1` form.
pub mod fieldset;
/// `OpenAPI` documents of what is served.
pub mod openapi;
/// JSON patch, merge patch, strategic merge patch.
pub mod patch;
/// Structural schemas: validation, defaults, pruning.
pub mod schema;
/// Label and field selectors.
pub mod selector;
/// Lists as tables, for `kubectl get`.
pub mod table;
