//! Runs every `console` block of the README and compares what it prints.
//!
//! A line that starts with `$ ` is a command; what follows it, up to the next command, is what it must print on
//! stdout. A line `…` stands for any number of lines. Blocks run one after another in one empty home folder, with
//! the repository as working directory and the tested program first on PATH. `sh` blocks are not run.

use std::fs;
use std::path::Path;
use std::process::Command;

struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in readme.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        match line.strip_prefix("$ ") {
            Some(command) => {
                steps.push(Step { line: number + 1, command: command.to_string(), expected: Vec::new() });
            }
            None => match steps.last_mut() {
                Some(step) => step.expected.push(line.trim_end().to_string()),
                None => panic!("README line {}: output before any command", number + 1),
            },
        }
    }
    steps
}

/// Whether the lines fit, `…` matching any run of them.
fn fits(expected: &[String], got: &[String]) -> bool {
    match expected.split_first() {
        None => got.is_empty(),
        Some((first, rest)) if first == "…" => (0..=got.len()).any(|skip| fits(rest, &got[skip..])),
        Some((first, rest)) => got.first() == Some(first) && fits(rest, &got[1..]),
    }
}

#[test]
fn console_blocks_print_what_they_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).expect("README.md");
    let steps = steps(&readme);
    assert!(!steps.is_empty(), "the README shows no command at all");
    let home = tempfile::tempdir().expect("a temporary home");
    let program = Path::new(env!("CARGO_BIN_EXE_rpctap"));
    let folder = program.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut wrong = Vec::new();
    for step in &steps {
        // Building is what the tests did already: the block shows how a user starts the same program.
        let command =
            step.command.replace("cargo run --release -q --", "rpctap").replace("cargo run --release --", "rpctap");
        let output = Command::new("bash")
            .args(["-c", &command])
            .current_dir(root)
            .env("PATH", &path)
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path().join("data"))
            .env("SCRATCH", home.path())
            .env_remove("RPCTAP_STORE")
            .env("NO_COLOR", "1")
            .output()
            .expect("bash runs");
        let got: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .lines()
            .map(|line| line.trim_end().to_string())
            .collect();
        let mut expected = step.expected.clone();
        while expected.last().is_some_and(String::is_empty) {
            expected.pop();
        }
        if !fits(&expected, &got) {
            wrong.push(format!(
                "README line {}: `{}` printed\n{}\n(stderr: {})",
                step.line,
                step.command,
                got.join("\n"),
                String::from_utf8_lossy(&output.stderr).trim_end()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_ellipsis_stands_for_any_lines_and_nothing_else_does() {
    let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
    assert!(fits(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(!fits(&lines("a\n…\nd"), &lines("a\nb\nc")));
    assert!(!fits(&lines("a"), &lines("a\nb")));
}
