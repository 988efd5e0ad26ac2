//! Finds the encoder of a gzip file, reproduces the file from its content, and compares the two:
//! `recompress FILE.gz`.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::process::ExitCode;

use gzip_exact::{Recognition, recognise};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("expected a gzip file")?;
    let mut content = Vec::new();
    let stream = BufReader::new(File::open(&path)?);
    let Recognition::Known { recipe, plain } = recognise(stream, &mut content)? else {
        println!("{path}: unknown encoder; keep the file");
        return Ok(ExitCode::FAILURE);
    };
    let header = recipe.header.len();
    println!(
        "{path}: {} with a header of {header} bytes; {plain} bytes of content",
        recipe.encoder
    );
    let mut writer = recipe.writer();
    writer.write_all(&content)?;
    let same = writer.finish()? == std::fs::read(&path)?;
    println!(
        "the recompressed file is {}",
        if same { "equal" } else { "different" }
    );
    Ok(if same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
