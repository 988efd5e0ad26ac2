//! Sends input through a channel of a connection, and interprets what it receives.

use std::collections::VecDeque;

use bytes::Bytes;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, client};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::Input;
use super::supervise::{Received, TooMuchOutput};
use kubexm_types::Message;

/// Size in bytes of one piece of input that is read from a stream and sent.
const CHUNK: usize = 60 * 1024;

/// What a channel delivers.
#[derive(Debug)]
pub(super) enum Piece {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The command ended with this status. Output may follow.
    Ended(i32),
    /// A signal ended the command.
    Killed(String),
    /// Something that is not about the command.
    Other,
}

/// Why a connection has no channel.
#[derive(Debug)]
pub(super) enum NoChannel {
    /// The server permits no further session at present.
    Refused,
    /// The connection broke.
    Broken(Message),
}

/// The end of a channel from which kubexm reads.
pub(super) enum Reader {
    Russh(ChannelReadHalf),
    OpenSsh {
        /// What was received while the command started.
        first: VecDeque<Piece>,
        rest: mpsc::Receiver<Piece>,
    },
}

impl Reader {
    /// Returns the next piece; `None` at the end of the channel.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        match self {
            Self::Russh(half) => Some(match half.wait().await? {
                ChannelMsg::Data { data } => Piece::Stdout(data),
                ChannelMsg::ExtendedData { data, .. } => Piece::Stderr(data),
                ChannelMsg::ExitStatus { exit_status } => {
                    Piece::Ended(i32::try_from(exit_status).unwrap_or(128))
                }
                ChannelMsg::ExitSignal { signal_name, .. } => {
                    Piece::Killed(format!("killed by signal {signal_name:?}"))
                }
                _ => Piece::Other,
            }),
            Self::OpenSsh { first, rest } => match first.pop_front() {
                Some(piece) => Some(piece),
                None => rest.recv().await,
            },
        }
    }

    /// Reads to the end of the channel.
    pub(super) async fn discard(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// The end of a channel to which kubexm writes.
pub(super) enum Writer {
    Russh(ChannelWriteHalf<client::Msg>),
    /// `None` after its end. A pipe that is dropped ends, too: it must live until the command may see the end.
    OpenSsh(Option<ChildStdin>),
}

/// The command stopped reading, or the connection broke.
#[derive(Debug)]
pub(super) struct Closed;

impl Writer {
    pub(super) async fn data(&mut self, bytes: Bytes) -> Result<(), Closed> {
        match self {
            Self::Russh(half) => half.data_bytes(bytes).await.map_err(|_| Closed),
            Self::OpenSsh(Some(stdin)) => stdin.write_all(&bytes).await.map_err(|_| Closed),
            Self::OpenSsh(None) => Err(Closed),
        }
    }

    /// Ends the input of the command.
    pub(super) async fn eof(&mut self) -> Result<(), Closed> {
        match self {
            Self::Russh(half) => half.eof().await.map_err(|_| Closed),
            Self::OpenSsh(stdin) => {
                *stdin = None;
                Ok(())
            }
        }
    }
}

/// Sends the input. Returns `Err(None)` if the command stopped reading: its exit status then decides
/// whether that is a failure.
pub(super) async fn send(write: &mut Writer, input: Input) -> Result<(), Option<std::io::Error>> {
    let stopped = |Closed| None;
    match input {
        Input::None => Ok(()),
        Input::Bytes(bytes) => {
            for chunk in bytes.chunks(CHUNK) {
                let chunk = Bytes::copy_from_slice(chunk);
                write.data(chunk).await.map_err(stopped)?;
            }
            Ok(())
        }
        Input::Stream(mut stream) => {
            let (sender, mut chunks) = mpsc::channel::<std::io::Result<Bytes>>(8);
            tokio::task::spawn_blocking(move || {
                loop {
                    let mut buffer = vec![0u8; CHUNK];
                    let chunk = match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(count) => {
                            buffer.truncate(count);
                            Ok(Bytes::from(buffer))
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                        Err(error) => Err(error),
                    };
                    let failed = chunk.is_err();
                    if sender.blocking_send(chunk).is_err() || failed {
                        return;
                    }
                }
            });
            while let Some(chunk) = chunks.recv().await {
                write.data(chunk.map_err(Some)?).await.map_err(stopped)?;
            }
            Ok(())
        }
    }
}

/// What a piece of a channel means for its command.
pub(super) enum Progress {
    /// The command runs, or its output is not complete.
    Running,
    /// The command ended with this status. Output may follow.
    Ended(i32),
}

/// Adds what a piece contains to what the command has printed.
///
/// # Errors
/// The command printed more than kubexm keeps.
pub(super) fn accept(piece: Piece, received: &mut Received) -> Result<Progress, TooMuchOutput> {
    match piece {
        Piece::Stdout(data) => received.add_stdout(&data)?,
        Piece::Stderr(data) => received.add_stderr(&data),
        Piece::Ended(status) => return Ok(Progress::Ended(status)),
        Piece::Killed(signal) => {
            received.set_signal(signal);
            return Ok(Progress::Ended(128));
        }
        Piece::Other => {}
    }
    Ok(Progress::Running)
}
