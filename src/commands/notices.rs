//! Warnings about the files that users write.

use kubexm_config::Notice;
use kubexm_types::event::Events;

/// Emits one warning for each notice.
pub(crate) fn emit(notices: &[Notice], events: &Events) {
    for notice in notices {
        events.warn(notice.to_string());
    }
}
