//! The interface of levels 1 to 6.

use super::history::View;
use super::tokens::Tokens;

/// The search of a level.
pub(super) trait Search: Send {
    /// Converts the block to tokens, except the last literals. Returns the start of these.
    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize;

    /// Reduces all positions in the tables.
    fn lower(&mut self, by: u32);
}
