//! SNAP's temporal edge lists: `source target time`, separated by blanks.

use super::row::Separator;
use super::sample::Sample;
use super::table::{columns, no_more, read};
use super::{Format, Hints, Intake, Nature, Source};
use crate::error::Result;

pub struct Snap;

const COLUMNS: &[&str] = &["source", "target", "time"];

impl Format for Snap {
    fn name(&self) -> &'static str {
        "snap"
    }

    fn about(&self) -> &'static str {
        "SNAP temporal edges: source target time, separated by blanks"
    }

    fn example(&self) -> &'static str {
        "1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let sample = Sample::of(source, hints)?;
        read(source, hints, intake, sample.as_ref(), |_| Separator::Blank, columns(COLUMNS), no_more)
    }
}
