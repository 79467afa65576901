//! `uuid::Uuid`, behind the feature `uuid`.

use uuid::Uuid;

use crate::{encode::PayloadEncoder, encoding::Guid, field::TraceField, schema::FieldType};

impl TraceField for Uuid {
    const TYPE: FieldType = FieldType::Guid;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.guid(self.as_bytes());
    }
}

impl TraceField<Guid> for Uuid {
    const TYPE: FieldType = FieldType::Guid;

    #[inline]
    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.guid(self.as_bytes());
    }
}
