//! `rpctap analyze` and `rpctap chart` as a user or a pipeline runs them: exit codes, outputs, gauges, stores.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const ABANDONED: &str = "samples/r1-pysdk-1.29.0-pathB.ndjson";
const CANCELLED: &str = "samples/r2-pysdk-2.3.0-pathB.ndjson";
const GAUGE: &str = "tasks=tools/call:task_count#/structuredContent/result";

fn rpctap(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpctap"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("RPCTAP_STORE")
        .output()
        .expect("rpctap")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    let output = rpctap(&[arguments, &["--format", "json", "--fail-on", "never"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_exit_code_tells_a_pipeline_what_it_asked_for() {
    let code = |arguments: &[&str]| rpctap(&[&["analyze"], arguments].concat()).status.code();
    assert_eq!(code(&[ABANDONED]), Some(1), "leaks fail unless told otherwise");
    assert_eq!(code(&[ABANDONED, "--fail-on", "never"]), Some(0));
    assert_eq!(code(&[ABANDONED, "--fail-on", "growing-leak"]), Some(1));
    assert_eq!(code(&[ABANDONED, "--fail-on", "cancel-unanswered"]), Some(0));
    assert_eq!(code(&[CANCELLED]), Some(0), "silence after a cancel conforms in MCP");
    assert_eq!(code(&[CANCELLED, "--cancel-policy", "reply"]), Some(1), "and leaks for one who waits for a reply");
    assert_eq!(code(&[ABANDONED, "--fail-on", "no-such-rule"]), Some(2));
}

#[test]
fn trouble_is_one_line_and_code_2() {
    let output = rpctap(&["analyze", "no/such/file.ndjson"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(told.starts_with("rpctap: ") && told.trim_end().lines().count() == 1, "{told}");
    let output = rpctap(&["chart", ABANDONED, "--output", "growth.gif"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_pipe_gets_plain_text_with_the_three_headlines() {
    let told = text(&rpctap(&["analyze", ABANDONED]));
    assert!(!told.contains('\x1b'), "no colour in a pipe");
    for line in ["Orphaned requests       50", "Unresolved cancels       0", "Leaked work             50  growing"] {
        assert!(told.contains(line), "{line} in {told}");
    }
}

#[test]
fn the_wire_and_the_server_agree_on_one_time_axis() {
    let report = json(&["analyze", ABANDONED, "--gauge", GAUGE, "--pool", "10"]);
    let growth = &report["sessions"][0]["growth"];
    assert_eq!(growth["verdict"], "growing");
    assert_eq!(growth["rise"], 50);
    assert_eq!((&growth["gauges"][0]["first"], &growth["gauges"][0]["last"]), (&4.0.into(), &54.0.into()));
    assert_eq!(growth["pool"]["forecast"], "exhausted");
    let rows = report["sessions"][0]["series"]["rows"].as_array().expect("rows");
    let leaked = |row: &Value| row.as_array().and_then(|row| row.last().cloned());
    assert_eq!(leaked(&rows[0]), Some(0.into()));
    assert_eq!(leaked(&rows[rows.len() - 1]), Some(50.into()));
}

#[test]
fn charts_are_drawn_on_a_machine_without_fonts() {
    let folder = tempfile::tempdir().expect("a folder");
    let draw = |chart: &str, ending: &str| -> PathBuf {
        let path = folder.path().join(format!("{chart}.{ending}"));
        let output = Command::new(env!("CARGO_BIN_EXE_rpctap"))
            .args(["chart", ABANDONED, "--chart", chart, "--gauge", GAUGE, "--output"])
            .arg(&path)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            // Nothing that leads to a font of the machine.
            .env_clear()
            .env("FONTCONFIG_PATH", folder.path())
            .output()
            .expect("rpctap");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    };
    for chart in ["growth", "in-flight", "latency", "waterfall"] {
        let svg = std::fs::read_to_string(draw(chart, "svg")).expect("an SVG");
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("@font-face"), "{chart}");
        assert!(std::fs::read(draw(chart, "png")).expect("a PNG").starts_with(b"\x89PNG"), "{chart}");
    }
    let growth = std::fs::read_to_string(folder.path().join("growth.svg")).expect("an SVG");
    assert!(growth.contains("gauge tasks 4 → 54") && growth.contains("leaked: abandoned (50)"));
}

#[test]
fn a_whole_store_is_grouped_by_server_and_release() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let store = store.to_str().expect("a path");
    for recording in [ABANDONED, CANCELLED] {
        let output = rpctap(&["import", recording, "--store", store]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let report = json(&["analyze", store]);
    let servers = report["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), 2, "{servers:?}");
    assert_eq!(servers[0]["version"], "1.29.0");
    assert_eq!(servers[1]["against_the_release_before"], "less");
    assert_eq!(report["sessions"].as_array().map(Vec::len), Some(2));
    let one = json(&["analyze", store, "--session", "1"]);
    assert_eq!(one["sessions"].as_array().map(Vec::len), Some(1));
    // The page of a store shows the events that prove its findings.
    let page = Path::new(store).with_extension("html");
    let output = rpctap(&[
        "analyze",
        store,
        "--format",
        "html",
        "--fail-on",
        "never",
        "--output",
        page.to_str().expect("a path"),
    ]);
    assert!(output.status.success());
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("\"transcript\":\"") && page.contains("hangs_forever_async"));
}
