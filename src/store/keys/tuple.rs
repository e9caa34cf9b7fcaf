//! Tuples of one to four keys: one after the other, the last one without an end.

use super::{AsKey, Key, Prefix};
use crate::error::Result;

macro_rules! tuple {
    ($($key:ident $form:ident $at:tt),*; $last_key:ident $last_form:ident $last:tt) => {
        impl<$($key,)* $last_key, $($form: AsKey<$key>,)* $last_form: AsKey<$last_key>>
            AsKey<($($key,)* $last_key,)> for ($($form,)* $last_form,)
        {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)*
                self.$last.encode(out);
            }
            fn encode_last(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)*
                self.$last.encode_last(out);
            }
        }

        impl<$($key: Key,)* $last_key: Key> Key for ($($key,)* $last_key,) {
            fn decode(bytes: &mut &[u8]) -> Result<Self> {
                Ok(($($key::decode(bytes)?,)* $last_key::decode(bytes)?,))
            }
            #[allow(unused_mut, reason = "a tuple of one has nothing before its last element")]
            fn decode_last(mut bytes: &[u8]) -> Result<Self> {
                Ok(($($key::decode(&mut bytes)?,)* $last_key::decode_last(bytes)?,))
            }
        }
    };
}

tuple!(; A QA 0);
tuple!(A QA 0; B QB 1);
tuple!(A QA 0, B QB 1; C QC 2);
tuple!(A QA 0, B QB 1, C QC 2; D QD 3);

// Leading elements as a prefix: never all of them, since a last element has no end to stop at.
macro_rules! leading {
    ($(($($form:ident: $key:ident $at:tt),+) of ($($all:ident),+);)*) => {$(
        impl<$($all,)* $($form: AsKey<$key>),+> Prefix<($($all,)+)> for ($($form,)+) {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)+
            }
        }
    )*};
}

leading! {
    (QA: A 0) of (A, B);
    (QA: A 0) of (A, B, C);
    (QA: A 0, QB: B 1) of (A, B, C);
    (QA: A 0) of (A, B, C, D);
    (QA: A 0, QB: B 1) of (A, B, C, D);
    (QA: A 0, QB: B 1, QC: C 2) of (A, B, C, D);
}
