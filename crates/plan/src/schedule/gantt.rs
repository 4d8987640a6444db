//! A schedule as a Gantt chart for a terminal: one line per worker, time to the right.
//!
//! Iterations end with a bar, which stands for the all-reduce and has no width in time. All columns are
//! equally long, so the chart is cut where it would get too narrow to read: after some iterations, and after
//! some workers.

use std::fmt;

use super::instance::Instance;
use super::timetable::Schedule;

/// Columns of a chart unless others are asked for.
pub const WIDTH: usize = 100;
/// The narrowest chart that can be read.
const NARROWEST: usize = 20;
/// Columns that an iteration should have on average.
const COLUMNS: usize = 12;
/// Lines of workers at most.
const LINES: usize = 16;

/// A chart; printed with `{}`.
#[derive(Clone, Copy, Debug)]
pub struct Gantt<'a> {
    instance: &'a Instance,
    schedule: &'a Schedule,
    width: usize,
}

impl<'a> Gantt<'a> {
    /// The chart of a schedule of this instance, [`WIDTH`] columns wide.
    pub fn new(instance: &'a Instance, schedule: &'a Schedule) -> Self {
        Gantt { instance, schedule, width: WIDTH }
    }

    /// The chart with this number of columns, 20 at least.
    pub fn width(self, width: usize) -> Self {
        Gantt { width: width.max(NARROWEST), ..self }
    }

    /// Seconds of one worker in one iteration, after each of its groups.
    fn ends(&self, bin: &[usize]) -> Vec<f64> {
        (1..=bin.len()).map(|count| self.instance.load(&bin[..count])).collect()
    }
}

impl fmt::Display for Gantt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let used = |iteration: &&Vec<Vec<usize>>| iteration.iter().any(|bin| !bin.is_empty());
        let iterations: Vec<&Vec<Vec<usize>>> = self.schedule.iterations.iter().filter(used).collect();
        if iterations.is_empty() {
            return writeln!(f, "nothing to run");
        }
        let lines = self.instance.workers.min(LINES);
        let label = "worker ".len() + (lines - 1).to_string().len();
        let room = self.width - label - 2;
        let shown = &iterations[..iterations.len().min((room / COLUMNS).max(1))];
        let longest = |iteration: &&Vec<Vec<usize>>| {
            iteration.iter().map(|bin| self.instance.load(bin)).fold(0.0, f64::max)
        };
        let lengths: Vec<f64> = shown.iter().map(longest).collect();
        let seconds: f64 = lengths.iter().sum();
        let columns = room.saturating_sub(shown.len());
        let scale = if seconds > 0.0 { columns as f64 / seconds } else { 0.0 };
        for worker in 0..lines {
            write!(f, "{:label$} |", format!("worker {worker}"))?;
            let mut begin = 0.0;
            for (iteration, &length) in shown.iter().zip(&lengths) {
                let column = |end: f64| ((begin + end) * scale).round() as usize;
                let bin = iteration.get(worker).map_or(&[][..], Vec::as_slice);
                let mut at = column(0.0);
                for (&group, end) in bin.iter().zip(self.ends(bin)) {
                    let end = column(end.min(length)).max(at);
                    write!(f, "{}", block(group, end - at))?;
                    at = end;
                }
                write!(f, "{}|", ".".repeat(column(length).saturating_sub(at)))?;
                begin += length;
            }
            writeln!(f)?;
        }
        if lines < self.instance.workers {
            writeln!(f, "... and {} more workers", self.instance.workers - lines)?;
        }
        if shown.len() < iterations.len() {
            writeln!(f, "... and {} more iterations", iterations.len() - shown.len())?;
        }
        let column = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        writeln!(f, "[7] is group 7, . is waiting, | ends an iteration; a column is {column:.3} s")
    }
}

/// A group as this number of characters, with its number where there is room.
fn block(group: usize, columns: usize) -> String {
    match columns {
        0 | 1 => "=".repeat(columns),
        _ => {
            let (room, number) = (columns - 2, group.to_string());
            let inside = if number.len() <= room { number } else { String::new() };
            format!("[{inside:=^room$}]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(iterations: &[&[&[usize]]]) -> Schedule {
        let bins = |iteration: &&[&[usize]]| iteration.iter().map(|bin| bin.to_vec()).collect();
        Schedule { iterations: iterations.iter().map(bins).collect() }
    }

    #[test]
    fn the_chart_is_as_it_should_be() {
        let instance = Instance::new(vec![8.0, 6.0, 1.0, 0.5, 4.0], 3);
        let schedule = schedule(&[&[&[0], &[1, 2], &[3]], &[&[], &[], &[]], &[&[4], &[], &[]]]);
        let chart = Gantt::new(&instance, &schedule).width(48).to_string();
        let expected = "\
worker 0 |[==========0===========]|[====4=====]|
worker 1 |[=======1========][2]...|............|
worker 2 |[]......................|............|
[7] is group 7, . is waiting, | ends an iteration; a column is 0.333 s
";
        assert_eq!(chart, expected);
        assert!(chart.lines().take(3).all(|line| line.len() <= 48));
    }

    #[test]
    fn what_is_too_much_is_cut_with_a_note() {
        let instance = Instance::new(vec![1.0; 400], 20);
        let bins: Vec<Vec<usize>> = (0..400).map(|group| vec![group]).collect();
        let schedule = Schedule::from_bins(&instance, bins);
        let chart = Gantt::new(&instance, &schedule).to_string();
        assert!(chart.contains("... and 4 more workers\n... and 13 more iterations\n"), "{chart}");
        assert!(chart.lines().all(|line| line.len() <= WIDTH), "{chart}");
        assert_eq!(Gantt::new(&instance, &Schedule::default()).to_string(), "nothing to run\n");
    }

    #[test]
    fn groups_of_no_cost_and_narrow_charts_do_no_harm() {
        let instance = Instance::new(vec![0.0; 3], 2);
        let schedule = schedule(&[&[&[0, 1], &[2]]]);
        assert!(Gantt::new(&instance, &schedule).width(0).to_string().starts_with("worker 0 ||\n"));
    }
}
