//! What is missing from a recording, in a sentence: the places named, as far as that is readable.
//!
//! Comes in: the reasons of losses, as they are told. Goes out: how many there were, and the first of them in words. Holds
//! only those it will name.

/// More are counted, not named: a report is read by people.
const MOST_NAMED: usize = 6;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// Why, and how often in a row of reasons.
    named: Vec<(String, u64)>,
    unnamed: u64,
}

impl Losses {
    pub fn add(&mut self, why: &str) {
        if let Some((_, count)) = self.named.iter_mut().find(|(known, _)| known == why) {
            *count += 1;
        } else if self.named.len() < MOST_NAMED {
            self.named.push((why.to_string(), 1));
        } else {
            self.unnamed += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The reasons, without a full stop: "line 6: not a JSON object; line 10: no dir; and 3 more".
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self
            .named
            .iter()
            .map(|(why, count)| if *count > 1 { format!("{why} ({count} times)") } else { why.clone() })
            .collect();
        if self.unnamed > 0 {
            words.push(format!("and {} more", self.unnamed));
        }
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_rest_counted() {
        let mut losses = Losses::default();
        assert!(losses.is_empty());
        losses.add("cut short");
        for line in 1..=9 {
            losses.add(&format!("line {line}: no dir"));
        }
        losses.add("cut short");
        let named = (1..=5).map(|line| format!("; line {line}: no dir")).collect::<String>();
        assert_eq!(losses.words(), format!("cut short (2 times){named}; and 4 more"));
    }
}
