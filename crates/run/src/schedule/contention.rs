//! How long an epoch takes where workers have fewer cores than threads.
//!
//! Windows are measured while all workers are at work, each at the pace that is left to it. In an iteration
//! of unequal bins the workers that are done leave their cores to the others, which then go faster than they
//! were measured: an epoch takes less than its slowest bins say.

use kymo_plan::schedule::Instance;

/// Seconds of an epoch: `iterations[i][j]` are the windows that worker `j` trains in iteration `i`, the
/// instance has what they took while all workers were at work and what they save each other, and `at_once`
/// says how many workers have all the cores they can use.
pub fn epoch(iterations: &[Vec<Vec<usize>>], instance: &Instance, at_once: f64) -> f64 {
    let load = |bin: Option<&Vec<usize>>| bin.map_or(0.0, |bin| instance.load(bin));
    let workers = 0..instance.workers;
    let loads = |bins: &Vec<Vec<usize>>| workers.clone().map(|worker| load(bins.get(worker))).collect();
    iterations.iter().map(|bins| instance.overhead + iteration(loads(bins), at_once)).sum()
}

/// Seconds of one iteration, from the load of every worker.
fn iteration(mut loads: Vec<f64>, at_once: f64) -> f64 {
    let pace = |workers: usize| (at_once / workers as f64).min(1.0);
    let measured = pace(loads.len().max(1));
    loads.sort_by(f64::total_cmp);
    let (mut seconds, mut done) = (0.0, 0.0);
    for (number, &load) in loads.iter().enumerate() {
        seconds += (load - done) * measured / pace(loads.len() - number);
        done = load;
    }
    seconds
}

#[cfg(test)]
mod tests {
    use kymo_plan::schedule::Reuse;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_is_done_leaves_the_cores_to_others() {
        // Two cores, four workers: three go on, then two at full pace, which is twice what was measured.
        assert_eq!(iteration(vec![4.0, 1.0, 2.0, 4.0], 2.0), 1.0 + 0.75 + 1.0);
        assert_eq!(iteration(vec![3.0, 0.0, 0.0, 0.0], 2.0), 1.5);
        let iterations = [vec![vec![0, 1], vec![2]], vec![vec![3]]];
        let mut instance = Instance { overhead: 0.5, ..Instance::new(vec![1.0, 2.0, 2.0, 4.0], 2) };
        assert_eq!(epoch(&iterations, &instance, 2.0), 0.5 + 3.0 + 0.5 + 4.0);
        assert_eq!(epoch(&iterations, &instance, 1.0), 0.5 + 2.5 + 0.5 + 2.0);
        // What windows save each other is saved.
        instance.reuse = Reuse::Band { width: 1, saved: vec![vec![0.75], vec![], vec![], vec![]] };
        assert_eq!(epoch(&iterations, &instance, 2.0), 0.5 + 2.25 + 0.5 + 4.0);
    }

    proptest! {
        #[test]
        fn sharing_helps_the_slowest_and_takes_from_no_one(
            loads in prop::collection::vec(0.0..10.0_f64, 1..9),
            at_once in 0.5..10.0_f64,
        ) {
            let seconds = iteration(loads.clone(), at_once);
            let (most, sum) = (loads.iter().copied().fold(0.0, f64::max), loads.iter().sum::<f64>());
            let pace = (at_once / loads.len() as f64).min(1.0);
            prop_assert!(seconds <= most + 1e-9);
            // No one is faster than alone, and cores do not do more than they can.
            prop_assert!(seconds >= most * pace - 1e-9 && seconds >= sum * pace / at_once - 1e-9);
            if at_once >= loads.len() as f64 {
                prop_assert!((seconds - most).abs() < 1e-9);
            }
            prop_assert!((iteration(vec![most; loads.len()], at_once) - most).abs() < 1e-9);
        }
    }
}
