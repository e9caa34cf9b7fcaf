//! Small damages to bytes, from a seed.

use slipstream::booblik::wire::fnv1a;

/// Numbers at which sizes and counts go wrong.
const EDGES: [i32; 10] = [0, 1, -1, 7, 8, i32::MAX, i32::MIN, 8_388_608, 8_388_582, 8_388_583];

pub(crate) struct Mutator {
    random: fastrand::Rng,
}

impl Mutator {
    pub(crate) fn new(name: &str) -> Self {
        Self { random: fastrand::Rng::with_seed(fnv1a(name.as_bytes()).into()) }
    }

    /// `seed` with one to four damages; some take a part of another of `seeds`.
    pub(crate) fn mutate(&mut self, seed: &[u8], seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..self.random.usize(1..=4) {
            self.damage(&mut bytes, seeds);
        }
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.random.usize(0..=bytes.len());
        match self.random.u8(0..7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.random.u8(..)),
            2 if at < bytes.len() => bytes[at] ^= 1 << self.random.u8(0..8),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => self.edge(bytes, at),
            5 => bytes.extend_from_within(at..),
            _ => self.splice(bytes, at, seeds),
        }
    }

    fn edge(&mut self, bytes: &mut [u8], at: usize) {
        let edge = EDGES[self.random.usize(0..EDGES.len())].to_be_bytes();
        bytes.iter_mut().skip(at).zip(edge).for_each(|(byte, new)| *byte = new);
    }

    fn splice(&mut self, bytes: &mut Vec<u8>, at: usize, seeds: &[Vec<u8>]) {
        let other = &seeds[self.random.usize(0..seeds.len())];
        let from = self.random.usize(0..=other.len());
        bytes.truncate(at);
        bytes.extend_from_slice(&other[from..]);
    }
}
