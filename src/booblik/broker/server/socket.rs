//! A connection's socket. Every wait for the client has an end.

use std::fs::File;
use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use rustix::fs::sendfile;
use rustix::net::{SendFlags, send, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::session::End;

/// What one call moves at most from a file to the socket.
const SENDFILE_BYTES: u64 = 4 << 20;

pub(super) struct Socket {
    pub(super) stream: TcpStream,
    write_stall: Duration,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, write_stall: Duration) -> Self {
        // Without them a connection works, only worse.
        let set = stream.set_nodelay(true).and_then(|()| Ok(sockopt::set_socket_keepalive(&stream, true)?));
        if let Err(error) = set {
            tracing::debug!(%error, "a socket keeps its defaults");
        }
        Self { stream, write_stall }
    }

    /// Writes what the socket takes at once off the front of `out`. Returns whether that was something.
    pub(super) fn write_some(&self, out: &mut BytesMut) -> Result<bool, End> {
        let before = out.len();
        while !out.is_empty() {
            match self.stream.try_write(out) {
                Ok(written) => out.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(End::lost(&error)),
            }
        }
        Ok(out.len() < before)
    }

    /// Writes all of `bytes`. With `more` the kernel waits for what follows before it sends a small packet.
    pub(super) async fn write_all(&self, mut bytes: &[u8], more: bool) -> Result<(), End> {
        let flags = if more { SendFlags::MORE | SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL };
        while !bytes.is_empty() {
            let written = self.when_writable(|stream| Ok(send(stream, bytes, flags)?)).await?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Says that nothing more comes. The client can go on sending.
    pub(super) fn finish(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write)?)
    }

    /// Sends `bytes` of `file` from `position` on, without looking at them.
    pub(super) async fn send_file(&self, file: &File, mut position: u64, bytes: u64) -> Result<(), End> {
        let end = position + bytes;
        while position < end {
            let count = usize::try_from((end - position).min(SENDFILE_BYTES)).unwrap_or(usize::MAX);
            let call = |stream: &TcpStream| Ok(sendfile(stream, file, Some(&mut position), count)?);
            if self.when_writable(call).await? == 0 {
                return Err(End::dropped("a segment is shorter than it was"));
            }
        }
        Ok(())
    }

    /// Repeats `call` until it does not block; not longer than the client may stall.
    async fn when_writable(&self, mut call: impl FnMut(&TcpStream) -> io::Result<usize>) -> Result<usize, End> {
        loop {
            match self.stream.try_io(Interest::WRITABLE, || call(&self.stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(|error| End::lost(&error)),
            }
        }
    }

    async fn writable(&self) -> Result<(), End> {
        match timeout(self.write_stall, self.stream.writable()).await {
            Ok(ready) => ready.map_err(|error| End::lost(&error)),
            Err(_) => Err(End::stalled(self.write_stall)),
        }
    }
}
