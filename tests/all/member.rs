//! The member's simulators through an API server.
