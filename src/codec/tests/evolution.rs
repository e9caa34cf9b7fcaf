//! Types change: a field is added with a default, another is removed, what is left is read.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, Json};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Old {
    id: i64,
    gone: Vec<String>,
    name: String,
}

/// Without `gone`, in another order, with two new fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct New {
    name: String,
    #[serde(default = "five")]
    level: i32,
    id: i64,
    #[serde(default)]
    note: Option<String>,
}

fn five() -> i32 {
    5
}

fn old() -> impl Strategy<Value = Old> {
    (any::<i64>(), any::<Vec<String>>(), any::<String>()).prop_map(|(id, gone, name)| Old { id, gone, name })
}

fn reads_as_new(old: &Old, new: &New) -> Result<(), TestCaseError> {
    let expected = New { name: old.name.clone(), level: 5, id: old.id, note: None };
    prop_assert_eq!(new, &expected);
    Ok(())
}

fn by_names<C: Codec<Old> + Codec<New>>(codec: &C, value: &Old) -> Result<(), TestCaseError> {
    reads_as_new(value, &codec.decode(&codec.encode(value).unwrap()).unwrap())
}

proptest! {
    #[test]
    fn json_takes_added_and_removed_fields(value in old()) {
        by_names(&Json, &value)?;
    }

    #[cfg(feature = "msgpack")]
    #[test]
    fn message_pack_takes_added_and_removed_fields(value in old()) {
        by_names(&crate::codec::MessagePack, &value)?;
    }
}

#[cfg(feature = "avro")]
mod avro {
    use super::*;
    use crate::codec::Avro;

    const OLD: &str = r#"{"type": "record", "name": "Thing", "fields": [
        {"name": "id", "type": "long"},
        {"name": "gone", "type": {"type": "array", "items": "string"}},
        {"name": "name", "type": "string"}]}"#;
    const NEW: &str = r#"{"type": "record", "name": "Thing", "fields": [
        {"name": "name", "type": "string"},
        {"name": "level", "type": "int", "default": 5},
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": null}]}"#;

    static OLD_PLAIN: Avro = Avro::text(OLD);
    static OLD_OBJECT: Avro = Avro::text(OLD).single_object();
    static NEW_OF_OLD: Avro = Avro::text(NEW).written_by(&[OLD]);
    static NEW_OBJECT: Avro = Avro::text(NEW).written_by(&[OLD]).single_object();

    proptest! {
        #[test]
        fn avro_resolves_added_and_removed_fields(value in old()) {
            reads_as_new(&value, &NEW_OF_OLD.decode(&OLD_PLAIN.encode(&value).unwrap()).unwrap())?;
            reads_as_new(&value, &NEW_OBJECT.decode(&OLD_OBJECT.encode(&value).unwrap()).unwrap())?;
        }

        #[test]
        fn avro_single_objects_of_both_schemas_are_read_side_by_side(value in old(), note: Option<String>) {
            let new = New { name: value.name.clone(), level: 1, id: value.id, note };
            let back: New = NEW_OBJECT.decode(&NEW_OBJECT.encode(&new).unwrap()).unwrap();
            prop_assert_eq!(back, new);
            reads_as_new(&value, &NEW_OBJECT.decode(&OLD_OBJECT.encode(&value).unwrap()).unwrap())?;
        }
    }

    #[test]
    fn a_new_field_without_a_default_is_a_decode_error() {
        let strict = Avro::text(
            r#"{"type": "record", "name": "Thing", "fields": [
                {"name": "name", "type": "string"}, {"name": "level", "type": "int"},
                {"name": "id", "type": "long"}]}"#,
        )
        .written_by(&[OLD]);
        let bytes = OLD_PLAIN.encode(&Old { id: 1, gone: vec![], name: "n".into() }).unwrap();
        let error = Codec::<New>::decode(&strict, &bytes).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Decode);
        assert!(error.report().contains("level"), "{}", error.report());
    }
}
