//! Avro: values by schema.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use apache_avro::AvroSchema;
use apache_avro::Schema;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::built::{Built, MAGIC, Unreadable};
use super::{Codec, failed};
use crate::error::{Error, Kind, Result};

mod built;
mod shape;

const NAME: &str = "Avro";
/// Most values fit, so that most need one allocation.
const USUAL_BYTES: usize = 128;

/// Avro, for every serde type that fits the schema.
///
/// The schema is text ([`text`](Self::text), [`parse`](Self::parse)), a file ([`file`](Self::file),
/// [`open`](Self::open)) or derived from the type ([`derived`](Self::derived)). `text`, `file` and `derived` are
/// `const`, so that the codec can stand in a `static` beside its topic; their schema is read on first use, and a
/// mistake in it is a [`Kind::Config`] error of every use; call [`check`](Self::check) in `main` to see it early.
/// For a codec built at run time [`leak`](Self::leak) gives the `&'static` that a topic asks for.
///
/// # Forms
/// - **Plain datum** (the default): nothing but the value. The reader must know which schema wrote it: the codec's
///   own, or the one of [`written_by`](Self::written_by).
/// - **Single object** ([`single_object`](Self::single_object)): `C3 01`, the schema's fingerprint (8 bytes), the
///   value. A reader that knows several schemas picks the right one, and names one that it does not know.
///
/// # Evolution
/// Values are written with the codec's own schema. What another schema wrote is resolved to the own one by Avro's
/// rules: unknown fields are dropped, missing ones take the schema's `default`, numbers widen, aliases apply.
///
/// # Types
/// Fields go by name and in the schema's order; an `Option` is a union of null and one other type. Structs and enums need
/// not be called as in the schema, but reading is faster if they are (`#[serde(rename = "…")]` on the type).
///
/// # Limits
/// Before a datum is decoded its lengths are checked against the bytes that are there: at most 64 records, arrays and
/// maps inside each other, at most 65,536 array items that take no bytes, nothing left over; and where another schema
/// wrote it, at most 8 unions inside each other, because resolving doubles its work at each. Each codec keeps its schemas
/// for the rest of the program: build it once.
///
/// It does not know nulls; for tombstones take [`Nullable(&CODEC)`](super::Nullable).
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use slipstream::codec::{Avro, Codec};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Flight {
///     carrier: String,
///     delay: i32,
///     gate: Option<String>,
/// }
///
/// const OLD: &str = r#"{"type": "record", "name": "Flight", "fields": [
///     {"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}]}"#;
/// const NEW: &str = r#"{"type": "record", "name": "Flight", "fields": [
///     {"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"},
///     {"name": "gate", "type": ["null", "string"], "default": null}]}"#;
///
/// static FLIGHTS: Avro = Avro::text(NEW).written_by(&[OLD]).single_object();
/// static CODEC: &dyn Codec<Flight> = &FLIGHTS; // what `Topic::with_codec` takes
///
/// FLIGHTS.check()?;
/// let flight = Flight { carrier: "UA".into(), delay: -3, gate: Some("B7".into()) };
/// assert_eq!(CODEC.decode(&CODEC.encode(&flight)?)?, flight);
///
/// #[derive(Serialize, Deserialize)]
/// struct OldFlight {
///     carrier: String,
///     delay: i32,
/// }
/// let old = Avro::parse(OLD)?.single_object().encode(&OldFlight { carrier: "UA".into(), delay: 5 })?;
/// assert_eq!(CODEC.decode(&old)?, Flight { carrier: "UA".into(), delay: 5, gate: None });
/// # Ok::<(), slipstream::Error>(())
/// ```
pub struct Avro {
    source: Source,
    single_object: bool,
    writers: &'static [&'static str],
    /// Parsed on first use. The error is shared: every use reports it.
    built: OnceLock<std::result::Result<Built, Arc<Error>>>,
}

enum Source {
    Text(&'static str),
    File(&'static str),
    Derived(fn() -> Schema),
    Parsed(Box<Schema>),
}

impl Avro {
    const fn new(source: Source) -> Self {
        Self { source, single_object: false, writers: &[], built: OnceLock::new() }
    }

    /// The schema as JSON text, for instance `include_str!("flight.avsc")`; read on first use.
    #[must_use]
    pub const fn text(schema: &'static str) -> Self {
        Self::new(Source::Text(schema))
    }

    /// The schema in the file at `path`, relative to the working directory; read on first use.
    ///
    /// ```
    /// use slipstream::Kind;
    /// use slipstream::codec::Avro;
    ///
    /// static CODEC: Avro = Avro::file("no/such.avsc");
    /// assert_eq!(CODEC.check().unwrap_err().kind(), Kind::Config);
    /// ```
    #[must_use]
    pub const fn file(path: &'static str) -> Self {
        Self::new(Source::File(path))
    }

    /// The schema of the type `T`: of what is made of std's types, or of an own one with `#[derive(AvroSchema)]` (for
    /// the derive your crate needs `apache-avro` with its feature `derive`).
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// use slipstream::codec::{Avro, Codec};
    ///
    /// type Delays = HashMap<String, Option<i32>>;
    /// static DELAYS: Avro = Avro::derived::<Delays>();
    ///
    /// let delays = Delays::from([("JFK".into(), Some(-3)), ("LGA".into(), None)]);
    /// let back: Delays = DELAYS.decode(&DELAYS.encode(&delays)?)?;
    /// assert_eq!(back, delays);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    #[must_use]
    pub const fn derived<T: AvroSchema>() -> Self {
        Self::new(Source::Derived(T::get_schema))
    }

    /// The schema as JSON text, read now.
    ///
    /// # Errors
    /// [`Kind::Config`] when it is no schema.
    pub fn parse(schema: &str) -> Result<Self> {
        Ok(Self::new(Source::Parsed(Box::new(parse(schema)?))))
    }

    /// The schema in the file at `path`, read now.
    ///
    /// ```
    /// use slipstream::codec::{Avro, Codec};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("count.avsc");
    /// std::fs::write(&path, r#""long""#)?;
    ///
    /// let codec: &'static Avro = Avro::open(&path)?.leak();
    /// assert_eq!(&codec.encode(&-2_i64)?[..], [3]);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Config`] when it cannot be read or is no schema, with the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::new(Source::Parsed(Box::new(open(path.as_ref())?))))
    }

    /// Writes and reads single objects: magic, fingerprint, value. Default: plain datums.
    #[must_use]
    pub const fn single_object(mut self) -> Self {
        self.single_object = true;
        self
    }

    /// Schemas, as JSON text, with which others write the data that this codec reads. Default: none, only the own.
    ///
    /// With single objects these are added to the own one. Plain datums do not say what wrote them: there may be one
    /// schema here, and then *all* that is read was written with it.
    ///
    /// ```
    /// use slipstream::codec::{Avro, Codec};
    ///
    /// static WIDENED: Avro = Avro::text(r#""double""#).written_by(&[r#""long""#]);
    ///
    /// let bytes = Avro::text(r#""long""#).encode(&7_i64)?;
    /// let number: f64 = WIDENED.decode(&bytes)?;
    /// assert_eq!(number, 7.0);
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    #[must_use]
    pub const fn written_by(mut self, schemas: &'static [&'static str]) -> Self {
        self.writers = schemas;
        self
    }

    /// Reads the schemas now, so that a mistake in them shows before the first record.
    ///
    /// # Errors
    /// [`Kind::Config`] with the cause.
    pub fn check(&self) -> Result<()> {
        self.built().map(drop)
    }

    /// The fingerprint (64-bit Rabin, 16 hexadecimal digits) of the own schema, by which single objects name it.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn fingerprint(&self) -> Result<String> {
        Ok(built::hex(self.built()?.own))
    }

    /// A codec that was built at run time, as the `&'static` that topics and caches take; it is never freed.
    #[must_use]
    pub fn leak(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    fn built(&self) -> Result<&Built> {
        self.built
            .get_or_init(|| self.build().map_err(Arc::new))
            .as_ref()
            .map_err(|cause| Error::new(Kind::Config, "this Avro codec cannot be used").because(Arc::clone(cause)))
    }

    fn build(&self) -> Result<Built> {
        if !self.single_object && self.writers.len() > 1 {
            let message = "plain Avro does not say which of several schemas wrote a value: `single_object()` does";
            return Err(Error::new(Kind::Config, message));
        }
        let own = match &self.source {
            Source::Text(text) => parse(text)?,
            Source::File(path) => open(Path::new(path))?,
            Source::Derived(schema) => schema(),
            Source::Parsed(schema) => Schema::clone(schema),
        };
        let writers = self.writers.iter().map(|text| parse(text)).collect::<Result<_>>()?;
        Built::new(own, writers).map_err(not_a_schema)
    }

    fn unreadable<V>(bytes: &Bytes, cause: Unreadable) -> Error {
        match cause {
            Unreadable::UnknownSchema(..) => {
                Error::new(Kind::Decode, format!("{NAME}: a `{}` {cause}", failed::name::<V>()))
            }
            _ => failed::decoding::<V>(NAME, bytes.len(), cause),
        }
    }
}

impl<V: Serialize + DeserializeOwned> Codec<V> for Avro {
    fn encode(&self, value: &V) -> Result<Bytes> {
        let built = self.built()?;
        let mut out = Vec::with_capacity(USUAL_BYTES);
        if self.single_object {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&built.own);
        }
        built.write(&mut out, value).map_err(|cause| failed::encoding::<V>(NAME, cause))?;
        Ok(out.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<V> {
        let built = self.built()?;
        let read = if self.single_object { built.read_object(bytes) } else { built.read_plain(bytes) };
        read.map_err(|cause| Self::unreadable::<V>(bytes, cause))
    }
}

impl fmt::Debug for Avro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Text(text) => Cow::Borrowed(*text),
            Source::File(path) => Cow::Borrowed(*path),
            Source::Derived(schema) => schema().canonical_form().into(),
            Source::Parsed(schema) => schema.canonical_form().into(),
        };
        f.debug_struct("Avro")
            .field("schema", &source)
            .field("single_object", &self.single_object)
            .field("written_by", &self.writers)
            .finish_non_exhaustive()
    }
}

fn parse(text: &str) -> Result<Schema> {
    Schema::parse_str(text).map_err(not_a_schema)
}

fn open(path: &Path) -> Result<Schema> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| Error::new(Kind::Config, "cannot read the Avro schema").because(cause));
    text.and_then(|text| parse(&text)).map_err(|error| error.at(path.display().to_string()))
}

fn not_a_schema(cause: apache_avro::Error) -> Error {
    Error::new(Kind::Config, "not an Avro schema").because(cause)
}
