//! Looks for floats that are not finite, which JSON would write as `null`.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{self, Serializer};

/// Fails at the first float of `value` that is not finite.
pub(super) fn check<V: Serialize + ?Sized>(value: &V) -> Result<(), NotFinite> {
    value.serialize(Check)
}

/// Why a value is not fit for JSON.
#[derive(Debug)]
pub(super) struct NotFinite(String);

impl Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// A serializer that writes nothing.
#[derive(Clone, Copy)]
struct Check;

type Checked = Result<(), NotFinite>;

impl Check {
    fn float(value: f64) -> Checked {
        if value.is_finite() { Ok(()) } else { Err(NotFinite(format!("{value} is not a number in JSON"))) }
    }
}

/// What has no float inside.
macro_rules! fine {
    ($($name:ident($($type:ty),*)),+ $(,)?) => {
        $(fn $name(self, $(_: $type),*) -> Checked { Ok(()) })+
    };
}

/// What begins something with parts.
macro_rules! begin {
    ($($name:ident($($type:ty),*)),+ $(,)?) => {
        $(fn $name(self, $(_: $type),*) -> Result<Check, NotFinite> { Ok(self) })+
    };
}

impl Serializer for Check {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fine! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_i128(i128), serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_u128(u128), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]), serialize_none(),
        serialize_unit(), serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    }

    begin! {
        serialize_seq(Option<usize>), serialize_tuple(usize), serialize_tuple_struct(&'static str, usize),
        serialize_tuple_variant(&'static str, u32, &'static str, usize), serialize_map(Option<usize>),
        serialize_struct(&'static str, usize), serialize_struct_variant(&'static str, u32, &'static str, usize),
    }

    fn serialize_f32(self, value: f32) -> Checked {
        Self::float(value.into())
    }

    fn serialize_f64(self, value: f64) -> Checked {
        Self::float(value)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T>(self, _: &'static str, _: u32, _: &'static str, value: &T) -> Checked
    where
        T: Serialize + ?Sized,
    {
        value.serialize(self)
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Checked {
        Ok(())
    }
}

/// The parts of something; `$part` names the method, `$key` the arguments before the value.
macro_rules! parts {
    ($($trait:ident::$part:ident($($key:ty)?)),+ $(,)?) => {
        $(impl ser::$trait for Check {
            type Ok = ();
            type Error = NotFinite;

            fn $part<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Checked {
                value.serialize(*self)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        })+
    };
}

parts! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str),
}

impl ser::SerializeMap for Check {
    type Ok = ();
    type Error = NotFinite;

    /// Keys were looked at by the JSON serializer, which refuses those that are not finite.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Checked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        value.serialize(*self)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}
