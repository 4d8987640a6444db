//! Signed networks as SNAP publishes them: `source,target,rating,time`, the rating being the weight.

use super::row::Separator;
use super::table::{columns, no_more, read};
use super::{Format, Head, Hints, Intake, Nature, Source, is_id, is_number};
use crate::error::Result;

pub struct Signed;

const COLUMNS: &[&str] = &["source", "target", "rating", "time"];

/// Larger numbers in the third column are hardly ratings.
const LARGEST_RATING: f64 = 1000.0;

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

    fn recognises(&self, head: &Head<'_>) -> bool {
        let rating = |field: &str| field.parse::<f64>().is_ok_and(|rating| rating.abs() <= LARGEST_RATING);
        head.all_rows(
            |row| row.split(',').map(str::trim).collect(),
            |fields| match fields {
                [source, target, weight, time] => {
                    is_id(source) && is_id(target) && rating(weight) && is_number(time)
                }
                _ => false,
            },
        )
    }

    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()> {
        read(source, hints, intake, |_| Separator::Byte(b','), columns(COLUMNS), no_more)
    }
}
