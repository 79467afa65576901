//! Messages about the filters of a session, for the person who has chosen them.

use nettrace_writer::{Session, Warning};

/// The most characters of it, so that the answer fits into a message.
const LONGEST: usize = 8_000;

/// The filters of a session that select nothing that is known so far, with suggestions: a line for
/// each. Before the first event of a process nothing can be said of any.
pub(crate) fn unmatched(session: &Session) -> String {
    let warnings = session.warnings().into_iter();
    let lines = warnings.filter(|warning| match warning {
        Warning::UnknownProvider { known, .. } => !known.is_empty(),
        Warning::NothingPasses { .. } => true,
        _ => false,
    });
    let mut text = lines.map(|warning| warning.to_string()).collect::<Vec<_>>().join("\n");
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}
