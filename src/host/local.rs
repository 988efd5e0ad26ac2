//! This machine as a host: what steps are tested on.

use std::io::{Read, Write};
use std::process::Stdio;

use async_trait::async_trait;

use super::{Command, DialError, Host, HostError, Input, Line, Output, dial};
use crate::spec::HostName;

/// Runs commands here, as the current user.
pub struct LocalHost {
    name: HostName,
}

impl LocalHost {
    /// This machine under a name.
    pub fn new(name: HostName) -> Self {
        Self { name }
    }
}

#[async_trait]
impl Host for LocalHost {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let (host, description) = (self.name.clone(), command.description());
        let failed = |reason: String| HostError::Command {
            host,
            command: description,
            reason,
        };
        let result = tokio::task::spawn_blocking(move || run(command)).await;
        match result {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    async fn dial(&self, target: &str, port: u16) -> Result<Box<dyn Line>, DialError> {
        let opening = tokio::net::TcpStream::connect((target, port));
        match tokio::time::timeout(dial::LIMIT, opening).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(_)) => Err(DialError::Refused),
            Err(_) => Err(DialError::Silent),
        }
    }
}

fn run(command: Command) -> std::io::Result<Output> {
    let mut child = std::process::Command::new(&command.argv[0])
        .args(&command.argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let Some(mut stdin) = stdin else {
            return Ok(());
        };
        let mut source: Box<dyn Read> = match command.input {
            Input::None => return Ok(()),
            Input::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
            Input::Stream(stream) => stream,
        };
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            let count = source.read(&mut buffer)?;
            // A command that stops reading says by its status whether that was right.
            if count == 0 || stdin.write_all(&buffer[..count]).is_err() {
                return Ok(());
            }
        }
    });
    let output = child.wait_with_output()?;
    writer.join().unwrap_or(Ok(()))?;
    let status = output.status.code().unwrap_or(128);
    Ok(Output {
        status,
        stdout: output.stdout,
        stderr: output.stderr,
    })
}
