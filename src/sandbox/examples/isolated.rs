//! Runs a command in a sandbox: `cargo run -p kubexm-sandbox --example isolated -- /bin/sh -c 'id; ls /'`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use kubexm_sandbox::{ProgramRun, Sandbox, Workspace};

fn main() -> ExitCode {
    if let Some(code) = kubexm_sandbox::enter() {
        return code;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments
        .next()
        .ok_or("usage: isolated PROGRAM [ARGUMENT…]")?;
    let workspace = Workspace::create("kubexm-example-")?;
    let mut program = ProgramRun::new(&workspace, PathBuf::from(program))?;
    program.arguments = arguments.collect();
    let output = program.output(&Sandbox::default()).await?;
    std::io::stdout().write_all(&output.stdout)?;
    std::io::stderr().write_all(&output.stderr)?;
    Ok(output.is_success)
}
