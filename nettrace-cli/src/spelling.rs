//! The spelling of levels and other simple values, in text, JSON and filters.

pub(crate) use nettrace_views::{
    model::{FileTime, OneLine, event_name, to_json},
    text::{level, not_finite},
};
