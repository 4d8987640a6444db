//! The integer program of DyGNeX-L and REAL-L for HiGHS, in REAL's epigraph form (equations 11 to 14).
//!
//! `x[k][i][j]` says that group `k` runs in iteration `i` on worker `j`; `t[i]` is the time of iteration `i`,
//! no less than any of its loads; `u[i]` says that the iteration runs something and is charged the overhead.
//! Beyond the papers:
//! - workers are interchangeable, and so are iterations: loads fall from worker to worker, and times from
//!   iteration to iteration;
//! - reuse: for two groups, `y[k][k'][i][j]` needs no bounds by pair, the stronger
//!   `sum over k' of y[k][k'] <= x[k]` is enough, since a group has one partner; and `y` need not be whole.
//!
//! The bound is proven for all schedules only if the program has as many iterations as a better schedule
//! could need. If that makes it too large, it has those of the start, and the bound is that of
//! [`Instance::lower_bound`].

use std::time::Instant;

use highs::{Col, HighsModelStatus, RowProblem, Sense};

use super::instance::Instance;
use super::program::COLUMNS;
use super::reuse::Reuse;
use super::timetable::Schedule;
use super::{Limit, Scheduled};
use crate::error::{Error, Result};

/// Whether the program of an instance is small enough, and knows all that the instance has.
pub(super) fn fits(instance: &Instance) -> bool {
    let shape = Shape { instance, iterations: instance.iterations().0 };
    shape.columns() <= COLUMNS && (instance.most <= 2 || instance.reuse == Reuse::None)
}

/// Improves a schedule and proves a bound, within the limits; nothing where the program is too large.
pub(super) fn solve(
    instance: &Instance,
    start: &Schedule,
    limit: &Limit,
    name: &'static str,
) -> Result<Option<Scheduled>> {
    let begun = Instant::now();
    let bound = instance.lower_bound();
    let all = Shape { instance, iterations: iterations_of_better(instance, start.seconds(instance)) };
    let few = Shape { instance, iterations: start.optimiser_steps() };
    let (shape, proves) = if all.columns() <= COLUMNS { (all, true) } else { (few, false) };
    if shape.columns() > COLUMNS {
        return Ok(None);
    }
    let mut program = Program::new(shape);
    let values = program.values(start);
    let problem = std::mem::take(&mut program.problem);
    let refused =
        |what: &str| Error::settings("scheduler", format!("HiGHS cannot {what}; use 'dygnex' or 'real'"));
    let mut model = problem.try_optimise(Sense::Minimise).map_err(|_| refused("take the program"))?;
    model.make_quiet();
    let time = limit.time.saturating_sub(begun.elapsed()).as_secs_f64();
    model.set_option("time_limit", time);
    // The solver's gap is a part of the schedule's seconds, ours one of the bound.
    model.set_option("mip_rel_gap", (limit.gap / (1.0 + limit.gap)).max(1e-9));
    // One thread gives the same answer each time.
    model.set_option("threads", 1);
    model.try_set_solution(Some(&values), None, None, None).map_err(|_| refused("start from a schedule"))?;
    let solved = model.try_solve().map_err(|_| refused("solve the program"))?;
    let complete = solved.status() == HighsModelStatus::Optimal;
    let proven = match solved.double_info_value(c"mip_dual_bound") {
        // The solver's own tolerances are absolute, about 1e-6 of what it is given: costs near 1.
        Ok(dual) if proves && dual.is_finite() => bound.max(dual * program.unit * (1.0 - 1e-6)),
        _ => bound,
    };
    let mut best = start.clone();
    if let Some(found) = program.schedule(solved.get_solution().columns())
        && found.check(instance).is_ok()
        && found.seconds(instance) < best.seconds(instance)
    {
        best = found;
    }
    let scheduled = Scheduled::bounded(instance, best, proven, name, begun);
    Ok(Some(Scheduled { complete, ..scheduled }))
}

/// The most iterations that a schedule faster than this can have.
fn iterations_of_better(instance: &Instance, seconds: f64) -> usize {
    let (fewest, most) = instance.iterations();
    if instance.overhead > 0.0 {
        let free = Instance { overhead: 0.0, ..instance.clone() };
        let affordable = (seconds - free.lower_bound()) / instance.overhead;
        return (affordable.max(0.0).ceil() as usize).clamp(fewest, most);
    }
    most
}

/// How large a program is.
#[derive(Clone, Copy)]
struct Shape<'a> {
    instance: &'a Instance,
    iterations: usize,
}

impl Shape<'_> {
    fn bins(&self) -> usize {
        self.iterations.saturating_mul(self.instance.workers)
    }

    fn columns(&self) -> usize {
        let each = self.instance.groups().saturating_mul(1 + self.instance.reuse.width());
        self.bins().saturating_mul(each)
    }
}

/// The program and where its columns are.
struct Program<'a> {
    shape: Shape<'a>,
    problem: RowProblem,
    /// Seconds that count as 1 for the solver, whose tolerances are absolute.
    unit: f64,
    /// `x`, by bin and then by group.
    runs: Vec<Vec<Col>>,
    /// `y`, by bin: the pair, its column and the place of the column among all.
    pairs: Vec<Vec<(usize, usize, Col, usize)>>,
}

impl<'a> Program<'a> {
    fn new(shape: Shape<'a>) -> Self {
        let instance = shape.instance;
        let mean = instance.costs.iter().sum::<f64>() / instance.groups().max(1) as f64;
        let unit = if mean > 0.0 { mean } else { 1.0 };
        let mut problem = RowProblem::new();
        let groups = 0..instance.groups();
        let times: Vec<Col> = (0..shape.iterations).map(|_| problem.add_column(1.0, 0..)).collect();
        let overhead = instance.overhead / unit;
        let used: Vec<Col> =
            (0..shape.iterations).map(|_| problem.add_integer_column(overhead, 0..=1)).collect();
        let mut program = Program { shape, problem, unit, runs: Vec::new(), pairs: Vec::new() };
        for _ in 0..shape.bins() {
            let run = groups.clone().map(|_| program.problem.add_integer_column(0.0, 0..=1)).collect();
            program.runs.push(run);
        }
        for bin in 0..shape.bins() {
            program.add_reuse(bin);
        }
        for group in groups {
            let row: Vec<(Col, f64)> = program.runs.iter().map(|run| (run[group], 1.0)).collect();
            program.problem.add_row(1..=1, row);
        }
        for bin in 0..shape.bins() {
            let iteration = bin / instance.workers;
            let mut row: Vec<(Col, f64)> = program.runs[bin].iter().map(|&run| (run, 1.0)).collect();
            row.push((used[iteration], -(instance.most as f64)));
            program.problem.add_row(..=0, row);
            let load = program.load(bin);
            let mut row = vec![(times[iteration], -1.0)];
            row.extend(&load);
            program.problem.add_row(..=0, row);
            if (bin + 1) % instance.workers != 0 {
                let mut row = program.load(bin + 1);
                row.extend(load.iter().map(|&(column, value)| (column, -value)));
                program.problem.add_row(..=0, row);
            }
        }
        for iteration in 1..shape.iterations {
            for falling in [&times, &used] {
                program.problem.add_row(..=0, [(falling[iteration], 1.0), (falling[iteration - 1], -1.0)]);
            }
        }
        program
    }

    /// The columns for pairs that save something, and the cut that binds them.
    fn add_reuse(&mut self, bin: usize) {
        let instance = self.shape.instance;
        let mut pairs = Vec::new();
        let mut rows: Vec<Vec<(Col, f64)>> = self.runs[bin].iter().map(|&run| vec![(run, -1.0)]).collect();
        for one in 0..instance.groups() {
            for other in one + 1..instance.groups().min(one + 1 + instance.reuse.width()) {
                if instance.most == 2 && instance.reuse.saved(one, other) > 0.0 {
                    let at = self.problem.num_cols();
                    let column = self.problem.add_column(0.0, 0..=1);
                    pairs.push((one, other, column, at));
                    rows[one].push((column, 1.0));
                    rows[other].push((column, 1.0));
                }
            }
        }
        for row in rows.into_iter().filter(|row| row.len() > 1) {
            self.problem.add_row(..=0, row);
        }
        self.pairs.push(pairs);
    }

    fn load(&self, bin: usize) -> Vec<(Col, f64)> {
        let instance = self.shape.instance;
        let costs = self.runs[bin].iter().zip(&instance.costs).map(|(&run, cost)| (run, cost / self.unit));
        let saved = self.pairs[bin]
            .iter()
            .map(|&(one, other, column, _)| (column, -instance.reuse.saved(one, other) / self.unit));
        costs.chain(saved).collect()
    }

    /// Where `x` of a bin and a group is among the columns: after `t` and `u`.
    fn place(&self, bin: usize, group: usize) -> usize {
        2 * self.shape.iterations + bin * self.shape.instance.groups() + group
    }

    /// The values of all columns for a schedule, in the order the symmetries ask for.
    fn values(&self, schedule: &Schedule) -> Vec<f64> {
        let instance = self.shape.instance;
        let bins = schedule.bins().map(|bin| (instance.load(bin), bin));
        let mut bins: Vec<(f64, &Vec<usize>)> = bins.collect();
        bins.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut values = vec![0.0; self.problem.num_cols()];
        for (at, (load, groups)) in bins.iter().enumerate().take(self.shape.bins()) {
            if at % instance.workers == 0 {
                let iteration = at / instance.workers;
                values[iteration] = load / self.unit;
                values[self.shape.iterations + iteration] = 1.0;
            }
            groups.iter().for_each(|&group| values[self.place(at, group)] = 1.0);
            for &(one, other, _, place) in &self.pairs[at] {
                if groups.contains(&one) && groups.contains(&other) {
                    values[place] = 1.0;
                }
            }
        }
        values
    }

    /// The schedule in the solver's answer, if there is one.
    fn schedule(&self, values: &[f64]) -> Option<Schedule> {
        let mut bins = Vec::with_capacity(self.shape.bins());
        for bin in 0..self.shape.bins() {
            let row = values.get(self.place(bin, 0)..self.place(bin + 1, 0))?;
            bins.push((0..row.len()).filter(|&group| row[group] > 0.5).collect());
        }
        Some(Schedule::from_bins(self.shape.instance, bins))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each group in an iteration of its own, on the first worker.
    fn one_by_one(instance: &Instance) -> Schedule {
        let iteration = |group| {
            let mut bins = vec![Vec::new(); instance.workers];
            bins[0] = vec![group];
            bins
        };
        Schedule { iterations: (0..instance.groups()).map(iteration).collect() }
    }

    #[test]
    fn the_solver_improves_a_poor_start_to_the_optimum() {
        let costs = vec![10.0, 3.0, 9.0, 4.0, 8.0, 5.0];
        let plain = Instance { overhead: 0.5, ..Instance::new(costs, 3) };
        let saved = vec![vec![2.0], vec![0.0], vec![3.0], vec![0.0], vec![4.0], vec![]];
        let shared = Instance { reuse: Reuse::Band { width: 1, saved }, ..plain.clone() };
        // The time is there for the unforeseen: this takes milliseconds.
        let limit = Limit { time: Duration::from_secs(60), ..Limit::default() };
        // 10 + 3, 9 + 4, 8 + 5; with reuse 10 + 3 - 2, 9 + 4 - 3, 8 + 5 - 4.
        for (instance, optimum) in [(plain, 13.5), (shared, 11.5)] {
            let found = solve(&instance, &one_by_one(&instance), &limit, "real-l").unwrap().unwrap();
            found.schedule.check(&instance).unwrap();
            assert!((found.seconds - optimum).abs() < 1e-9, "{}", found.seconds);
            assert!(found.complete && found.by == "real-l" && found.gap() < 1e-5, "{found:?}");
        }
    }

    #[test]
    fn a_start_of_too_many_iterations_is_no_error() {
        let instance = Instance::new((1..=210).map(f64::from).collect(), 4);
        assert!(fits(&instance));
        let found = solve(&instance, &one_by_one(&instance), &Limit::default(), "real-l").unwrap();
        assert_eq!(found, None);
    }
}
