//! The interface of the levels.

use super::history::View;
use super::tokens::Tokens;

/// What a level does to find matches.
pub(super) trait Search: Send {
    /// Turns the block into tokens, but for the last literals; gives where these begin.
    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize;

    /// Lowers all places in tables.
    fn lower(&mut self, by: u32);
}
