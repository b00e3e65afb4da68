//! What several test files share: the crate `testing`, and here what starts the program, whose place only an integration test
//! knows.

pub use cutover_testing::*;

pub mod replica;
pub mod served;
pub mod terminal;
