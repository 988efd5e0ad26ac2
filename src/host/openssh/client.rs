//! Clients of the master: commands and tunnels.

use std::collections::VecDeque;
use std::process::Stdio;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::{Master, message_of};
use crate::channel::{NoChannel, Piece, Reader, Writer};
use crate::{TunnelError, TunnelStream, forward};
use kubexm_types::Message;

/// The status of `ssh` for a failure of its own.
const FAILED: i32 = 255;
/// Size in bytes of one piece of output.
const CHUNK: usize = 32 * 1024;
/// Size in bytes of what `ssh` itself complains about at most. A command that prints more has started.
const COMPLAINT: usize = 16 * 1024;

impl Master {
    /// Starts a command line. Returns after the host has started it: before that, no input is sent.
    pub(crate) async fn start_command(&self, line: &str) -> Result<(Reader, Writer), NoChannel> {
        let mut command = self.client(["-T", "-o", "LogLevel=ERROR"]);
        command.arg(line);
        all_piped(&mut command);
        let broken = |error| NoChannel::Broken(message_of(&error));
        let mut child = command.spawn().map_err(broken)?;
        let stdin = child.stdin.take();
        let Some(stdin) = stdin else {
            return Err(NoChannel::Broken(Message::new("ssh has no input")));
        };
        let (sender, mut pieces) = mpsc::channel(16);
        tokio::spawn(pump(child, self.client(["-O", "check"]), sender));
        let mut first = VecDeque::new();
        let mut complaint = Vec::new();
        loop {
            match pieces.recv().await {
                Some(Piece::Stderr(bytes)) => {
                    complaint.extend_from_slice(&bytes);
                    first.push_back(Piece::Stderr(bytes));
                    if complaint.len() > COMPLAINT {
                        break;
                    }
                }
                Some(Piece::Ended(FAILED)) if is_refusal(&complaint) => {
                    return Err(NoChannel::Refused);
                }
                Some(piece) => {
                    first.push_back(piece);
                    break;
                }
                None => return Err(NoChannel::Broken(self.broken().await)),
            }
        }
        let reader = Reader::OpenSsh {
            first,
            rest: pieces,
        };
        Ok((reader, Writer::OpenSsh(Some(stdin))))
    }

    /// Opens a TCP connection from the host to a target.
    pub(crate) async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        let target = if target.contains(':') {
            format!("[{target}]:{port}")
        } else {
            format!("{target}:{port}")
        };
        // Only its debug output says that the host has connected.
        let mut command = self.client(["-v", "-W", &target]);
        // It ends with its input.
        command.kill_on_drop(false);
        all_piped(&mut command);
        let mut child = command.spawn().map_err(|_| TunnelError::Disconnected)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let opened = tokio::time::timeout(forward::CONNECT_TIMEOUT, is_open(&mut child));
        match opened.await {
            Err(_) => Err(TunnelError::TimedOut),
            Ok(true) => match stdin.zip(stdout) {
                Some((stdin, stdout)) => Ok(Box::new(tokio::io::join(stdout, stdin))),
                None => Err(TunnelError::Disconnected),
            },
            Ok(false) if !self.is_connected().await => Err(TunnelError::Disconnected),
            // The master logs why the server refused the channel.
            Ok(false) => {
                let log = self.printed();
                let is_prohibited = log.lines().last();
                if is_prohibited.is_some_and(|line| line.contains("administratively prohibited")) {
                    Err(TunnelError::NotAllowed)
                } else {
                    Err(TunnelError::Refused)
                }
            }
        }
    }
}

/// Sends what a client prints, and the status of its command at the end. There is none if the connection broke, which `check`
/// finds: the client ends with the status of a command that failed.
async fn pump(mut child: Child, mut check: Command, sender: mpsc::Sender<Piece>) {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return;
    };
    let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut is_out, mut is_err) = (true, true);
    while is_out || is_err {
        let piece = tokio::select! {
            read = stdout.read(&mut out), if is_out => match read {
                Ok(count) if count > 0 => Piece::Stdout(Bytes::copy_from_slice(&out[..count])),
                _ => { is_out = false; continue }
            },
            read = stderr.read(&mut err), if is_err => match read {
                Ok(count) if count > 0 => Piece::Stderr(Bytes::copy_from_slice(&err[..count])),
                _ => { is_err = false; continue }
            },
            // The receiver needs no more: the client ends with this task.
            () = sender.closed() => return,
        };
        if sender.send(piece).await.is_err() {
            return;
        }
    }
    let status = child.wait().await;
    let Some(status) = status.ok().and_then(|status| status.code()) else {
        return;
    };
    let is_connected = async { check.status().await.is_ok_and(|answer| answer.success()) };
    if status != FAILED || is_connected.await {
        let _ = sender.send(Piece::Ended(status)).await;
    }
}

fn all_piped(command: &mut Command) {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// Returns whether the master said that sshd permits no further session.
fn is_refusal(complaint: &[u8]) -> bool {
    String::from_utf8_lossy(complaint).contains("refused by peer")
}

/// Reads the debug output of a client for a tunnel: whether the host has connected.
async fn is_open(child: &mut Child) -> bool {
    let Some(stderr) = child.stderr.take() else {
        return false;
    };
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.contains("master session id") {
            return true;
        }
    }
    false
}
