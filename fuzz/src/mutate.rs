//! Mutation of seeds: flips, cuts, doublings and splices of one seed with another.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Inputs no longer than this; a parser that survives them survives longer ones, slower.
const LONGEST: usize = 16 << 10;

/// Makes an endless stream of inputs from a few seeds.
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    random: StdRng,
}

impl Mutator {
    pub fn new(seeds: &[&str], seed: u64) -> Self {
        let seeds = seeds.iter().map(|text| text.as_bytes().to_vec()).collect();
        Self { seeds, random: StdRng::seed_from_u64(seed) }
    }

    /// The next input.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        for _ in 0..self.random.random_range(1..=6) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn seed(&mut self) -> Vec<u8> {
        if self.seeds.is_empty() {
            return Vec::new();
        }
        let at = self.random.random_range(0..self.seeds.len());
        self.seeds[at].clone()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        const TOKENS: &[&str] = &[
            "{{",
            "}}",
            "{{-",
            "-}}",
            "|",
            ":",
            "- ",
            "\n",
            "  ",
            "\t",
            "\"",
            "'",
            "&a ",
            "*a",
            "<<: ",
            "!!binary ",
            "#",
            "%",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            ",",
            ".",
            "..",
            "/",
            "\\",
            "$",
            "${",
            "=",
            "null",
            "true",
            "-1",
            "0",
            "1e309",
            "9223372036854775808",
            "\u{feff}",
            "\u{0}",
            "é",
            "\u{2028}",
        ];
        let at = self.random.random_range(0..=input.len());
        match self.random.random_range(0..6) {
            0 if !input.is_empty() => {
                let at = at.min(input.len() - 1);
                input[at] ^= 1 << self.random.random_range(0..8);
            }
            1 => {
                let token = TOKENS[self.random.random_range(0..TOKENS.len())];
                input.splice(at..at, token.bytes());
            }
            2 => {
                let end = self.random.random_range(at..=input.len());
                input.drain(at..end.min(at + 64));
            }
            3 => {
                let end = self.random.random_range(at..=input.len());
                let piece = input[at..end].to_vec();
                let times = self.random.random_range(1..=8);
                for _ in 0..times {
                    if input.len() < LONGEST {
                        input.splice(at..at, piece.iter().copied());
                    }
                }
            }
            4 => {
                let other = self.seed();
                let from = self.random.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.insert(at, self.random.random()),
        }
    }
}
