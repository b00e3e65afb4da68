//! Structural schemas of CRDs and built-in kinds.
