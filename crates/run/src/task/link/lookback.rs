//! How many steps EdgeBank remembers where its memory is a length of time: as of each step, since steps of as
//! many events each last as long as they do.

use kymo_graph::snapshot::Step;
use kymo_graph::store::Store;

use crate::config::{Link, Memory};
use crate::error::{Error, Result};

/// Steps that are remembered as of each step, the last one included.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookback {
    /// As many as of every step.
    Same(usize),
    /// That many as of each.
    Each(Vec<usize>),
}

impl Lookback {
    /// As the settings say, where other baselines look back at `others` steps and training ends with step
    /// `trained`.
    pub fn new(store: &Store, link: &Link, others: usize, trained: Step) -> Result<Lookback> {
        let wrong = |problem: &str| {
            let problem = format!("found '{}', but {problem}; say a number of steps", link.edgebank_window);
            Error::settings("link.edgebank_window", problem)
        };
        let length = match link.edgebank_memory()? {
            Memory::AsOthers => return Ok(Lookback::Same(others)),
            Memory::Steps(steps) => return Ok(Lookback::Same(steps)),
            Memory::Share(share) => share * (store.time(trained)?[1] - store.time(0)?[0]),
            Memory::Seconds(seconds) => {
                let unit = store.manifest().time_unit.per_second();
                seconds * unit.ok_or_else(|| wrong("the times of the store have no unit"))?
            }
        };
        if length.is_nan() || length <= 0.0 {
            return Err(wrong("the steps of the training part take no time"));
        }
        let ends = (0..store.steps()).map(|t| Ok(store.time(t)?[1])).collect::<Result<Vec<f64>>>()?;
        Ok(Lookback::Each(remembered(&ends, length)))
    }

    /// How many steps are remembered as of step `t`; a step beyond the last one counts as the last.
    pub fn at(&self, t: Step) -> usize {
        match self {
            Lookback::Same(steps) => *steps,
            Lookback::Each(all) => all.get(t).or(all.last()).copied().unwrap_or(1),
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        match self {
            Lookback::Same(_) => 0,
            Lookback::Each(all) => 8 * all.len() as u64,
        }
    }
}

/// As of each step, the steps up to it that end less than `length` before it does.
fn remembered(ends: &[f64], length: f64) -> Vec<usize> {
    let mut first = 0;
    let of = |(t, end): (usize, &f64)| {
        while first < t && ends[first] <= end - length {
            first += 1;
        }
        t + 1 - first
    };
    ends.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use kymo_graph::store::{Plan, Writer};
    use kymo_graph::time::TimeUnit;
    use kymo_graph::{Ids, StepData};
    use proptest::prelude::*;

    use super::*;

    fn store(folder: &std::path::Path, times: &[[f64; 2]], time_unit: TimeUnit) -> Store {
        let mut writer = Writer::create(&folder.join("store"), false).unwrap();
        writer.plan(Plan { directed: true, time_unit, ..Plan::default() });
        writer.add_vertices(&Ids::Number(vec![1])).unwrap();
        for &[begin, end] in times {
            writer.push(StepData { begin, end, ..StepData::default() }).unwrap();
        }
        writer.finish().unwrap()
    }

    fn link(window: &str) -> Link {
        Link { edgebank_window: window.into(), ..Link::default() }
    }

    #[test]
    fn lengths_of_time_become_steps() {
        let folder = tempfile::tempdir().unwrap();
        let times: Vec<[f64; 2]> =
            (0..10).map(|t| [100.0 * f64::from(t), 100.0 * f64::from(t + 1)]).collect();
        let hours = store(&folder.path().join("a"), &times, TimeUnit::M);
        let of = |window: &str, trained| Lookback::new(&hours, &link(window), 4, trained).unwrap();
        assert_eq!((of("auto", 5), of("7", 5)), (Lookback::Same(4), Lookback::Same(7)));
        // 500 minutes are five steps; what is begun counts.
        for (window, trained, expected) in [("500m", 9, 5), ("401m", 9, 5), ("30%", 9, 3), ("25%", 3, 1)] {
            assert_eq!(of(window, trained).at(8), expected, "{window}");
            assert_eq!(of(window, trained).at(0), 1);
            assert_eq!(of(window, trained).at(99), expected, "as of the last step");
        }
        let plain = store(&folder.path().join("b"), &times, TimeUnit::Step);
        let error = Lookback::new(&plain, &link("3d"), 4, 5).unwrap_err().to_string();
        assert!(error.contains("link.edgebank_window: found '3d'") && error.contains("no unit"), "{error}");
        assert_eq!(Lookback::new(&plain, &link("30%"), 4, 9).unwrap().at(8), 3);
        let timeless = store(&folder.path().join("c"), &[[0.0; 2]; 3], TimeUnit::Step);
        let error = Lookback::new(&timeless, &link("15%"), 4, 1).unwrap_err().to_string();
        assert!(error.contains("take no time"), "{error}");
    }

    proptest! {
        /// The definition: look at every step before.
        #[test]
        fn steps_within_a_time_are_counted(
            gaps in prop::collection::vec(0u32..9, 1..20), length in 1u32..30,
        ) {
            let ends: Vec<f64> =
                gaps.iter().scan(0, |end, gap| { *end += gap; Some(f64::from(*end)) }).collect();
            let plain: Vec<usize> = (0..ends.len())
                .map(|t| (0..=t).filter(|&step| ends[step] > ends[t] - f64::from(length)).count())
                .collect();
            prop_assert_eq!(remembered(&ends, f64::from(length)), plain);
        }
    }
}
