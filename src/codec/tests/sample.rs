//! A type with everything in it, and any value of it.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) text: String,
    pub(super) small: i32,
    pub(super) large: i64,
    pub(super) flag: bool,
    pub(super) single: f32,
    pub(super) double: f64,
    pub(super) maybe: Option<String>,
    pub(super) kind: Colour,
    pub(super) inner: Inner,
    pub(super) many: Vec<Inner>,
    pub(super) by_name: std::collections::HashMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Inner {
    pub(super) id: i64,
    pub(super) tags: Vec<String>,
    pub(super) weight: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Colour {
    Red,
    Green,
}

/// What `#[derive(AvroSchema)]` makes of it; its macro would have RocksDB built twice (it adds a feature to what bindgen uses).
#[cfg(feature = "avro")]
pub(super) const SCHEMA: &str = r#"{"type": "record", "name": "Sample", "fields": [
    {"name": "text", "type": "string"},
    {"name": "small", "type": "int"},
    {"name": "large", "type": "long"},
    {"name": "flag", "type": "boolean"},
    {"name": "single", "type": "float"},
    {"name": "double", "type": "double"},
    {"name": "maybe", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Colour", "symbols": ["Red", "Green"]}},
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "weight", "type": ["null", "double"]}]}},
    {"name": "many", "type": {"type": "array", "items": "Inner"}},
    {"name": "by_name", "type": {"type": "map", "values": "long"}}]}"#;

/// A list as deep as one likes.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Chain {
    pub(super) next: Option<Box<Chain>>,
}

impl Chain {
    pub(super) fn of(links: usize) -> Self {
        (1..links).fold(Self::default(), |next, _| Self { next: Some(Box::new(next)) })
    }
}

/// Not what only some codecs can say: integers that need 128 bits, variants with fields.
pub(super) fn samples() -> impl Strategy<Value = Sample> {
    let numbers = (any::<i32>(), any::<i64>(), any::<bool>(), finite_f32(), finite_f64());
    let parts = (option::of(any::<String>()), colours(), inners(), vec(inners(), 0..4));
    let by_name =
        btree_map(any::<String>(), any::<i64>(), 0..4).prop_map(|map: BTreeMap<_, _>| map.into_iter().collect());
    (any::<String>(), numbers, parts, by_name).prop_map(
        |(text, (small, large, flag, single, double), (maybe, kind, inner, many), by_name)| Sample {
            text,
            small,
            large,
            flag,
            single,
            double,
            maybe,
            kind,
            inner,
            many,
            by_name,
        },
    )
}

fn inners() -> impl Strategy<Value = Inner> {
    (any::<i64>(), vec(any::<String>(), 0..3), option::of(finite_f64())).prop_map(|(id, tags, weight)| Inner {
        id,
        tags,
        weight,
    })
}

fn colours() -> impl Strategy<Value = Colour> {
    prop_oneof![Just(Colour::Red), Just(Colour::Green)]
}

pub(super) fn finite_f64() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE
}

fn finite_f32() -> impl Strategy<Value = f32> {
    use proptest::num::f32::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE
}
