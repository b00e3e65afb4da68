//! What is wrong with a part of a profile.

/// An expression or path that can't be compiled, or exceeds its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it stands in the object.
    pub pointer: String,
    pub message: String,
}
