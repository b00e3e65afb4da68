//! Admission policies: the sandbox beside a real API server, which must say the same of the same requests.

mod both;
mod expressions;
mod generated;
mod objects;
mod sandboxed;
mod scenarios;
