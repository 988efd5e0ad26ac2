//! What goes through an SSH channel: input there, output and status back.

use bytes::Bytes;
use russh::{ChannelMsg, client};
use tokio::sync::mpsc;

use super::{Input, Output};

/// Bytes that are read ahead of the line.
const CHUNK: usize = 60 * 1024;

/// Sends the input; `Err(None)` where the other side stopped reading, which its exit status tells.
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

/// Everything a command prints, and its status; `None` where the connection ended before it did.
pub(super) async fn receive(read: &mut russh::ChannelReadHalf) -> Option<Output> {
    let mut output = Output {
        status: 0,
        stdout: Vec::new(),
        stderr: Vec::new(),
    };
    let mut status = None;
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => keep(&mut output.stdout, &data),
            ChannelMsg::ExtendedData { data, .. } => keep(&mut output.stderr, &data),
            ChannelMsg::ExitStatus { exit_status } => status = i32::try_from(exit_status).ok(),
            ChannelMsg::ExitSignal { signal_name, .. } => {
                keep(
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

fn keep(stream: &mut Vec<u8>, data: &[u8]) {
    let room = Output::LIMIT.saturating_sub(stream.len());
    stream.extend_from_slice(&data[..data.len().min(room)]);
}
