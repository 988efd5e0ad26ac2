//! Prints the text of a script as hosts get it: `cargo run -p kubexm-scripts --example text os/hook.sh`.

fn main() -> std::process::ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match kubexm_scripts::ALL
        .iter()
        .find(|script| script.name == name)
    {
        Some(script) => {
            print!("{}", script.text);
            std::process::ExitCode::SUCCESS
        }
        None => {
            eprintln!("there is no script {name:?}; the names are those of src/scripts/lib.rs");
            std::process::ExitCode::FAILURE
        }
    }
}
