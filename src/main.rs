//! Parse, run, print one error line, exit code.

use std::process::ExitCode;

use clap::Parser;

/// What a proxy allocates lives for one exchange, and what an import allocates goes from thread to thread; the C
/// library's allocator is slow at both.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match rpctap::cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rpctap: {error}");
            ExitCode::from(2)
        }
    }
}
