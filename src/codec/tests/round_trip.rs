//! What is written is read back equal.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use proptest::prelude::*;

use super::sample::{Sample, finite_f64, samples};
use crate::Kind;
use crate::codec::{Codec, DefaultCodec, Json, Nullable, Raw, Utf8};

fn same<V: PartialEq + Debug + 'static>(codec: &dyn Codec<V>, value: &V) -> Result<(), TestCaseError> {
    let bytes = codec.encode_nullable(value).map_err(|e| TestCaseError::fail(e.report()))?;
    let back = codec.decode_nullable(bytes.as_ref()).map_err(|e| TestCaseError::fail(e.report()))?;
    prop_assert_eq!(&back, value);
    Ok(())
}

/// By default and by every codec for serde types.
fn same_by_all<V>(value: &V) -> Result<(), TestCaseError>
where
    V: DefaultCodec + serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    same(V::CODEC, value)?;
    same::<V>(&Json, value)?;
    #[cfg(feature = "msgpack")]
    same::<V>(&crate::codec::MessagePack, value)?;
    Ok(())
}

proptest! {
    #[test]
    fn text_and_bytes_come_back(text: String, bytes: Vec<u8>) {
        same(&Utf8, &text)?;
        same(&Raw, &bytes)?;
        same(&Raw, &Bytes::from(bytes.clone()))?;
        same(&Nullable(Utf8), &Some(text.clone()))?;
        same_by_all(&text)?;
        same_by_all(&bytes)?;
        same_by_all(&Bytes::from(bytes.clone()))?;
        same(<Option<Vec<u8>>>::CODEC, &Some(bytes))?;
    }

    #[test]
    fn numbers_come_back(a: i8, b: u64, c: i64, d: u128, e in finite_f64()) {
        same_by_all(&a)?;
        same_by_all(&b)?;
        same_by_all(&c)?;
        same_by_all(&e)?;
        same::<u128>(&Json, &d)?;
    }

    #[test]
    fn structs_options_and_maps_come_back(sample in samples(), map: BTreeMap<String, Option<(u8, char)>>) {
        same_by_all(&sample)?;
        same_by_all(&Some(sample))?;
        same_by_all(&map)?;
    }

    #[test]
    fn the_default_is_the_plain_codec_of_the_type(text: String, bytes: Vec<u8>) {
        prop_assert_eq!(String::CODEC.encode(&text).unwrap(), text.as_bytes());
        prop_assert_eq!(<Option<String>>::CODEC.encode(&Some(text.clone())).unwrap(), text.as_bytes());
        prop_assert_eq!(<Vec<u8>>::CODEC.encode(&bytes).unwrap(), &bytes[..]);
        prop_assert_eq!(<Option<Bytes>>::CODEC.encode(&Some(bytes.clone().into())).unwrap(), &bytes[..]);
    }
}

#[cfg(feature = "msgpack")]
mod message_pack {
    use super::*;
    use crate::codec::MessagePack;

    #[test]
    fn floats_that_are_not_finite_come_back() {
        for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0] {
            let back: f64 = MessagePack.decode(&MessagePack.encode(&value).unwrap()).unwrap();
            assert_eq!(back.to_bits(), value.to_bits());
        }
    }

    #[test]
    fn what_follows_the_value_is_an_error() {
        for rest in [&b"\x07\x08"[..], b"\x07\xc1", b"\x07\xa5"] {
            let error = Codec::<u8>::decode(&MessagePack, &Bytes::from_static(rest)).unwrap_err();
            assert_eq!(error.kind(), Kind::Decode, "{rest:?}");
        }
    }
}

#[test]
fn json_refuses_floats_that_are_not_finite_wherever_they_are() {
    let infinite = f64::INFINITY;
    let values = BTreeMap::from([("x", vec![Some(1.0), None, Some(infinite)])]);
    let error = super::super::json::to_bytes(&values).unwrap_err();
    assert_eq!(error.kind(), Kind::Encode);
    assert!(error.report().contains("inf is not a number in JSON"), "{}", error.report());
    assert_eq!(f32::CODEC.encode(&f32::NAN).unwrap_err().kind(), Kind::Encode);
    assert_eq!(<Option<f64>>::CODEC.encode_nullable(&Some(f64::NAN)).unwrap_err().kind(), Kind::Encode);
}

#[test]
fn json_with_nulls_and_finite_floats_is_fine() {
    let value = (Some(1.5), None::<u8>, ());
    assert_eq!(super::super::json::to_bytes(&value).unwrap(), "[1.5,null,null]");
}

#[test]
fn json_keeps_text_as_it_is_and_writes_no_spaces() {
    let value = BTreeMap::from([("naïve", vec!["😀", "a\"b"])]);
    assert_eq!(super::super::json::to_bytes(&value).unwrap(), r#"{"naïve":["😀","a\"b"]}"#);
}

/// The first value of a topic is written like every later one (the model once wrapped it twice).
#[test]
fn json_text_is_encoded_once() {
    assert_eq!(Json.encode(&"hello".to_owned()).unwrap(), "\"hello\"");
}

#[test]
fn errors_name_codec_and_type_and_carry_the_cause() {
    let error = Codec::<Sample>::decode(&Json, &Bytes::from_static(b"{\"text\":1}")).unwrap_err();
    assert_eq!(error.kind(), Kind::Decode);
    assert!(error.to_string().starts_with("JSON: 10 bytes are not a `"), "{error}");
    assert!(error.to_string().contains("sample::Sample"), "{error}");
    assert!(error.report().contains("caused by: invalid type: integer `1`, expected a string"), "{}", error.report());
}

#[cfg(feature = "avro")]
mod avro {
    use std::sync::LazyLock;

    use super::*;
    use crate::codec::Avro;
    use crate::codec::tests::sample::SCHEMA;

    static PLAIN: Avro = Avro::text(SCHEMA);
    static OBJECT: Avro = Avro::text(SCHEMA).single_object();
    /// The same schema again, by another way into the type.
    static RESOLVED: LazyLock<Avro> = LazyLock::new(|| Avro::text(WIDER).written_by(&NARROWER));

    const NARROWER: [&str; 1] = [r#"{"type": "array", "items": ["null", "int"]}"#];
    const WIDER: &str = r#"{"type": "array", "items": ["null", "double"]}"#;

    proptest! {
        #[test]
        fn avro_structs_come_back(sample in samples()) {
            same(&PLAIN, &sample)?;
            same(&OBJECT, &sample)?;
            same(&Nullable(&OBJECT), &Some(sample))?;
        }

        #[test]
        fn avro_numbers_widen(values: Vec<Option<i32>>) {
            let bytes = Avro::text(NARROWER[0]).encode(&values).unwrap();
            let wide: Vec<Option<f64>> = RESOLVED.decode(&bytes).unwrap();
            prop_assert_eq!(wide, values.iter().map(|value| value.map(f64::from)).collect::<Vec<_>>());
        }

        #[test]
        fn avro_floats_come_back_to_the_bit(value in proptest::num::f64::ANY) {
            let codec = Avro::text(r#""double""#);
            let back: f64 = codec.decode(&codec.encode(&value).unwrap()).unwrap();
            prop_assert_eq!(back.to_bits(), value.to_bits());
        }

        #[test]
        fn avro_bytes_come_back(value: Vec<u8>) {
            let codec = Avro::text(r#""bytes""#);
            same(&codec, &Bytes::from(value))?;
        }
    }

    #[test]
    fn the_single_object_of_the_specification_is_written() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Test {
            a: i64,
            b: String,
        }
        let schema = r#"{"type": "record", "name": "test", "fields": [
            {"name": "a", "type": "long", "default": 42}, {"name": "b", "type": "string"}]}"#;
        let codec = Avro::parse(schema).unwrap().single_object();
        let bytes = codec.encode(&Test { a: 27, b: "foo".into() }).unwrap();
        assert_eq!(&bytes[..], [0xC3, 0x01, 232, 198, 194, 12, 97, 95, 44, 71, 54, 6, b'f', b'o', b'o']);
        assert_eq!(codec.fingerprint().unwrap(), "472c5f610cc2c6e8");
    }

    #[test]
    fn an_unknown_fingerprint_is_named() {
        let codec = Avro::text(r#""string""#).single_object();
        let other = Avro::text(r#""long""#).single_object();
        let error = Codec::<String>::decode(&codec, &other.encode(&1_i64).unwrap()).unwrap_err();
        assert_eq!(error.kind(), Kind::Decode);
        assert!(error.to_string().contains(&other.fingerprint().unwrap()), "{error}");
        assert!(error.to_string().contains(&codec.fingerprint().unwrap()), "{error}");
    }

    #[test]
    fn a_plain_datum_is_no_single_object() {
        let codec = Avro::text(r#""string""#).single_object();
        for bytes in [&b""[..], b"\xC3", b"\xC3\x01\x01", b"\x06foo"] {
            let error = Codec::<String>::decode(&codec, &Bytes::from_static(bytes)).unwrap_err();
            assert!(error.report().contains("C3 01"), "{}", error.report());
        }
    }

    #[test]
    fn a_bad_schema_is_a_configuration_error_of_every_use() {
        let codec = Avro::text(r#"{"type": "rekord"}"#);
        assert_eq!(codec.check().unwrap_err().kind(), Kind::Config);
        assert_eq!(codec.encode(&1_i64).unwrap_err().kind(), Kind::Config);
        assert!(codec.check().unwrap_err().report().contains("not an Avro schema"));
        assert_eq!(Avro::parse("nonsense").unwrap_err().kind(), Kind::Config);
        let two = Avro::text(r#""long""#).written_by(&[r#""int""#, r#""double""#]);
        assert!(two.check().unwrap_err().report().contains("single_object"));
    }

    #[test]
    fn a_value_that_does_not_fit_the_schema_is_an_encode_error() {
        let error = Avro::text(r#""long""#).encode(&"text".to_owned()).unwrap_err();
        assert_eq!(error.kind(), Kind::Encode);
        assert!(error.to_string().contains("alloc::string::String"), "{error}");
    }
}
