//! Admission policies: the sandbox beside a real API server, which must say the same of the same requests.

mod both;
mod expressions;
mod fence;
mod generated;
mod objects;
mod ratcheting;
mod sandboxed;
mod scenarios;
