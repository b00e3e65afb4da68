//! Cells that don't hold yet, and what happens in them instead. A cell that is mended comes off the list with the change
//! that mends it; docs/safety.md shows the list.

use super::Expected;

pub const EXPECTED: &[Expected] = &[];
