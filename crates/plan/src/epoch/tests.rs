//! Tests of the plans of epochs.

use super::*;

fn epochs(assignment: Assignment, workers: usize, seed: Option<u64>) -> Epochs {
    let windows = (0..7).map(|start| start..start + 3).collect();
    Epochs { windows, workers, seed, assignment, batches: None }
}

fn numbers(plan: &EpochPlan) -> Vec<Vec<Vec<usize>>> {
    plan.schedule().iterations
}

#[test]
fn windows_in_turns_go_round_the_workers_and_follow_time_without_a_seed() {
    let made = epochs(Assignment::InTurns(3), 2, None);
    let plan = made.plan(2);
    plan.check(&made.windows, 2).unwrap();
    let expected = vec![vec![vec![0, 2], vec![1]], vec![vec![3, 5], vec![4]], vec![vec![6], vec![]]];
    assert_eq!(numbers(&plan), expected);
    assert_eq!((plan.windows(), made.iterations()), (7, 3));
    let salts: Vec<u64> = plan.iterations[0].windows().iter().map(|window| window.salt).collect();
    assert_eq!(salts, [14, 16, 15], "the place in the order, behind those of earlier epochs");
}

#[test]
fn batches_of_some_vertices_have_every_vertex_of_every_window_once() {
    let batches = VertexBatches { parts: 3, windows: 1, hops: 2, seed: 5, owners: None, again: false };
    for assignment in [Assignment::InTurns(2), Assignment::InRuns(4)] {
        let made = epochs(assignment, 2, Some(5)).in_batches(batches);
        let plan = made.plan(4);
        plan.check(&made.windows, 2).unwrap();
        assert_eq!((plan.windows(), made.iterations(), made.windows.len()), (21, plan.iterations.len(), 21));
        let mut seen = BTreeSet::new();
        let all = |plan: &EpochPlan| -> Vec<Batch> {
            plan.iterations.iter().flat_map(|one| &one.workers).flatten().cloned().collect()
        };
        for batch in all(&plan) {
            assert_eq!(batch.neighbourhood, Neighbourhood::Hops(2));
            for vertex in match batch.targets {
                Targets::Drawn(drawn) => drawn.of(40),
                _ => Vec::new(),
            } {
                assert!(seen.insert((batch.windows[0].steps.clone().min(), vertex)));
            }
        }
        assert_eq!(seen.len(), 7 * 40);
        // Other parts in another epoch, and those that are begun stay what they were.
        let first = |plan: &EpochPlan| all(plan)[0].targets.clone();
        assert_ne!(first(&made.plan(5)), first(&plan));
        let anew = made.dealt_anew(&plan, 6);
        anew.check(&made.windows, 2).unwrap();
        let sorted = |plan: &EpochPlan| {
            let mut all = all(plan);
            all.sort_by_key(|batch| batch.windows[0].number);
            all
        };
        assert_eq!(sorted(&anew), sorted(&plan));
    }
}

/// Some windows that follow each other, each with the same part of the vertices; all windows, all vertices,
/// or both, are batches of vertices, of snapshots, and full ones.
#[test]
fn hybrid_batches_have_windows_that_follow_each_other_with_the_same_vertices() {
    let batches = VertexBatches { parts: 2, windows: 3, hops: 1, seed: 5, owners: None, again: false };
    for assignment in [Assignment::InTurns(2), Assignment::InRuns(3)] {
        let made = epochs(assignment, 2, Some(5)).in_batches(batches);
        let plan = made.plan(1);
        plan.check(&made.windows, 2).unwrap();
        assert_eq!((plan.windows(), made.iterations()), (14, plan.iterations.len()));
        let of = |plan: &EpochPlan| {
            let all = plan.iterations.iter().flat_map(|one| &one.workers).flatten();
            let mut starts: Vec<Vec<Step>> = all
                .clone()
                .map(|batch| batch.windows.iter().map(|window| window.steps.start).collect())
                .collect();
            starts.sort();
            let is_one_part = |batch: &Batch| match batch.targets {
                Targets::Drawn(drawn) => batch.windows.iter().all(|one| one.number % 2 == drawn.part),
                _ => false,
            };
            assert!(all.clone().all(is_one_part));
            let salts: BTreeSet<u64> = all.flat_map(|batch| &batch.windows).map(|one| one.salt).collect();
            assert_eq!(salts, (14..28).collect());
            starts
        };
        let expected = [[0, 1, 2].as_slice(), &[0, 1, 2], &[3, 4, 5], &[3, 4, 5], &[6], &[6]];
        assert_eq!(of(&plan), expected);
        let anew = made.dealt_anew(&plan, 3);
        anew.check(&made.windows, 2).unwrap();
        assert_eq!(of(&anew), expected);
    }
    let of = |parts: usize, windows: usize| {
        let batches = VertexBatches { parts, windows, ..batches };
        epochs(Assignment::InTurns(1), 1, Some(5)).in_batches(batches).plan(0)
    };
    assert_eq!(
        [of(1, usize::MAX), of(1, 2), of(4, usize::MAX), of(4, 2)].map(|p| p.iterations.len()),
        [1, 4, 4, 16]
    );
    let whole = &of(1, 2).iterations[0].workers[0][0];
    assert_eq!((&whole.targets, &whole.neighbourhood), (&Targets::All, &Neighbourhood::Whole));
}

/// Every worker runs every batch, with its own vertices as targets; with other workers, they are dealt anew.
#[test]
fn owners_run_the_same_windows_each_with_vertices_of_its_own() {
    let batches = |owners| VertexBatches { parts: 2, windows: 3, hops: 1, seed: 5, owners, again: false };
    for workers in [1, 2, 5] {
        let made = epochs(Assignment::Together(1), workers, Some(5)).in_batches(batches(Some(workers)));
        let plan = made.plan(1);
        plan.check(&made.windows, workers).unwrap();
        assert_eq!((plan.windows(), plan.iterations.len()), (14, 6));
        for iteration in &plan.iterations {
            for (worker, batches) in iteration.workers.iter().enumerate() {
                let [batch] = &batches[..] else { panic!("{batches:?}") };
                let Targets::Portion(portion) = batch.targets else { panic!("{batch:?}") };
                assert_eq!((portion.owner, portion.owners), (worker, workers));
                assert_eq!(batch.windows, iteration.workers[0][0].windows);
                assert!(batch.windows.iter().all(|window| window.number % 2 == portion.drawn.part));
                assert_eq!(batch.neighbourhood, Neighbourhood::Hops(1));
            }
        }
        // Another one is missing, or there twice.
        let mut wrong = plan.clone();
        wrong.iterations[0].workers[0].clear();
        wrong.check(&made.windows, workers).unwrap_err();
        let mut wrong = plan.clone();
        let first = wrong.iterations[0].workers[0][0].clone();
        wrong.iterations[0].workers[0].push(first);
        wrong.check(&made.windows, workers).unwrap_err();
        let three = epochs(Assignment::Together(1), 3, Some(5)).in_batches(batches(Some(3)));
        let anew = three.dealt_anew(&plan, 3);
        anew.check(&three.windows, 3).unwrap();
        assert_eq!(anew.windows(), 14);
        // All of them at one worker are the same work.
        let one = |iteration: &Iteration| Iteration { workers: vec![iteration.workers.concat()] };
        let alone = EpochPlan { epoch: 1, iterations: plan.iterations.iter().map(one).collect() };
        alone.check(&made.windows, 1).unwrap();
    }
}

#[test]
fn divisions_are_new_in_every_epoch_or_come_again_in_another_order() {
    let of = |again: bool| {
        let batches = VertexBatches { parts: 3, windows: 1, hops: 1, seed: 5, owners: Some(2), again };
        let made = epochs(Assignment::Together(1), 2, Some(5)).in_batches(batches);
        let sorted = |epoch: usize| {
            let plan = made.plan(epoch);
            let key =
                |one: &Iteration| (one.workers[1][0].windows[0].number, one.workers[1][0].targets.clone());
            let all: Vec<(usize, Targets)> = plan.iterations.iter().map(key).collect();
            let mut sorted = all.clone();
            sorted.sort_by_key(|(number, _)| *number);
            (all, sorted)
        };
        [sorted(0), sorted(1)]
    };
    let [first, second] = of(true);
    assert!(first.1 == second.1 && first.0 != second.0);
    let [first, second] = of(false);
    assert_ne!(first.1, second.1);
}

#[test]
fn windows_in_runs_are_neighbours_and_their_iterations_come_in_any_order() {
    let made = epochs(Assignment::InRuns(4), 2, None);
    let plan = made.plan(0);
    plan.check(&made.windows, 2).unwrap();
    assert_eq!(numbers(&plan), [[vec![0, 1], vec![2, 3]], [vec![4, 5], vec![6]]]);
    assert_eq!((plan.windows(), made.iterations()), (7, 2));
    let made = epochs(Assignment::InRuns(2), 2, Some(5));
    let sorted = |epoch: usize| {
        let mut iterations = numbers(&made.plan(epoch));
        iterations.sort();
        iterations
    };
    assert!((1..9).all(|epoch| sorted(epoch) == sorted(0)));
    assert!((1..9).any(|epoch| numbers(&made.plan(epoch)) != numbers(&made.plan(0))));
    // Salts follow windows, and are others in every epoch.
    for window in made.plan(3).iterations.iter().flat_map(Iteration::windows) {
        assert_eq!(window.salt, (3 * 7 + window.number) as u64);
    }
    let anew = made.dealt_anew(&made.plan(1), 3);
    anew.check(&made.windows, 2).unwrap();
}

#[test]
fn workers_that_share_windows_all_have_them() {
    let made = epochs(Assignment::Together(1), 3, Some(1));
    let plan = made.plan(0);
    plan.check(&made.windows, 3).unwrap();
    assert_eq!((plan.iterations.len(), plan.windows()), (7, 7));
    for iteration in &plan.iterations {
        assert!(iteration.workers.iter().all(|batches| *batches == iteration.workers[0]));
        assert_eq!((iteration.windows().len(), &iteration.of(0)[0].targets), (1, &Targets::Own));
        assert!(iteration.of(3).is_empty());
    }
    assert_ne!(numbers(&plan), numbers(&made.plan(1)), "orders change from epoch to epoch");
    assert_eq!(plan, made.plan(0));
}

#[test]
fn a_schedule_keeps_its_bins_and_only_the_order_of_iterations_changes() {
    let schedule = Schedule {
        iterations: vec![vec![vec![0, 5], vec![1]], vec![vec![2], vec![3, 4]], vec![vec![6], vec![]]],
    };
    let made = epochs(Assignment::Scheduled(schedule.clone()), 2, Some(3));
    let sorted = |mut iterations: Vec<Vec<Vec<usize>>>| {
        iterations.sort();
        iterations
    };
    for epoch in 0..4 {
        let plan = made.plan(epoch);
        plan.check(&made.windows, 2).unwrap();
        assert_eq!(sorted(numbers(&plan)), sorted(schedule.iterations.clone()));
        assert_eq!(EpochPlan::of_schedule(&schedule).schedule(), schedule);
        for window in plan.iterations.iter().flat_map(Iteration::windows) {
            assert_eq!(window.salt, (epoch * 7 + window.number) as u64);
        }
    }
    assert!((1..9).any(|epoch| numbers(&made.plan(epoch)) != numbers(&made.plan(0))));
}

#[test]
fn wrong_plans_are_refused() {
    let made = epochs(Assignment::InTurns(2), 2, None);
    let good = made.plan(0);
    let change = |change: &dyn Fn(&mut EpochPlan)| {
        let mut plan = good.clone();
        change(&mut plan);
        plan.check(&made.windows, 2).unwrap_err().to_string()
    };
    let twice = change(&|plan| plan.iterations[0].workers[1][0] = plan.iterations[0].workers[0][0].clone());
    assert!(twice.contains("window 0 is run 2 times"), "{twice}");
    let gone = change(&|plan| plan.iterations[3].workers[0].clear());
    assert!(gone.contains("window 6 is run 0 times"), "{gone}");
    let unknown = change(&|plan| plan.iterations[0].workers[0][0].windows[0].number = 9);
    assert!(unknown.contains("runs window 9, there are 7"), "{unknown}");
    let moved = change(&|plan| plan.iterations[0].workers[0][0].windows[0].steps = 1..4);
    assert!(moved.contains("steps 1..4 as window 0, which has 0..3"), "{moved}");
    let few = change(&|plan| drop(plan.iterations[1].workers.pop()));
    assert!(few.contains("iteration 1 is for 1 workers, there are 2"), "{few}");
    assert!(good.check(&made.windows, 3).unwrap_err().to_string().contains("there are 3"));
    // Own cells are only complete where every worker runs them.
    let alone = change(&|plan| plan.iterations[0].workers[0][0].targets = Targets::Own);
    assert!(alone.contains("window 0 is run 1 times"), "{alone}");
}

#[test]
fn batches_of_some_vertices_may_share_a_window_but_no_vertex() {
    let made = epochs(Assignment::InTurns(2), 2, None);
    let mut plan = made.plan(0);
    let mut first = plan.iterations[0].workers[0][0].clone();
    first.targets = Targets::Some(vec![0, 2]);
    let second = Batch { targets: Targets::Some(vec![1]), ..first.clone() };
    plan.iterations[0].workers[0] = vec![first.clone(), second];
    plan.check(&made.windows, 2).unwrap();
    assert_eq!(plan.windows(), 7);
    plan.iterations[0].workers[0][1] = first;
    assert!(plan.check(&made.windows, 2).is_err());
}

/// The plan of a schedule is that of its windows, and one with a forged number is merely refused.
#[test]
fn a_schedule_becomes_a_plan_whatever_its_numbers() {
    let schedule = Schedule { iterations: vec![vec![vec![2, 0], vec![]], vec![vec![1], vec![3]]] };
    let windows = (0..4).map(|group| group..group + 1).collect();
    let assignment = Assignment::Scheduled(schedule.clone());
    let expected = Epochs { windows, workers: 2, seed: None, assignment, batches: None }.plan(0);
    assert_eq!(EpochPlan::of_schedule(&schedule), expected);
    let forged = Schedule { iterations: vec![vec![vec![usize::MAX], vec![1_000_000_000_000_000_000]]] };
    let plan = EpochPlan::of_schedule(&forged);
    assert_eq!(plan.schedule(), forged);
    assert!(plan.check(&[0..1, 1..2], 2).is_err());
}

#[test]
fn a_plan_is_printed_and_serialised() {
    let made = epochs(Assignment::InTurns(2), 2, None);
    let plan = made.plan(0);
    let text = plan.to_string();
    assert!(text.starts_with("epoch 1: 7 windows in 4 iterations\n     0  0-2"), "{text}");
    assert!(text.ends_with("-              \n"), "{text}");
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<EpochPlan>(&json).unwrap(), plan);
    let mut long = plan;
    long.iterations = vec![long.iterations[0].clone(); 30];
    assert!(long.to_string().ends_with("and 10 more\n"));
}
