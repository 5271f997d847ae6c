//! Parse, run, print one error line, exit code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match rpctap::cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rpctap: {error}");
            ExitCode::from(2)
        }
    }
}
