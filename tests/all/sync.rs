//! Sync: from a revision in Git to objects in the API server.
