//! Sends input through an SSH channel, and receives output and exit status.

use bytes::Bytes;
use russh::{ChannelMsg, client};
use tokio::sync::mpsc;

use super::{Input, Output};

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

/// Receives everything that a command prints, and its exit status. Returns `None` if the connection
/// ended before the command did.
pub(super) async fn receive(read: &mut russh::ChannelReadHalf) -> Option<Output> {
    let mut output = Output {
        status: 0,
        stdout: Vec::new(),
        stderr: Vec::new(),
        log: None,
    };
    let mut status = None;
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => append_limited(&mut output.stdout, &data),
            ChannelMsg::ExtendedData { data, .. } => append_limited(&mut output.stderr, &data),
            ChannelMsg::ExitStatus { exit_status } => status = i32::try_from(exit_status).ok(),
            ChannelMsg::ExitSignal { signal_name, .. } => {
                append_limited(
                    &mut output.stderr,
                    format!("killed by signal {signal_name:?}").as_bytes(),
                );
                status = Some(128);
            }
            _ => {}
        }
    }
    output.status = status?;
    Some(output)
}

fn append_limited(stream: &mut Vec<u8>, data: &[u8]) {
    let free = Output::LIMIT.saturating_sub(stream.len());
    stream.extend_from_slice(&data[..data.len().min(free)]);
}
