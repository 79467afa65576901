//! What rows refer to by ids up to the next sequence point: stacks, and label lists. Ids are those
//! of the source.

use std::collections::HashSet;

use nettrace_event::guid;
use nettrace_format::{Composer, FormatError, content, v6::label_list_row};
use nettrace_reader::{Event, Header, Label, LabelLists, Stack};

/// The stacks and label lists that rows may refer to.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Stacks that were left out.
    no_stacks: HashSet<u32>,
    /// Label lists that are defined with what their source leaves out.
    whole_lists: HashSet<u32>,
    /// The last activity ids of a source of version 4 or 5, and their label list.
    activities: Option<([[u8; 16]; 2], u32)>,
}

impl References {
    /// Defines stacks. Returns how many are left out.
    pub(super) fn stacks(
        &mut self,
        stacks: &[(u32, Stack<'_>)],
        composer: &mut Composer,
        out: &mut Vec<u8>,
    ) -> Result<u64, FormatError> {
        let mut left_out = 0;
        for (id, stack) in stacks {
            match composer.stack_with_id(*id, stack.addresses(), out) {
                Err(FormatError::ZeroId { .. } | FormatError::StackTooDeep { .. }) => {
                    left_out += 1;
                    self.no_stacks.insert(*id);
                }
                result => result?,
            }
        }
        Ok(left_out)
    }

    /// The stack of a row; 0 if it has none, or its own is left out.
    pub(super) fn stack(&self, header: &Header) -> u32 {
        if self.no_stacks.contains(&header.stack_id) { 0 } else { header.stack_id }
    }

    /// Defines label lists, with what `change` makes of each label.
    pub(super) fn label_lists(
        lists: LabelLists<'_>,
        mut change: impl FnMut(Label) -> Label,
        composer: &mut Composer,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let mut row = Vec::new();
        for (id, list) in lists {
            let labels: Vec<_> = list.labels.into_iter().map(&mut change).collect();
            row.clear();
            label_list_row(labels.iter().map(|label| label.borrowed()), &mut row);
            composer.label_list_with_id(id, &row, out)?;
        }
        Ok(())
    }

    /// Notes that the source defines label lists, which may replace others.
    pub(super) fn replace_lists(&mut self, lists: LabelLists<'_>) {
        lists.for_each(|(id, _)| _ = self.whole_lists.remove(&id));
    }

    /// The label list of a row of version 6, with the ids of its trace and span: a list of version
    /// 6 can leave them out, because its readers find them by the activity ids.
    pub(super) fn whole_list(
        &mut self,
        event: &Event<'_>,
        composer: &mut Composer,
        out: &mut Vec<u8>,
    ) -> Result<u32, FormatError> {
        let id = event.header.label_list;
        if id == 0 || self.whole_lists.contains(&id) {
            return Ok(id);
        }
        let mut row = Vec::new();
        label_list_row(event.labels().iter().map(|label| label.borrowed()), &mut row);
        // The source does not define it. The stage counts that.
        if !row.is_empty() {
            composer.label_list_with_id(id, &row, out)?;
            self.whole_lists.insert(id);
        }
        Ok(id)
    }

    /// The label list of the two activity ids that a row of version 4 or 5 has; 0 if both are zero.
    pub(super) fn activities(
        &mut self,
        header: &Header,
        composer: &mut Composer,
        out: &mut Vec<u8>,
    ) -> Result<u32, FormatError> {
        let ids @ [activity, related] = [header.activity_id, header.related_activity_id];
        if ids == [[0; 16]; 2] {
            return Ok(0);
        }
        if let Some((_, list)) = self.activities.filter(|(last, _)| *last == ids) {
            return Ok(list);
        }
        let label = |id, label: fn([u8; 16]) -> content::Label<'static>| {
            (id != [0; 16]).then(|| label(guid::swapped(&id)))
        };
        let labels = [
            label(activity, content::Label::ActivityId),
            label(related, content::Label::RelatedActivityId),
        ];
        let mut row = Vec::new();
        label_list_row(labels.into_iter().flatten(), &mut row);
        let list = composer.label_list(&row, out)?;
        self.activities = Some((ids, list));
        Ok(list)
    }
}
