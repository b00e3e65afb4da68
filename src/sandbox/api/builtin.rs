//! The built-in kinds: names, verbs' facts, schemas and defaults.
