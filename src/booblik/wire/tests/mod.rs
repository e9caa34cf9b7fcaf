mod fetched;
mod frames;
mod requests;
mod responses;
mod vectors;

use bytes::{Bytes, BytesMut};

/// The bytes of a hexadecimal text, spaces left out.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A frame without its length, as [`Frames`](super::Frames) gives it out.
fn frame(text: &str) -> Bytes {
    Bytes::from(hex(text)).slice(4..)
}

fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}
