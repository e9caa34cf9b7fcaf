//! Bytes from anywhere: an error or a value, never a panic, and nothing larger than they are.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::codec::DefaultCodec;

fn any_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn default_codecs_take_any_bytes(bytes in any_bytes()) {
        let _ = String::CODEC.decode(&bytes);
        let _ = <Vec<u8>>::CODEC.decode(&bytes);
        let _ = <Option<String>>::CODEC.decode(&bytes);
        let _ = <Vec<Option<f64>>>::CODEC.decode(&bytes);
    }
}

#[cfg(feature = "json")]
mod json {
    use super::*;
    use crate::Kind;
    use crate::codec::tests::sample::{Chain, Sample};
    use crate::codec::{Codec, Json};

    proptest! {
        #[test]
        fn json_takes_any_text(text in "[\\[\\]{}\":,0-9eE.\\-nulltrefa \\\\u]{0,60}") {
            let bytes = Bytes::from(text);
            let _ = Codec::<serde_json::Value>::decode(&Json, &bytes);
            let _ = Codec::<Sample>::decode(&Json, &bytes);
        }
    }

    #[test]
    fn json_that_is_too_deep_is_an_error() {
        let deep = Bytes::from("[".repeat(1_000_000));
        let error = Codec::<serde_json::Value>::decode(&Json, &deep).unwrap_err();
        assert_eq!(error.kind(), Kind::Decode);
        assert!(error.report().contains("recursion limit"), "{}", error.report());
        let chain = Chain::of(100);
        assert_eq!(Codec::<Chain>::decode(&Json, &Json.encode(&chain).unwrap()).unwrap(), chain);
    }
}

#[cfg(all(feature = "json", feature = "msgpack"))]
mod message_pack {
    use super::*;
    use crate::Kind;
    use crate::codec::tests::sample::{Chain, Sample};
    use crate::codec::{Codec, MessagePack};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn message_pack_takes_any_bytes(bytes in any_bytes()) {
            let _ = Codec::<Sample>::decode(&MessagePack, &bytes);
            let _ = Codec::<Vec<String>>::decode(&MessagePack, &bytes);
            let _ = Codec::<Bytes>::decode(&MessagePack, &bytes);
            let _ = Codec::<Option<u128>>::decode(&MessagePack, &bytes);
        }
    }

    #[test]
    fn message_pack_that_is_too_deep_is_an_error() {
        // Lists of one list each, read by a type that skips them.
        let deep = Bytes::from(vec![0x91; 1_000_000]);
        let error = Codec::<Chain>::decode(&MessagePack, &deep).unwrap_err();
        assert_eq!(error.kind(), Kind::Decode);
        let chain = MessagePack.encode(&Chain::of(2_000)).unwrap();
        let error = Codec::<Chain>::decode(&MessagePack, &chain).unwrap_err();
        assert!(error.report().contains("depth limit"), "{}", error.report());
    }

    /// A header that claims four gigabytes asks for no memory: the values behind it are missing.
    #[test]
    fn message_pack_lengths_are_not_believed() {
        for header in
            [&b"\xdd\xff\xff\xff\xff"[..], b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
        {
            let bytes = Bytes::from_static(header);
            assert!(Codec::<Vec<u64>>::decode(&MessagePack, &bytes).is_err());
            assert!(Codec::<String>::decode(&MessagePack, &bytes).is_err());
            assert!(Codec::<Bytes>::decode(&MessagePack, &bytes).is_err());
        }
    }
}

#[cfg(feature = "avro")]
mod avro {
    use std::collections::HashMap;

    use super::*;
    use crate::Kind;
    use crate::codec::tests::sample::{Chain, SCHEMA, Sample};
    use crate::codec::{Avro, Codec};

    /// Every kind of schema, to be read as another record so that resolution runs too.
    const ALL: &str = r#"{"type": "record", "name": "All", "fields": [
        {"name": "a", "type": {"type": "array", "items": ["null", "string", "bytes"]}},
        {"name": "b", "type": {"type": "map", "values": "boolean"}},
        {"name": "c", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "e", "type": {"type": "bytes", "logicalType": "big-decimal"}},
        {"name": "f", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "g", "type": {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}},
        {"name": "h", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "i", "type": {"type": "int", "logicalType": "date"}},
        {"name": "j", "type": ["null", "All"]}]}"#;
    const CHAIN: &str = r#"{"type": "record", "name": "Chain", "fields": [
        {"name": "next", "type": ["null", "Chain"], "default": null}]}"#;
    const CHAIN_OF_MORE: &str = r#"{"type": "record", "name": "Chain", "fields": [
        {"name": "next", "type": ["null", "Chain"], "default": null},
        {"name": "more", "type": "int", "default": 1}]}"#;

    static SAMPLES: Avro = Avro::text(SCHEMA);
    static ALL_OWN: Avro = Avro::text(ALL);
    static ONE: Avro = Avro::text(r#"{"type": "record", "name": "All", "fields": [
        {"name": "a", "type": {"type": "array", "items": ["null", "string", "bytes"]}}, {"name": "j", "type": ["null", "All"]}]}"#)
        .written_by(&[ALL]);
    static CHAINS: Avro = Avro::text(CHAIN);
    static RESOLVED_CHAINS: Avro = Avro::text(CHAIN_OF_MORE).written_by(&[CHAIN]);

    /// Each single field's type with short inputs, so that arbitrary bytes often get past the lengths.
    const PARTS: [&str; 8] = [
        r#"{"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}"#,
        r#"{"type": "bytes", "logicalType": "big-decimal"}"#,
        r#"{"type": "string", "logicalType": "uuid"}"#,
        r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#,
        r#"{"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}"#,
        r#"{"type": "enum", "name": "E", "symbols": ["X", "Y"]}"#,
        r#"{"type": "map", "values": ["null", "int"]}"#,
        r#"{"type": "array", "items": {"type": "array", "items": "double"}}"#,
    ];

    fn take(codec: &Avro, bytes: &Bytes) {
        let _ = Codec::<serde_json::Value>::decode(codec, bytes);
        let _ = Codec::<String>::decode(codec, bytes);
        let _ = Codec::<Bytes>::decode(codec, bytes);
        let _ = Codec::<Option<i32>>::decode(codec, bytes);
        let _ = Codec::<HashMap<String, Option<bool>>>::decode(codec, bytes);
        let _ = Codec::<Sample>::decode(codec, bytes);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn avro_takes_any_bytes(bytes in any_bytes()) {
            for codec in [&SAMPLES, &ALL_OWN, &ONE, &CHAINS, &RESOLVED_CHAINS] {
                take(codec, &bytes);
            }
        }
    }

    #[test]
    fn avro_parts_take_any_bytes() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(500));
        for part in PARTS {
            let (own, other) = (Avro::text(part), Avro::text(r#"["null", "string"]"#).written_by(&PARTS[..1]));
            let short = vec(prop_oneof![0_u8..40, any::<u8>()], 0..24).prop_map(Bytes::from);
            runner
                .run(&short, |bytes| {
                    take(&own, &bytes);
                    take(&other, &bytes);
                    Ok(())
                })
                .unwrap();
        }
    }

    #[test]
    fn avro_that_is_too_deep_is_an_error_and_what_is_allowed_fits_the_stack() {
        let deeper = Bytes::from(vec![2; 100_000]);
        for (codec, links, limit) in [(&CHAINS, 64, "64 levels"), (&RESOLVED_CHAINS, 8, "8 unions")] {
            let chain = Chain::of(links);
            let bytes = CHAINS.encode(&chain).unwrap();
            assert_eq!(Codec::<Chain>::decode(codec, &bytes).unwrap(), chain);
            let error = Codec::<Chain>::decode(codec, &deeper).unwrap_err();
            assert_eq!(error.kind(), Kind::Decode);
            assert!(error.report().contains(limit), "{}", error.report());
        }
    }

    /// The decoder alone would answer a cut-off string or union with a null.
    #[test]
    fn avro_that_is_cut_off_is_an_error_with_either_schema() {
        let bytes = Avro::text(PARTS[6]).encode(&HashMap::from([("key".to_owned(), Some(7))])).unwrap();
        let resolving = Avro::text(r#"{"type": "map", "values": ["null", "long"]}"#).written_by(&PARTS[6..7]);
        for length in 0..bytes.len() {
            let cut = bytes.slice(..length);
            assert!(Codec::<HashMap<String, Option<i64>>>::decode(&resolving, &cut).is_err(), "{length}");
            assert!(Codec::<HashMap<String, Option<i32>>>::decode(&Avro::text(PARTS[6]), &cut).is_err(), "{length}");
        }
    }
}
