//! Sends input through an SSH channel, and interprets the messages that it receives.

use bytes::Bytes;
use russh::{ChannelMsg, client};
use tokio::sync::mpsc;

use super::Input;
use super::supervise::{Received, TooMuchOutput};

/// Size in bytes of one piece of input that is read from a stream and sent.
const CHUNK: usize = 60 * 1024;

/// Sends the input. Returns `Err(None)` if the command stopped reading: its exit status then decides
/// whether that is a failure.
pub(super) async fn send(
    write: &russh::ChannelWriteHalf<client::Msg>,
    input: Input,
) -> Result<(), Option<std::io::Error>> {
    match input {
        Input::None => Ok(()),
        Input::Bytes(bytes) => {
            for chunk in bytes.chunks(CHUNK) {
                write
                    .data_bytes(Bytes::copy_from_slice(chunk))
                    .await
                    .map_err(|_| None)?;
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
                write
                    .data_bytes(chunk.map_err(Some)?)
                    .await
                    .map_err(|_| None)?;
            }
            Ok(())
        }
    }
}

/// What a message of a channel means for its command.
pub(super) enum Progress {
    /// The command runs, or its output is not complete.
    Running,
    /// The command ended with this status. Output may follow.
    Ended(i32),
}

/// Adds what a message contains to what the command has printed.
///
/// # Errors
/// The command printed more than kubexm keeps.
pub(super) fn accept(
    message: ChannelMsg,
    received: &mut Received,
) -> Result<Progress, TooMuchOutput> {
    match message {
        ChannelMsg::Data { data } => received.add_stdout(&data)?,
        ChannelMsg::ExtendedData { data, .. } => received.add_stderr(&data),
        ChannelMsg::ExitStatus { exit_status } => {
            return Ok(Progress::Ended(i32::try_from(exit_status).unwrap_or(128)));
        }
        ChannelMsg::ExitSignal { signal_name, .. } => {
            received.set_signal(format!("killed by signal {signal_name:?}"));
            return Ok(Progress::Ended(128));
        }
        _ => {}
    }
    Ok(Progress::Running)
}
