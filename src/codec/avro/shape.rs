//! What the bytes of a schema look like, for a walk over a datum before it is decoded.
//!
//! The decoder trusts lengths: a string of five bytes may ask it for half a gigabyte, some truncated values come out
//! as nulls, and a recursive schema ends on the stack. The walk takes none of that, and costs less than decoding.

use std::collections::HashMap;

use apache_avro::Schema;
use apache_avro::schema::{InnerDecimalSchema, Name, NamespaceRef, UuidSchema};

/// Records, arrays and maps inside each other.
const MAX_LEVELS: usize = 64;
/// Unions inside each other, where the datum is resolved to another schema: the resolver tries a union's value before it
/// takes it, which doubles the work at each of them.
pub(super) const MAX_RESOLVED_UNIONS: usize = 8;
/// Items of arrays that take no bytes, of which a few bytes could claim any number.
const MAX_EMPTY_ITEMS: usize = 65_536;
const LONGEST_VARINT: usize = 10;

/// Why bytes are no datum of a schema.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Malformed {
    #[error("the data ends in the middle of a value")]
    Short,
    #[error("a number longer than {LONGEST_VARINT} bytes")]
    LongNumber,
    #[error("a negative length")]
    NegativeLength,
    #[error("more than {MAX_LEVELS} levels deep")]
    Deep,
    #[error("more than {MAX_RESOLVED_UNIONS} unions inside each other in a value of another schema")]
    Unions,
    #[error("more than {MAX_EMPTY_ITEMS} items without bytes")]
    EmptyItems,
    #[error("variant {0} of a union that has {1}")]
    Variant(i64, usize),
    #[error("{0} bytes left over after the value")]
    LeftOver(usize),
}

/// A schema, reduced to the lengths of its values.
pub(super) struct Shape {
    root: Node,
    named: Vec<Node>,
}

enum Node {
    /// So many bytes.
    Fixed(usize),
    Varint,
    /// A length and so many bytes.
    Sized,
    Array(Box<Node>),
    Map(Box<Node>),
    Union(Vec<Node>),
    Record(Vec<Node>),
    Named(usize),
}

impl Shape {
    /// The shape of a schema whose references are known to resolve.
    pub(super) fn new(schema: &Schema) -> Self {
        let mut builder = Builder::default();
        let root = builder.node(schema, None);
        Self { root, named: builder.named }
    }

    /// Whether `bytes` are exactly one datum, with at most so many unions inside each other.
    pub(super) fn check(&self, bytes: &[u8], max_unions: usize) -> Result<(), Malformed> {
        let mut walk = Walk { named: &self.named, rest: bytes, levels: 0, unions: 0, max_unions, empty_items: 0 };
        walk.node(&self.root)?;
        match walk.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::LeftOver(left)),
        }
    }
}

#[derive(Default)]
struct Builder {
    indices: HashMap<Name, usize>,
    named: Vec<Node>,
}

impl Builder {
    fn node(&mut self, schema: &Schema, namespace: NamespaceRef<'_>) -> Node {
        match schema {
            Schema::Null => Node::Fixed(0),
            Schema::Boolean => Node::Fixed(1),
            Schema::Float => Node::Fixed(4),
            Schema::Double => Node::Fixed(8),
            Schema::Array(array) => Node::Array(Box::new(self.node(&array.items, namespace))),
            Schema::Map(map) => Node::Map(Box::new(self.node(&map.types, namespace))),
            Schema::Union(union) => Node::Union(union.variants().iter().map(|v| self.node(v, namespace)).collect()),
            Schema::Record(record) => {
                let name = record.name.fully_qualified_name(namespace).into_owned();
                // The name is known before the fields, which may refer to it.
                let index = self.name(name.clone(), Node::Fixed(0));
                let fields = record.fields.iter().map(|f| self.node(&f.schema, name.namespace())).collect();
                if let Some(slot) = self.named.get_mut(index) {
                    *slot = Node::Record(fields);
                }
                Node::Named(index)
            }
            Schema::Fixed(fixed)
            | Schema::Duration(fixed)
            | Schema::Uuid(UuidSchema::Fixed(fixed))
            | Schema::Decimal(apache_avro::schema::DecimalSchema { inner: InnerDecimalSchema::Fixed(fixed), .. }) => {
                let name = fixed.name.fully_qualified_name(namespace).into_owned();
                Node::Named(self.name(name, Node::Fixed(fixed.size)))
            }
            Schema::Enum(symbols) => {
                let name = symbols.name.fully_qualified_name(namespace).into_owned();
                Node::Named(self.name(name, Node::Varint))
            }
            Schema::Ref { name } => {
                let name = name.fully_qualified_name(namespace);
                // Schemas with references to nothing are refused before this; a shape that nothing fits is safe.
                self.indices.get(name.as_ref()).map_or(Node::Union(Vec::new()), |&index| Node::Named(index))
            }
            Schema::Bytes
            | Schema::String
            | Schema::BigDecimal
            | Schema::Decimal(_)
            | Schema::Uuid(UuidSchema::Bytes | UuidSchema::String) => Node::Sized,
            Schema::Int
            | Schema::Long
            | Schema::Date
            | Schema::TimeMillis
            | Schema::TimeMicros
            | Schema::TimestampMillis
            | Schema::TimestampMicros
            | Schema::TimestampNanos
            | Schema::LocalTimestampMillis
            | Schema::LocalTimestampMicros
            | Schema::LocalTimestampNanos => Node::Varint,
        }
    }

    fn name(&mut self, name: Name, node: Node) -> usize {
        let index = self.named.len();
        self.named.push(node);
        self.indices.insert(name, index);
        index
    }
}

struct Walk<'a> {
    named: &'a [Node],
    rest: &'a [u8],
    levels: usize,
    unions: usize,
    max_unions: usize,
    empty_items: usize,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node) -> Result<(), Malformed> {
        match node {
            Node::Fixed(length) => self.skip(*length),
            Node::Varint => self.varint().map(drop),
            Node::Sized => self.sized(),
            Node::Union(variants) => self.union(variants),
            Node::Named(index) => {
                let named = self.named;
                named.get(*index).map_or(Ok(()), |node| self.node(node))
            }
            Node::Record(fields) => self.deeper(|walk| fields.iter().try_for_each(|field| walk.node(field))),
            Node::Array(item) => self.deeper(|walk| walk.blocks(|walk| walk.node(item))),
            Node::Map(value) => self.deeper(|walk| {
                walk.blocks(|walk| {
                    walk.sized()?;
                    walk.node(value)
                })
            }),
        }
    }

    fn deeper(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        if self.levels == MAX_LEVELS {
            return Err(Malformed::Deep);
        }
        self.levels += 1;
        inside(self)?;
        self.levels -= 1;
        Ok(())
    }

    fn union(&mut self, variants: &[Node]) -> Result<(), Malformed> {
        let index = self.varint()?;
        let variant = usize::try_from(index).ok().and_then(|index| variants.get(index));
        let variant = variant.ok_or(Malformed::Variant(index, variants.len()))?;
        if self.unions == self.max_unions {
            return Err(Malformed::Unions);
        }
        self.unions += 1;
        self.node(variant)?;
        self.unions -= 1;
        Ok(())
    }

    /// Blocks of items until one of none; a negative count is followed by the length of its block, which we don't need.
    fn blocks(&mut self, item: impl Fn(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        loop {
            let count = self.varint()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.varint()?;
            }
            for _ in 0..count.unsigned_abs() {
                let before = self.rest.len();
                item(self)?;
                self.count_empty(before)?;
            }
        }
    }

    fn count_empty(&mut self, before: usize) -> Result<(), Malformed> {
        if before == self.rest.len() {
            self.empty_items += 1;
        }
        if self.empty_items > MAX_EMPTY_ITEMS { Err(Malformed::EmptyItems) } else { Ok(()) }
    }

    fn sized(&mut self) -> Result<(), Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed::NegativeLength)?;
        self.skip(length)
    }

    fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.rest = self.rest.get(length..).ok_or(Malformed::Short)?;
        Ok(())
    }

    /// A zigzag number. Bits beyond the 64th are dropped, as by the decoder.
    fn varint(&mut self) -> Result<i64, Malformed> {
        let mut raw = 0_u64;
        for (index, byte) in self.rest.iter().take(LONGEST_VARINT).enumerate() {
            raw |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.skip(index + 1)?;
                return Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
            }
        }
        Err(if self.rest.len() < LONGEST_VARINT { Malformed::Short } else { Malformed::LongNumber })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, bytes: &[u8]) -> Result<(), Malformed> {
        Shape::new(&Schema::parse_str(schema).unwrap()).check(bytes, MAX_LEVELS)
    }

    #[test]
    fn a_length_beyond_the_data_is_short() {
        assert_eq!(check(r#""string""#, &[0x80, 0x80, 0x80, 0x80, 0x02]), Err(Malformed::Short));
        assert_eq!(check(r#""bytes""#, &[4, 1]), Err(Malformed::Short));
        assert_eq!(check(r#""boolean""#, &[]), Err(Malformed::Short));
    }

    #[test]
    fn a_negative_length_is_refused() {
        assert_eq!(check(r#""string""#, &[1]), Err(Malformed::NegativeLength));
    }

    #[test]
    fn numbers_end_after_ten_bytes() {
        assert_eq!(check(r#""long""#, &[0xff; 11]), Err(Malformed::LongNumber));
        assert_eq!(check(r#""long""#, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Ok(()));
    }

    #[test]
    fn items_without_bytes_are_counted() {
        let nulls = r#"{"type": "array", "items": "null"}"#;
        assert_eq!(check(nulls, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0]), Err(Malformed::EmptyItems));
        assert_eq!(check(nulls, &[6, 0]), Ok(()));
        assert_eq!(check(nulls, &[5, 0, 0]), Ok(()), "a block that says its length");
    }

    #[test]
    fn a_variant_that_does_not_exist_is_named() {
        assert_eq!(check(r#"["null", "long"]"#, &[4]), Err(Malformed::Variant(2, 2)));
        assert_eq!(check(r#"["null", "long"]"#, &[1]), Err(Malformed::Variant(-1, 2)));
    }

    #[test]
    fn what_follows_the_value_is_left_over() {
        assert_eq!(check(r#""long""#, &[2, 2, 2]), Err(Malformed::LeftOver(2)));
    }

    #[test]
    fn a_record_that_only_contains_itself_is_too_deep() {
        let itself = r#"{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}"#;
        assert_eq!(check(itself, &[]), Err(Malformed::Deep));
    }
}
