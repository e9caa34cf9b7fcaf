//! A codec's schemas, parsed and ready.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use apache_avro::Schema;
use apache_avro::rabin::Rabin;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::writer::datum::GenericDatumWriter;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::shape::{MAX_RESOLVED_UNIONS, Malformed, Shape};

pub(super) const MAGIC: [u8; 2] = [0xC3, 0x01];
const FINGERPRINT_BYTES: usize = 8;

/// The 64-bit Rabin fingerprint of a schema's canonical form, as single objects carry it.
pub(super) type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("no single object: it does not begin with C3 01 and a fingerprint")]
    NotSingleObject,
    #[error("{}", unknown(*.0, .1))]
    UnknownSchema(Fingerprint, Vec<Fingerprint>),
    #[error("it does not fit the schema that wrote it")]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Avro(#[from] apache_avro::Error),
}

fn unknown(found: Fingerprint, known: &[Fingerprint]) -> String {
    let known: Vec<_> = known.iter().copied().map(hex).collect();
    format!("written with the unknown schema {}, known are {}: add it with `written_by`", hex(found), known.join(", "))
}

/// A fingerprint as the 16 digits of its number.
pub(super) fn hex(fingerprint: Fingerprint) -> String {
    format!("{:016x}", u64::from_le_bytes(fingerprint))
}

/// The fingerprint of `schema`.
pub(super) fn fingerprint(schema: &Schema) -> Fingerprint {
    let bytes = schema.fingerprint::<Rabin>().bytes;
    let mut fingerprint = Fingerprint::default();
    fingerprint.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    fingerprint
}

/// Reads what one schema wrote.
struct Side {
    shape: Shape,
    reader: GenericDatumReader<'static>,
    /// Written with our own schema: no resolution, straight into the type.
    own: bool,
}

impl Side {
    fn new(writer: &'static Schema, reader: Option<&'static Schema>) -> Result<Self, apache_avro::Error> {
        let builder = GenericDatumReader::builder(writer);
        let own = reader.is_none();
        let reader = match reader {
            Some(reader) => builder.reader_schema(reader).build()?,
            None => builder.build()?,
        };
        Ok(Self { shape: Shape::new(writer), reader, own })
    }

    fn read<V: DeserializeOwned>(&self, mut datum: &[u8]) -> Result<V, Unreadable> {
        self.shape.check(datum, if self.own { usize::MAX } else { MAX_RESOLVED_UNIONS })?;
        if self.own {
            let mut direct = datum;
            if let Ok(value) = self.reader.read_deser(&mut direct) {
                return Ok(value);
            }
            // It insists on Rust's names of structs and enums, which the schemas of others need not know.
        }
        let value = self.reader.read_value(&mut datum)?;
        Ok(apache_avro::from_value(&value)?)
    }
}

/// Everything a codec needs to read and write.
pub(super) struct Built {
    pub(super) own: Fingerprint,
    writer: GenericDatumWriter<'static>,
    sides: HashMap<Fingerprint, Side>,
    /// Whose data a plain datum is.
    plain: Fingerprint,
}

impl Built {
    /// The codec's own schema and those of others that write the same data.
    ///
    /// The readers borrow the schemas and the codec lives as long as the program, so the schemas are leaked.
    pub(super) fn new(own: Schema, writers: Vec<Schema>) -> Result<Self, apache_avro::Error> {
        let own: &'static Schema = Box::leak(Box::new(own));
        let id = fingerprint(own);
        let mut sides = HashMap::from([(id, Side::new(own, None)?)]);
        let mut plain = id;
        for schema in writers {
            let writer = fingerprint(&schema);
            plain = writer;
            if let Entry::Vacant(side) = sides.entry(writer) {
                side.insert(Side::new(Box::leak(Box::new(schema)), Some(own))?);
            }
        }
        Ok(Self { own: id, writer: GenericDatumWriter::builder(own).build()?, sides, plain })
    }

    pub(super) fn write<V: Serialize>(&self, out: &mut Vec<u8>, value: &V) -> Result<(), apache_avro::Error> {
        self.writer.write_ser(out, value).map(drop)
    }

    pub(super) fn read_plain<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Unreadable> {
        self.read(self.plain, bytes)
    }

    pub(super) fn read_object<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Unreadable> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(Unreadable::NotSingleObject)?;
        let (id, datum) = rest.split_first_chunk().ok_or(Unreadable::NotSingleObject)?;
        self.read(*id, datum)
    }

    fn read<V: DeserializeOwned>(&self, id: Fingerprint, datum: &[u8]) -> Result<V, Unreadable> {
        match self.sides.get(&id) {
            Some(side) => side.read(datum),
            None => Err(Unreadable::UnknownSchema(id, self.known())),
        }
    }

    fn known(&self) -> Vec<Fingerprint> {
        let mut known: Vec<_> = self.sides.keys().copied().collect();
        known.sort_unstable();
        known
    }
}
