//! What all codecs have in common: round trips, evolution, nulls and hostile bytes.

#[cfg(feature = "json")]
mod evolution;
mod hostile;
mod nulls;
#[cfg(feature = "json")]
mod round_trip;
#[cfg(feature = "json")]
mod sample;
