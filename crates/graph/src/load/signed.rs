//! Signed networks as SNAP publishes them: `source,target,rating,time`, the rating being the weight.

use super::row::Separator;
use super::sample::Sample;
use super::table::{columns, no_more, read};
use super::{Format, Hints, Intake, Nature, Source};
use crate::error::Result;

pub struct Signed;

const COLUMNS: &[&str] = &["source", "target", "rating", "time"];

impl Format for Signed {
    fn name(&self) -> &'static str {
        "signed"
    }

    fn about(&self) -> &'static str {
        "SNAP signed networks: source,target,rating,time"
    }

    fn example(&self) -> &'static str {
        "6,2,4,1289241911.72836\n6,5,2,1289241941.53378\n1,15,-1,1289243140.39049\n"
    }

    fn nature(&self) -> Nature {
        Nature::Events
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        let sample = Sample::of(source, hints)?;
        read(source, hints, intake, sample.as_ref(), |_| Separator::Byte(b','), columns(COLUMNS), no_more)
    }
}
