//! Cells that don't hold yet, and what happens in them instead. A cell that is fixed comes off the list with the change
//! that fixes it; docs/explanation/safety.md shows the list.

use super::Expected;

pub const EXPECTED: &[Expected] = &[];
