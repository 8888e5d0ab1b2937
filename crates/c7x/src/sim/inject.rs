//! Faults on request: what goes wrong, when, and how often.
//!
//! A specification is a comma-separated list, e.g. `drop=0.01,delay=0.1:20,seed=7`. With the same seed and the same messages the
//! same things go wrong.
//!
//! | word | what happens |
//! | --- | --- |
//! | `announce=lost` | the device never says that it is ready |
//! | `announce=late:MS` | it says so MS milliseconds late |
//! | `drop=P` | a message is lost with probability P |
//! | `delay=P:MS` | a reply comes MS milliseconds late with probability P |
//! | `busy=P:MS` | the device reads no messages for MS milliseconds, with probability P a message |
//! | `crash=N` | the device dies on message N, before it handles it |
//! | `crash-after=N` | … after handling it, before the reply |
//! | `hang=N` | the device never answers message N, nor any after it |
//! | `oom=N` | the N-th allocation of MAIN memory fails |
//! | `seed=N` | seed of the probabilities |

use std::string::{String, ToString};
use std::time::Duration;

/// Faults of one device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    pub(super) announce: Announce,
    drop: f64,
    delay: Option<(f64, Duration)>,
    busy: Option<(f64, Duration)>,
    crash: Option<u64>,
    crash_after: Option<u64>,
    hang: Option<u64>,
    pub(super) oom: Option<u64>,
    random: u64,
    messages: u64,
}

/// How the device announces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Announce {
    /// At once.
    #[default]
    Prompt,
    /// After a while.
    Late(Duration),
    /// Never.
    Lost,
}

/// A word of a fault specification that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "fault `{word}`: {problem}; known faults: announce=lost|late:MS drop=P delay=P:MS busy=P:MS crash=N crash-after=N hang=N oom=N seed=N"
)]
pub struct BadFault {
    word: String,
    problem: &'static str,
}

/// What happens to a message that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handled.
    Handled,
    /// It is lost.
    Dropped,
    /// The device dies.
    Crash,
    /// The device stops for ever.
    Hang,
}

impl std::str::FromStr for Faults {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Self, BadFault> {
        let mut faults = Self { random: 1, ..Self::default() };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            faults.take(word).map_err(|problem| BadFault { word: word.to_string(), problem })?;
        }
        Ok(faults)
    }
}

fn probability(text: &str) -> Result<f64, &'static str> {
    let value: f64 = text.parse().map_err(|_| "the probability is no number")?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("a probability lies between 0 and 1") }
}

fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    text.parse().map(Duration::from_millis).map_err(|_| "milliseconds are a whole number")
}

fn chance_and_time(text: &str) -> Result<Option<(f64, Duration)>, &'static str> {
    let (chance, time) = text.split_once(':').ok_or("it needs a probability and milliseconds, as in 0.1:20")?;
    Ok(Some((probability(chance)?, milliseconds(time)?)))
}

fn count(text: &str) -> Result<Option<u64>, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it counts from 1"),
        Ok(number) => Ok(Some(number)),
    }
}

impl Faults {
    fn take(&mut self, word: &str) -> Result<(), &'static str> {
        let (name, value) = word.split_once('=').ok_or("it needs a value, as in drop=0.01")?;
        match name {
            "announce" => {
                self.announce = match value.split_once(':') {
                    Some(("late", time)) => Announce::Late(milliseconds(time)?),
                    None if value == "lost" => Announce::Lost,
                    _ => return Err("an announcement is lost or late:MS"),
                }
            }
            "drop" => self.drop = probability(value)?,
            "delay" => self.delay = chance_and_time(value)?,
            "busy" => self.busy = chance_and_time(value)?,
            "crash" => self.crash = count(value)?,
            "crash-after" => self.crash_after = count(value)?,
            "hang" => self.hang = count(value)?,
            "oom" => self.oom = count(value)?,
            "seed" => self.random = value.parse::<u64>().map_err(|_| "a seed is a whole number")?.max(1),
            _ => return Err("there is no such fault"),
        }
        Ok(())
    }

    /// Whether something of this probability happens now (xorshift64*).
    fn happens(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let draw = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        f64::from(u32::try_from(draw).unwrap_or(0)) < probability * f64::from(u32::MAX)
    }

    /// Counts a message and decides about it.
    pub(super) fn message(&mut self) -> Fate {
        self.messages += 1;
        if self.crash == Some(self.messages) {
            Fate::Crash
        } else if self.hang == Some(self.messages) {
            Fate::Hang
        } else if self.happens(self.drop) {
            Fate::Dropped
        } else {
            Fate::Handled
        }
    }

    /// How long the device leaves its ring alone before it reads the next message.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let (chance, time) = self.busy?;
        self.happens(chance).then_some(time)
    }

    /// What happens to the reply: death, or a delay.
    pub(super) fn reply(&mut self) -> Result<Option<Duration>, Fate> {
        if self.crash_after == Some(self.messages) {
            return Err(Fate::Crash);
        }
        match self.delay {
            Some((chance, time)) => Ok(self.happens(chance).then_some(time)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_specification_is_read_word_by_word() {
        let mut faults: Faults = "drop=0.5, crash=3,oom=7,announce=late:20,seed=9".parse().unwrap();
        assert_eq!((faults.announce, faults.oom), (Announce::Late(Duration::from_millis(20)), Some(7)));
        faults.drop = 0.0;
        assert_eq!([(); 4].map(|()| faults.message()), [Fate::Handled, Fate::Handled, Fate::Crash, Fate::Handled]);
    }

    #[test]
    fn the_same_seed_loses_the_same_messages_at_about_the_right_rate() {
        let lost = |seed: u64| -> Vec<bool> {
            let mut faults: Faults = std::format!("drop=0.25,seed={seed}").parse().unwrap();
            (0..4000).map(|_| faults.message() == Fate::Dropped).collect()
        };
        assert_eq!(lost(5), lost(5));
        assert_ne!(lost(5), lost(6));
        let count = lost(5).into_iter().filter(|lost| *lost).count();
        assert!((800..1200).contains(&count), "{count}");
    }

    #[test]
    fn a_word_that_makes_no_sense_is_named() {
        for word in
            ["drop", "drop=2", "drop=x", "delay=0.5", "delay=0.5:x", "crash=0", "announce=soon", "flood=1", "seed=x"]
        {
            let error = word.parse::<Faults>().unwrap_err().to_string();
            assert!(error.starts_with(&std::format!("fault `{word}`: ")), "{error}");
        }
    }

    use std::vec::Vec;
}
