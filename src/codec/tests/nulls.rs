//! Null values, empty values and `Option` (cases B-22, B-23, B-24: the decoding part).

use bytes::Bytes;

use crate::Kind;
use crate::codec::{Codec, DefaultCodec, Nullable, Raw, Utf8};

const EMPTY: Bytes = Bytes::new();

/// B-23: null is `None`, empty is `Some` of nothing, and `None` is a null, for the three plain types.
#[test]
fn b23_plain_options_tell_null_from_empty() {
    fn table<V: DefaultCodec + Default + PartialEq + std::fmt::Debug>()
    where
        Option<V>: DefaultCodec,
    {
        let codec = <Option<V>>::CODEC;
        assert_eq!(codec.decode_nullable(None).unwrap(), None);
        assert_eq!(codec.decode_nullable(Some(&EMPTY)).unwrap(), Some(V::default()));
        assert_eq!(codec.encode_nullable(&None).unwrap(), None);
        assert_eq!(codec.encode_nullable(&Some(V::default())).unwrap(), Some(EMPTY));
        assert_eq!(codec.encode(&None).unwrap_err().kind(), Kind::Encode);
        assert_eq!(V::CODEC.decode_nullable(None).unwrap_err().kind(), Kind::Decode);
        assert_eq!(V::CODEC.decode_nullable(Some(&EMPTY)).unwrap(), V::default());
    }
    table::<String>();
    table::<Bytes>();
    table::<Vec<u8>>();
}

/// The text `null` is text.
#[test]
fn b23_the_word_null_is_a_string_to_a_string() {
    let word = Bytes::from_static(b"null");
    assert_eq!(<Option<String>>::CODEC.decode(&word).unwrap().as_deref(), Some("null"));
    assert_eq!(<Option<String>>::CODEC.encode(&Some("null".to_owned())).unwrap(), word);
    assert_eq!(<Option<Vec<u8>>>::CODEC.encode(&Some(b"null".to_vec())).unwrap(), word);
}

#[cfg(feature = "json")]
mod json {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::codec::Json;

    #[derive(Debug, PartialEq, Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Order {
        id: u64,
        note: Option<String>,
    }

    /// B-23 for ten more types: `None` is a null in both directions, empty is an error, the text is never written.
    #[test]
    fn b23_options_of_serde_types_map_null_to_none() {
        fn table<V>(value: V)
        where
            V: Serialize + serde::de::DeserializeOwned + PartialEq + Debug + 'static,
        {
            let codec = <Option<V>>::CODEC;
            assert_eq!(codec.decode_nullable(None).unwrap(), None);
            assert_eq!(codec.decode_nullable(Some(&EMPTY)).unwrap_err().kind(), Kind::Decode);
            assert_eq!(codec.encode_nullable(&None).unwrap(), None);
            assert_eq!(codec.encode(&None).unwrap_err().kind(), Kind::Encode);
            let bytes = codec.encode_nullable(&Some(value)).unwrap().unwrap();
            assert_ne!(bytes, "null");
            assert!(codec.decode_nullable(Some(&bytes)).unwrap().is_some());
            let null = V::CODEC.decode_nullable(None).unwrap_err();
            assert_eq!(null.kind(), Kind::Decode);
            assert!(null.to_string().contains("take `Option<"), "{null}");
        }
        table(1_u8);
        table(-1_i64);
        table(1.5_f64);
        table(true);
        table('x');
        table(Order { id: 1, note: None });
        table(vec![1_u32, 2]);
        table(BTreeMap::from([("a".to_owned(), 1)]));
        table((1_u8, "x".to_owned()));
        table(vec![Some("x".to_owned()), None]);
    }

    #[test]
    fn the_text_null_of_others_is_none() {
        assert_eq!(<Option<Order>>::CODEC.decode(&Bytes::from_static(b" null ")).unwrap(), None);
    }

    #[test]
    fn types_for_which_null_is_a_value_get_it() {
        assert_eq!(serde_json::Value::CODEC.decode_nullable(None).unwrap(), serde_json::Value::Null);
        assert_eq!(serde_json::Value::CODEC.encode_nullable(&serde_json::Value::Null).unwrap(), None);
        <()>::CODEC.decode_nullable(None).unwrap();
        assert_eq!(<Option<Option<u8>>>::CODEC.encode_nullable(&Some(None)).unwrap(), None);
    }

    #[test]
    fn nullable_lifts_a_codec_and_json_alone_knows_no_null() {
        let codec: &dyn Codec<Option<Order>> = &Nullable(Json);
        assert_eq!(codec.encode_nullable(&None).unwrap(), None);
        assert_eq!(codec.decode_nullable(None).unwrap(), None);
        assert_eq!(codec.decode(&Bytes::from_static(b"null")).unwrap_err().kind(), Kind::Decode);
        let error = Codec::<Option<Order>>::decode_nullable(&Json, None).unwrap_err();
        assert!(error.to_string().contains("`Nullable(codec)` does"), "{error}");
    }
}

/// B-22: an undecodable value is a decode error with its cause, not a panic and not a retryable one.
#[test]
fn b22_a_poison_value_is_a_decode_error() {
    let error = String::CODEC.decode(&Bytes::from_static(b"\xc3\x28")).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Decode, false));
    assert!(error.report().contains("caused by: invalid utf-8"), "{}", error.report());
}

/// B-24: the key `ff fe` is bytes to who takes bytes, and an error to who wants text.
#[test]
fn b24_bytes_stay_bytes_and_text_must_be_text() {
    let key = Bytes::from_static(b"\xff\xfe");
    assert_eq!(Bytes::CODEC.decode(&key).unwrap(), key);
    assert_eq!(<Vec<u8>>::CODEC.decode(&key).unwrap(), key);
    assert_eq!(<Option<Bytes>>::CODEC.decode(&key).unwrap(), Some(key.clone()));
    let error = String::CODEC.decode(&key).unwrap_err();
    assert_eq!(error.kind(), Kind::Decode);
    assert_eq!(error.to_string(), "UTF-8: 2 bytes are not a `alloc::string::String`");
}

#[test]
fn codecs_are_const() {
    static TEXT: &dyn Codec<String> = String::CODEC;
    static LIFTED: &dyn Codec<Option<Bytes>> = &Nullable(Raw);
    const fn chosen<V: DefaultCodec>() -> &'static dyn Codec<V> {
        V::CODEC
    }
    assert_eq!(TEXT.encode(&"a".to_owned()).unwrap(), "a");
    assert_eq!(LIFTED.encode_nullable(&None).unwrap(), None);
    assert_eq!(chosen::<String>().encode(&"a".to_owned()).unwrap(), Utf8.encode(&"a".to_owned()).unwrap());
}

#[cfg(not(feature = "json"))]
#[test]
fn without_json_other_types_are_unsupported() {
    assert_eq!(u32::CODEC.encode(&1).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(<Option<u32>>::CODEC.decode_nullable(None).unwrap_err().kind(), Kind::Unsupported);
}
