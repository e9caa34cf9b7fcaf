//! A second opinion: what a broker holds, asked with bytes that are put together here and not by the crate.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::process::PATIENCE;

pub struct Reader(TcpStream);

impl Reader {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// The body of the answer to a request, which has to be a success.
    fn ask(&mut self, api_key: i16, version: i16, body: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(8 + body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(api_key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(7_i32.to_be_bytes());
        frame.extend(body);
        self.0.write_all(&frame).unwrap();
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..6], [0, 0, 0, 7, 0, 0], "correlation id and no error");
        answer.split_off(6)
    }

    /// Partition, log start offset and high watermark.
    pub fn partitions(&mut self, topic: &str) -> Vec<(i32, i64, i64)> {
        let answer = self.ask(3, 1, &[&1_i32.to_be_bytes()[..], &name(topic)].concat());
        let partitions = &answer[4 + 2 + topic.len() + 4..];
        partitions.chunks_exact(20).map(|at| (int(&at[..4]), long(&at[4..12]), long(&at[12..]))).collect()
    }

    pub fn high_watermark(&mut self, topic: &str, partition: i32) -> i64 {
        self.partitions(topic).into_iter().find(|info| info.0 == partition).unwrap().2
    }

    /// The records from an offset to the end.
    pub fn records(&mut self, topic: &str, partition: i32, offset: i64) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let end = self.high_watermark(topic, partition);
        while offset + i64::try_from(found.len()).unwrap() < end {
            let next = offset + i64::try_from(found.len()).unwrap();
            let numbers =
                [&partition.to_be_bytes()[..], &next.to_be_bytes(), &(1_i32 << 20).to_be_bytes(), &[0; 8]].concat();
            let answer = self.ask(2, 2, &[name(topic), numbers].concat());
            let before = found.len();
            found.extend(whole(&answer[12..]));
            assert!(found.len() > before, "a record within the bytes asked for");
        }
        found
    }
}

fn name(topic: &str) -> Vec<u8> {
    [&u16::try_from(topic.len()).unwrap().to_be_bytes()[..], topic.as_bytes()].concat()
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().unwrap())
}

fn long(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().unwrap())
}

/// The whole records of an answer. Their checksums are the business of the client that is looked at.
fn whole(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while bytes.len() >= 8 {
        let size = usize::try_from(int(&bytes[..4])).unwrap();
        let Some(payload) = bytes.get(8..8 + size) else { break };
        found.push(payload.to_vec());
        bytes = &bytes[8 + size..];
    }
    found
}
