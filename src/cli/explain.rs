//! `rpctap explain RULE`: what a rule is, which sentence of which protocol it rests on, what to do.

use std::process::ExitCode;

use clap::Args;

use crate::error::{Error, Result};
use crate::finding::{RULES, rule};

/// Explain a rule: what it means, what it rests on, what to do
#[derive(Args)]
pub struct Explain {
    /// A rule by its name (see `rpctap rules`)
    #[arg(value_name = "RULE")]
    rule: String,
}

impl Explain {
    pub fn run(self) -> Result<ExitCode> {
        let Some(rule) = rule(&self.rule) else {
            return Err(Error::new(unknown(&self.rule)));
        };
        let wide = 100;
        let mut text = format!("{}: {}\nseverity: {}\n", rule.name, rule.title, rule.severities);
        for paragraph in rule.explanation.split("\n\n") {
            text.push('\n');
            text.push_str(&folded(paragraph, wide));
        }
        super::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Names the rules that look like what was asked for.
fn unknown(name: &str) -> String {
    let words: Vec<&str> = name.split('-').filter(|word| word.len() > 2).collect();
    let near: Vec<&str> = RULES
        .iter()
        .map(|rule| rule.name)
        .filter(|known| words.iter().any(|word| known.contains(word)))
        .take(6)
        .collect();
    let near = if near.is_empty() { String::new() } else { format!(" (perhaps {})", near.join(", ")) };
    format!("there is no rule named {name:?}{near}; `rpctap rules` lists them all")
}

fn folded(paragraph: &str, wide: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > wide {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_rule_gets_its_neighbours() {
        let told = unknown("orphan-request");
        assert!(told.contains("orphaned-request"), "{told}");
        assert!(!unknown("xyzzy").contains("perhaps"));
    }

    #[test]
    fn paragraphs_fold_at_the_margin() {
        assert_eq!(folded("one two three", 7), "one two\nthree\n");
        assert!(RULES.iter().all(|rule| folded(rule.explanation, 100).lines().all(|line| line.chars().count() <= 100)));
    }
}
