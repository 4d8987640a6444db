//! The settings that are tried: some values of each, drawn at random (Bergstra and Bengio, JMLR 2012).
//!
//! What a trial gets follows from the seed, its number and the name of the setting, so that it is the same
//! whatever else is tried and in whatever order trials are trained.

use kymo_graph::random::Random;

use crate::config::Settings;
use crate::error::{Error, Result};

/// What is tried where nothing else is said, whatever the task.
pub const USUAL: [&str; 7] = [
    "model.name=gcn-gru,graphsage-linear,t-gcn,wd-gcn",
    "train.learning_rate=0.002..0.03",
    "model.hidden=16,32,64,128",
    "model.layers=1,2",
    "model.dropout=0,0.1,0.3",
    "train.weight_decay=0,0.0001",
    "train.window=2,4,8",
];

/// Values of a setting.
#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// One of these.
    Some(Vec<String>),
    /// Any between two, small ones as often as large ones: the logarithm is uniform.
    Between(f64, f64),
}

/// A setting and what is tried for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    key: String,
    values: Values,
    text: String,
}

impl Axis {
    /// Reads `KEY=A,B,C` or `KEY=LOW..HIGH`.
    pub fn parse(text: &str) -> Result<Axis> {
        let wrong = |problem: String| Error::settings("--over", problem);
        let expected = "expected KEY=A,B,... or KEY=LOW..HIGH, as in model.hidden=32,64";
        let (key, values) =
            text.split_once('=').ok_or_else(|| wrong(format!("found '{text}', {expected}")))?;
        let (key, values) = (key.trim(), values.trim());
        let values = match values.split_once("..") {
            Some((low, high)) => {
                let number = |end: &str| end.trim().parse::<f64>().ok().filter(|end| end.is_finite());
                match (number(low), number(high)) {
                    (Some(low), Some(high)) if 0.0 < low && low < high => Values::Between(low, high),
                    _ => {
                        let problem = format!(
                            "found '{text}': a range goes from a number above 0 to a higher one; list the \
                             values where one of them is 0, as in {key}=0,0.1"
                        );
                        return Err(wrong(problem));
                    }
                }
            }
            None => Values::Some(values.split(',').map(|value| value.trim().to_owned()).collect()),
        };
        match &values {
            _ if key.is_empty() => Err(wrong(format!("found '{text}', {expected}"))),
            Values::Some(list) if list.iter().any(String::is_empty) => {
                Err(wrong(format!("found '{text}', in which a value is empty; {expected}")))
            }
            _ => Ok(Axis { key: key.to_owned(), values, text: text.to_owned() }),
        }
    }

    /// Its value in a trial.
    fn draw(&self, seed: u64, trial: usize) -> String {
        let name = self.key.bytes().fold(Random::new(seed), |random, byte| random.stream(u64::from(byte)));
        match &self.values {
            Values::Some(list) => list[name.below(list.len(), trial as u64)].clone(),
            Values::Between(low, high) => {
                let value = (low.ln() + name.share(trial as u64) * (high / low).ln()).exp();
                // Two digits are what anybody would type, and what a table shows.
                let digits = (1 - value.log10().floor() as i32).max(0) as usize;
                let rounded = format!("{value:.digits$}");
                if low.fract() == 0.0 && high.fract() == 0.0 { format!("{value:.0}") } else { rounded }
            }
        }
    }

    /// Fails unless each end of it is a value of a setting.
    fn check(&self, settings: &Settings) -> Result<()> {
        let ends = match &self.values {
            Values::Some(list) => list.clone(),
            Values::Between(low, high) => vec![low.to_string(), high.to_string()],
        };
        for value in ends {
            let change = (self.key.clone(), value, "--over".to_owned());
            crate::config::overlay::resolve_over::<Settings>(settings, None, &[change])?;
        }
        Ok(())
    }
}

/// All that is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Space(Vec<Axis>);

impl Space {
    /// These settings, as [`Axis::parse`] reads them, to be tried in the place of those that are given.
    pub fn new(axes: &[String], settings: &Settings) -> Result<Space> {
        let axes: Vec<Axis> = axes.iter().map(|text| Axis::parse(text)).collect::<Result<_>>()?;
        for (number, axis) in axes.iter().enumerate() {
            if axes[..number].iter().any(|other| other.key == axis.key) {
                return Err(Error::settings("--over", format!("{} is there twice", axis.key)));
            }
            axis.check(settings)?;
        }
        Ok(Space(axes))
    }

    /// The usual ones, without those of these keys.
    pub fn usual(without: &[&str], settings: &Settings) -> Result<Space> {
        let is_left = |text: &&str| without.iter().all(|key| !text.starts_with(&format!("{key}=")));
        let texts: Vec<String> = USUAL.iter().filter(|text| is_left(text)).map(|&text| text.into()).collect();
        Space::new(&texts, settings)
    }

    /// The settings of a trial. The first has none: it is what is given, which has to be beaten.
    pub fn draw(&self, seed: u64, trial: usize) -> Vec<(String, String)> {
        let axes = if trial == 0 { &[][..] } else { &self.0 };
        axes.iter().map(|axis| (axis.key.clone(), axis.draw(seed, trial))).collect()
    }

    /// As it was typed.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|axis| axis.text.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn space(texts: &[&str]) -> Result<Space> {
        Space::new(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &Settings::default())
    }

    #[test]
    fn what_a_trial_gets_does_not_depend_on_what_else_is_tried() {
        let both = space(&["model.hidden=16,32", "train.learning_rate=0.001..0.1"]).unwrap();
        let one = space(&["train.learning_rate=0.001..0.1"]).unwrap();
        for trial in 1..40 {
            assert_eq!(both.draw(7, trial)[1..], one.draw(7, trial));
        }
        assert_ne!(one.draw(7, 1), one.draw(8, 1));
        assert!(both.draw(7, 0).is_empty(), "the first is what is given");
        assert_eq!(both.texts()[1], "train.learning_rate=0.001..0.1");
    }

    #[test]
    fn all_values_of_a_list_and_all_sizes_of_a_range_are_drawn() {
        let both = space(&["model.layers=1,2,3", "train.learning_rate=0.001..0.1"]).unwrap();
        let drawn: Vec<_> = (1..400).map(|trial| both.draw(1, trial)).collect();
        let layers: BTreeSet<&str> = drawn.iter().map(|trial| trial[0].1.as_str()).collect();
        assert_eq!(layers, BTreeSet::from(["1", "2", "3"]));
        let rates: Vec<f64> = drawn.iter().map(|trial| trial[1].1.parse().unwrap()).collect();
        assert!(rates.iter().all(|rate| (0.001..=0.1).contains(rate)));
        let low = rates.iter().filter(|rate| **rate < 0.01).count();
        assert!((160..240).contains(&low), "{low} of 399 are in the lower half by size");
        let columns = space(&["model.hidden=10..500"]).unwrap().draw(1, 3)[0].1.parse::<usize>();
        assert!((10..=500).contains(&columns.unwrap()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let said = |text: &str| space(&[text]).unwrap_err().to_string();
        assert!(said("model.hidden").contains("expected KEY=A,B"));
        assert!(said("=3").contains("expected KEY=A,B"));
        assert!(said("model.hidden=3,,4").contains("a value is empty"));
        for range in ["0..1", "2..1", "1..x", "-1..1", "1..inf"] {
            assert!(said(&format!("model.dropout={range}")).contains("model.dropout=0,0.1"), "{range}");
        }
        assert!(said("model.hiden=3,4").contains("model.hid"));
        assert!(said("model.hidden=3,many").contains("model.hidden"));
        let twice = space(&["model.layers=1,2", "model.layers=3"]).unwrap_err().to_string();
        assert!(twice.contains("model.layers is there twice"));
    }

    #[test]
    fn the_usual_space_leaves_out_what_is_settled() {
        let settings = Settings::default();
        assert_eq!(Space::usual(&[], &settings).unwrap().0.len(), USUAL.len());
        let left = Space::usual(&["model.name", "train.window"], &settings).unwrap().texts();
        assert_eq!(left.len(), USUAL.len() - 2);
        assert!(left.iter().all(|text| !text.starts_with("model.name=") && !text.contains("window")));
    }
}
