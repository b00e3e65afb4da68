//! Sets of fields, as managedFields records them (FieldsV1).
