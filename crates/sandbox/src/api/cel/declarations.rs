//! What CEL offers in a kube-apiserver 1.36: every function with its signatures, and the fields of the named types.
//!
//! The list is that of `k8s.io/apiserver/pkg/cel/environment` at its default compatibility, so neither `math` nor
//! `base64` nor `cel.bind` is in it. A signature names the receiver, the arguments and the result, in the notation of
//! [`Type::read`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::{Type, split};

/// One way in which a function can be called.
#[derive(Debug)]
pub(super) struct Signature {
    pub member: bool,
    /// The receiver first, if there is one.
    pub arguments: Vec<Type>,
    pub result: Type,
}

/// Returns the signatures of a function, in the order in which they are tried.
pub(super) fn signatures(function: &str) -> Option<&'static [Signature]> {
    static ALL: LazyLock<BTreeMap<&str, Vec<Signature>>> = LazyLock::new(|| {
        let mut all = BTreeMap::<&str, Vec<Signature>>::new();
        for (function, receiver, arguments, result) in FUNCTIONS {
            let arguments = receiver.iter().copied().chain(split(arguments));
            all.entry(function).or_default().push(Signature {
                member: receiver.is_some(),
                arguments: arguments.map(Type::read).collect(),
                result: Type::read(result),
            });
        }
        for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
            let pairs = ORDERED
                .iter()
                .map(|same| (same, same))
                .chain(NUMBERS.iter().map(|(l, r)| (l, r)));
            let declared = pairs.map(|(left, right)| Signature {
                member: false,
                arguments: vec![Type::read(left), Type::read(right)],
                result: Type::Bool,
            });
            all.insert(operator, declared.collect());
        }
        all
    });
    ALL.get(function).map(Vec::as_slice)
}

/// Returns the type of a field of a named type; `None` when it has no such field.
pub(super) fn field(of: &str, name: &str) -> Option<Type> {
    let (_, fields) = FIELDS.iter().find(|(named, _)| *named == of)?;
    let (_, written) = fields.iter().find(|(field, _)| *field == name)?;
    Some(Type::read(written))
}

/// Functions that are declared, and that the interpreter doesn't have: an expression which calls one is refused by name.
pub(super) const NOT_EVALUATED: &[&str] = &[
    "duration",
    "timestamp",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "semver",
    "isSemver",
    "major",
    "minor",
    "patch",
    "format.named",
    "validate",
    "optional.unwrap",
    "unwrapOpt",
];

const REQUEST: &[(&str, &str)] = &[
    ("kind", "kubernetes.GroupVersionKind"),
    ("resource", "kubernetes.GroupVersionResource"),
    ("subResource", "string"),
    ("requestKind", "kubernetes.GroupVersionKind"),
    ("requestResource", "kubernetes.GroupVersionResource"),
    ("requestSubResource", "string"),
    ("name", "string"),
    ("namespace", "string"),
    ("operation", "string"),
    ("userInfo", "kubernetes.UserInfo"),
    ("dryRun", "bool"),
    ("options", "dyn"),
];

/// The named types that have fields.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("kubernetes.AdmissionRequest", REQUEST),
    (
        "kubernetes.GroupVersionKind",
        &[("group", "string"), ("version", "string"), ("kind", "string")],
    ),
    (
        "kubernetes.GroupVersionResource",
        &[("group", "string"), ("version", "string"), ("resource", "string")],
    ),
    (
        "kubernetes.UserInfo",
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list(string)"),
            ("extra", "map(string, list(string))"),
        ],
    ),
    (
        "kubernetes.Namespace",
        &[
            ("metadata", "kubernetes.NamespaceMetadata"),
            ("spec", "kubernetes.NamespaceSpec"),
            ("status", "kubernetes.NamespaceStatus"),
        ],
    ),
    ("kubernetes.NamespaceSpec", &[("finalizers", "list(string)")]),
    (
        "kubernetes.NamespaceStatus",
        &[
            ("conditions", "list(kubernetes.NamespaceCondition)"),
            ("phase", "string"),
        ],
    ),
    (
        "kubernetes.NamespaceCondition",
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
    (
        "kubernetes.NamespaceMetadata",
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map(string, string)"),
            ("annotations", "map(string, string)"),
            ("UID", "string"),
            ("creationTimestamp", "timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "timestamp"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list(string)"),
        ],
    ),
];

/// The types whose values have an order.
const ORDERED: &[&str] = &[
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "timestamp",
    "duration",
];

/// The numbers of different types that can be compared.
const NUMBERS: &[(&str, &str)] = &[
    ("int", "double"),
    ("int", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "int"),
    ("double", "uint"),
];

type Declared = (&'static str, Option<&'static str>, &'static str, &'static str);

#[rustfmt::skip]
const FUNCTIONS: &[Declared] = &[
    // Operators.
    ("_?_:_", None, "bool, A, A", "A"),
    ("_&&_", None, "bool, bool", "bool"),
    ("_||_", None, "bool, bool", "bool"),
    ("!_", None, "bool", "bool"),
    ("@not_strictly_false", None, "bool", "bool"),
    ("_==_", None, "A, A", "bool"),
    ("_!=_", None, "A, A", "bool"),
    ("_+_", None, "bytes, bytes", "bytes"),
    ("_+_", None, "double, double", "double"),
    ("_+_", None, "duration, duration", "duration"),
    ("_+_", None, "duration, timestamp", "timestamp"),
    ("_+_", None, "timestamp, duration", "timestamp"),
    ("_+_", None, "int, int", "int"),
    ("_+_", None, "list(A), list(A)", "list(A)"),
    ("_+_", None, "string, string", "string"),
    ("_+_", None, "uint, uint", "uint"),
    ("_-_", None, "double, double", "double"),
    ("_-_", None, "duration, duration", "duration"),
    ("_-_", None, "int, int", "int"),
    ("_-_", None, "timestamp, duration", "timestamp"),
    ("_-_", None, "timestamp, timestamp", "duration"),
    ("_-_", None, "uint, uint", "uint"),
    ("_*_", None, "double, double", "double"),
    ("_*_", None, "int, int", "int"),
    ("_*_", None, "uint, uint", "uint"),
    ("_/_", None, "double, double", "double"),
    ("_/_", None, "int, int", "int"),
    ("_/_", None, "uint, uint", "uint"),
    ("_%_", None, "int, int", "int"),
    ("_%_", None, "uint, uint", "uint"),
    ("-_", None, "double", "double"),
    ("-_", None, "int", "int"),
    ("@in", None, "A, list(A)", "bool"),
    ("@in", None, "A, map(A, B)", "bool"),
    ("_[_]", None, "list(A), int", "A"),
    ("_[_]", None, "map(A, B), A", "B"),
    ("_[_]", None, "optional(list(A)), int", "optional(A)"),
    ("_[_]", None, "optional(map(A, B)), A", "optional(B)"),
    ("_[?_]", None, "list(A), int", "optional(A)"),
    ("_[?_]", None, "optional(list(A)), int", "optional(A)"),
    ("_[?_]", None, "map(A, B), A", "optional(B)"),
    ("_[?_]", None, "optional(map(A, B)), A", "optional(B)"),
    // The standard library.
    ("size", None, "bytes", "int"),
    ("size", None, "list(A)", "int"),
    ("size", None, "map(A, B)", "int"),
    ("size", None, "string", "int"),
    ("size", Some("bytes"), "", "int"),
    ("size", Some("list(A)"), "", "int"),
    ("size", Some("map(A, B)"), "", "int"),
    ("size", Some("string"), "", "int"),
    ("type", None, "A", "type"),
    ("dyn", None, "A", "dyn"),
    ("bool", None, "bool", "bool"),
    ("bool", None, "string", "bool"),
    ("bytes", None, "bytes", "bytes"),
    ("bytes", None, "string", "bytes"),
    ("double", None, "double", "double"),
    ("double", None, "int", "double"),
    ("double", None, "string", "double"),
    ("double", None, "uint", "double"),
    ("int", None, "int", "int"),
    ("int", None, "double", "int"),
    ("int", None, "duration", "int"),
    ("int", None, "string", "int"),
    ("int", None, "timestamp", "int"),
    ("int", None, "uint", "int"),
    ("uint", None, "uint", "uint"),
    ("uint", None, "double", "uint"),
    ("uint", None, "int", "uint"),
    ("uint", None, "string", "uint"),
    ("string", None, "string", "string"),
    ("string", None, "bool", "string"),
    ("string", None, "bytes", "string"),
    ("string", None, "double", "string"),
    ("string", None, "duration", "string"),
    ("string", None, "int", "string"),
    ("string", None, "timestamp", "string"),
    ("string", None, "uint", "string"),
    ("string", None, "net.IP", "string"),
    ("string", None, "net.CIDR", "string"),
    ("duration", None, "duration", "duration"),
    ("duration", None, "int", "duration"),
    ("duration", None, "string", "duration"),
    ("timestamp", None, "timestamp", "timestamp"),
    ("timestamp", None, "int", "timestamp"),
    ("timestamp", None, "string", "timestamp"),
    ("contains", Some("string"), "string", "bool"),
    ("endsWith", Some("string"), "string", "bool"),
    ("startsWith", Some("string"), "string", "bool"),
    ("matches", None, "string, string", "bool"),
    ("matches", Some("string"), "string", "bool"),
    ("getDate", Some("timestamp"), "", "int"),
    ("getDate", Some("timestamp"), "string", "int"),
    ("getDayOfMonth", Some("timestamp"), "", "int"),
    ("getDayOfMonth", Some("timestamp"), "string", "int"),
    ("getDayOfWeek", Some("timestamp"), "", "int"),
    ("getDayOfWeek", Some("timestamp"), "string", "int"),
    ("getDayOfYear", Some("timestamp"), "", "int"),
    ("getDayOfYear", Some("timestamp"), "string", "int"),
    ("getFullYear", Some("timestamp"), "", "int"),
    ("getFullYear", Some("timestamp"), "string", "int"),
    ("getMonth", Some("timestamp"), "", "int"),
    ("getMonth", Some("timestamp"), "string", "int"),
    ("getHours", Some("timestamp"), "", "int"),
    ("getHours", Some("timestamp"), "string", "int"),
    ("getHours", Some("duration"), "", "int"),
    ("getMinutes", Some("timestamp"), "", "int"),
    ("getMinutes", Some("timestamp"), "string", "int"),
    ("getMinutes", Some("duration"), "", "int"),
    ("getSeconds", Some("timestamp"), "", "int"),
    ("getSeconds", Some("timestamp"), "string", "int"),
    ("getSeconds", Some("duration"), "", "int"),
    ("getMilliseconds", Some("timestamp"), "", "int"),
    ("getMilliseconds", Some("timestamp"), "string", "int"),
    ("getMilliseconds", Some("duration"), "", "int"),
    // Optional values.
    ("optional.of", None, "A", "optional(A)"),
    ("optional.ofNonZeroValue", None, "A", "optional(A)"),
    ("optional.none", None, "", "optional(A)"),
    ("optional.unwrap", None, "list(optional(A))", "list(A)"),
    ("unwrapOpt", Some("list(optional(A))"), "", "list(A)"),
    ("value", Some("optional(A)"), "", "A"),
    ("hasValue", Some("optional(A)"), "", "bool"),
    ("or", Some("optional(A)"), "optional(A)", "optional(A)"),
    ("orValue", Some("optional(A)"), "A", "A"),
    ("first", Some("list(A)"), "", "optional(A)"),
    ("last", Some("list(A)"), "", "optional(A)"),
    // Strings, version 2.
    ("charAt", Some("string"), "int", "string"),
    ("indexOf", Some("string"), "string", "int"),
    ("indexOf", Some("string"), "string, int", "int"),
    ("join", Some("list(string)"), "", "string"),
    ("join", Some("list(string)"), "string", "string"),
    ("lastIndexOf", Some("string"), "string", "int"),
    ("lastIndexOf", Some("string"), "string, int", "int"),
    ("lowerAscii", Some("string"), "", "string"),
    ("replace", Some("string"), "string, string", "string"),
    ("replace", Some("string"), "string, string, int", "string"),
    ("split", Some("string"), "string", "list(string)"),
    ("split", Some("string"), "string, int", "list(string)"),
    ("substring", Some("string"), "int", "string"),
    ("substring", Some("string"), "int, int", "string"),
    ("trim", Some("string"), "", "string"),
    ("upperAscii", Some("string"), "", "string"),
    ("format", Some("string"), "list(dyn)", "string"),
    ("strings.quote", None, "string", "string"),
    // Lists, version 3.
    ("slice", Some("list(A)"), "int, int", "list(A)"),
    ("flatten", Some("list(list(A))"), "", "list(A)"),
    ("flatten", Some("list(dyn)"), "int", "list(dyn)"),
    ("lists.range", None, "int", "list(int)"),
    ("distinct", Some("list(A)"), "", "list(A)"),
    ("reverse", Some("list(A)"), "", "list(A)"),
    ("sort", Some("list(int)"), "", "list(int)"),
    ("sort", Some("list(uint)"), "", "list(uint)"),
    ("sort", Some("list(double)"), "", "list(double)"),
    ("sort", Some("list(bool)"), "", "list(bool)"),
    ("sort", Some("list(string)"), "", "list(string)"),
    ("sort", Some("list(bytes)"), "", "list(bytes)"),
    ("@sortByAssociatedKeys", Some("list(A)"), "list(B)", "list(A)"),
    // Sets.
    ("sets.contains", None, "list(A), list(A)", "bool"),
    ("sets.equivalent", None, "list(A), list(A)", "bool"),
    ("sets.intersects", None, "list(A), list(A)", "bool"),
    // Kubernetes: regular expressions and lists.
    ("find", Some("string"), "string", "string"),
    ("findAll", Some("string"), "string", "list(string)"),
    ("findAll", Some("string"), "string, int", "list(string)"),
    ("isSorted", Some("list(int)"), "", "bool"),
    ("isSorted", Some("list(uint)"), "", "bool"),
    ("isSorted", Some("list(double)"), "", "bool"),
    ("isSorted", Some("list(bool)"), "", "bool"),
    ("isSorted", Some("list(string)"), "", "bool"),
    ("isSorted", Some("list(bytes)"), "", "bool"),
    ("sum", Some("list(int)"), "", "int"),
    ("sum", Some("list(uint)"), "", "uint"),
    ("sum", Some("list(double)"), "", "double"),
    ("max", Some("list(int)"), "", "int"),
    ("max", Some("list(uint)"), "", "uint"),
    ("max", Some("list(double)"), "", "double"),
    ("max", Some("list(bool)"), "", "bool"),
    ("max", Some("list(string)"), "", "string"),
    ("max", Some("list(bytes)"), "", "bytes"),
    ("min", Some("list(int)"), "", "int"),
    ("min", Some("list(uint)"), "", "uint"),
    ("min", Some("list(double)"), "", "double"),
    ("min", Some("list(bool)"), "", "bool"),
    ("min", Some("list(string)"), "", "string"),
    ("min", Some("list(bytes)"), "", "bytes"),
    ("indexOf", Some("list(A)"), "A", "int"),
    ("lastIndexOf", Some("list(A)"), "A", "int"),
    // Kubernetes: quantities, URLs, addresses, versions, formats.
    ("quantity", None, "string", "kubernetes.Quantity"),
    ("isQuantity", None, "string", "bool"),
    ("sign", Some("kubernetes.Quantity"), "", "int"),
    ("isGreaterThan", Some("kubernetes.Quantity"), "kubernetes.Quantity", "bool"),
    ("isLessThan", Some("kubernetes.Quantity"), "kubernetes.Quantity", "bool"),
    ("compareTo", Some("kubernetes.Quantity"), "kubernetes.Quantity", "int"),
    ("asApproximateFloat", Some("kubernetes.Quantity"), "", "double"),
    ("asInteger", Some("kubernetes.Quantity"), "", "int"),
    ("isInteger", Some("kubernetes.Quantity"), "", "bool"),
    ("add", Some("kubernetes.Quantity"), "kubernetes.Quantity", "kubernetes.Quantity"),
    ("add", Some("kubernetes.Quantity"), "int", "kubernetes.Quantity"),
    ("sub", Some("kubernetes.Quantity"), "kubernetes.Quantity", "kubernetes.Quantity"),
    ("sub", Some("kubernetes.Quantity"), "int", "kubernetes.Quantity"),
    ("url", None, "string", "kubernetes.URL"),
    ("isURL", None, "string", "bool"),
    ("getScheme", Some("kubernetes.URL"), "", "string"),
    ("getHost", Some("kubernetes.URL"), "", "string"),
    ("getHostname", Some("kubernetes.URL"), "", "string"),
    ("getPort", Some("kubernetes.URL"), "", "string"),
    ("getEscapedPath", Some("kubernetes.URL"), "", "string"),
    ("getQuery", Some("kubernetes.URL"), "", "map(string, list(string))"),
    ("ip", None, "string", "net.IP"),
    ("ip", Some("net.CIDR"), "", "net.IP"),
    ("isIP", None, "string", "bool"),
    ("ip.isCanonical", None, "string", "bool"),
    ("family", Some("net.IP"), "", "int"),
    ("isUnspecified", Some("net.IP"), "", "bool"),
    ("isLoopback", Some("net.IP"), "", "bool"),
    ("isLinkLocalMulticast", Some("net.IP"), "", "bool"),
    ("isLinkLocalUnicast", Some("net.IP"), "", "bool"),
    ("isGlobalUnicast", Some("net.IP"), "", "bool"),
    ("cidr", None, "string", "net.CIDR"),
    ("isCIDR", None, "string", "bool"),
    ("containsIP", Some("net.CIDR"), "string", "bool"),
    ("containsIP", Some("net.CIDR"), "net.IP", "bool"),
    ("containsCIDR", Some("net.CIDR"), "string", "bool"),
    ("containsCIDR", Some("net.CIDR"), "net.CIDR", "bool"),
    ("prefixLength", Some("net.CIDR"), "", "int"),
    ("masked", Some("net.CIDR"), "", "net.CIDR"),
    ("semver", None, "string", "kubernetes.Semver"),
    ("semver", None, "string, bool", "kubernetes.Semver"),
    ("isSemver", None, "string", "bool"),
    ("isSemver", None, "string, bool", "bool"),
    ("isGreaterThan", Some("kubernetes.Semver"), "kubernetes.Semver", "bool"),
    ("isLessThan", Some("kubernetes.Semver"), "kubernetes.Semver", "bool"),
    ("compareTo", Some("kubernetes.Semver"), "kubernetes.Semver", "int"),
    ("major", Some("kubernetes.Semver"), "", "int"),
    ("minor", Some("kubernetes.Semver"), "", "int"),
    ("patch", Some("kubernetes.Semver"), "", "int"),
    ("format.named", None, "string", "optional(kubernetes.NamedFormat)"),
    ("validate", Some("kubernetes.NamedFormat"), "string", "optional(list(string))"),
    // Kubernetes: what somebody may do.
    ("path", Some("kubernetes.authorization.Authorizer"), "string", "kubernetes.authorization.PathCheck"),
    ("group", Some("kubernetes.authorization.Authorizer"), "string", "kubernetes.authorization.GroupCheck"),
    ("serviceAccount", Some("kubernetes.authorization.Authorizer"), "string, string",
        "kubernetes.authorization.Authorizer"),
    ("resource", Some("kubernetes.authorization.GroupCheck"), "string", "kubernetes.authorization.ResourceCheck"),
    ("subresource", Some("kubernetes.authorization.ResourceCheck"), "string",
        "kubernetes.authorization.ResourceCheck"),
    ("namespace", Some("kubernetes.authorization.ResourceCheck"), "string", "kubernetes.authorization.ResourceCheck"),
    ("name", Some("kubernetes.authorization.ResourceCheck"), "string", "kubernetes.authorization.ResourceCheck"),
    ("fieldSelector", Some("kubernetes.authorization.ResourceCheck"), "string",
        "kubernetes.authorization.ResourceCheck"),
    ("labelSelector", Some("kubernetes.authorization.ResourceCheck"), "string",
        "kubernetes.authorization.ResourceCheck"),
    ("check", Some("kubernetes.authorization.PathCheck"), "string", "kubernetes.authorization.Decision"),
    ("check", Some("kubernetes.authorization.ResourceCheck"), "string", "kubernetes.authorization.Decision"),
    ("errored", Some("kubernetes.authorization.Decision"), "", "bool"),
    ("error", Some("kubernetes.authorization.Decision"), "", "string"),
    ("allowed", Some("kubernetes.authorization.Decision"), "", "bool"),
    ("reason", Some("kubernetes.authorization.Decision"), "", "string"),
    // What the macros over two variables become.
    ("@positions", None, "list(A)", "list(int)"),
    ("@positions", None, "map(A, B)", "list(A)"),
    ("@at", None, "list(A), int", "A"),
    ("@at", None, "map(A, B), A", "B"),
    ("@insert", None, "map(A, B), A, B", "map(A, B)"),
    ("@merge", None, "map(A, B), map(A, B)", "map(A, B)"),
];
