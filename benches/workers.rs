//! Several workers against one with the same threads each, in turns: groups, cells, and what setting up
//! routes costs.
//!
//! `cargo bench --bench workers [-- SCALE]`: `stackoverflow-like` at this scale (0.05 where none is given), a
//! model of two layers, windows of four steps. A worker has one thread. Ratios are those of the best rounds:
//! whatever else the machine does only slows down.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use kymo::graph::{Progress, Store, generate};
use kymo::plan::{Epochs, Iteration};
use kymo::run::schedule::Division;
use kymo::run::workers::WorkerGroup;
use kymo::run::{RunContext, Settings, Worker};

const ROUNDS: usize = 7;

/// Workers that wait for windows, each in a thread with a pool of one.
struct Crew {
    name: String,
    context: Arc<RunContext>,
    groups: Vec<Arc<WorkerGroup>>,
    division: Division,
    orders: Vec<mpsc::Sender<Vec<Iteration>>>,
    done: mpsc::Receiver<f64>,
    /// Seconds of making the layout and of the first iteration, in which routes are set up.
    setup: [f64; 2],
}

fn settings(store: &Store, strategy: &str, workers: usize) -> Settings {
    let mut settings = Settings::default();
    settings.data.store = store.path().to_string_lossy().into_owned();
    settings.data.features = kymo::run::config::Features::Degrees;
    settings.task.name = "link-prediction".into();
    (settings.model.name, settings.model.layers, settings.model.hidden) = ("t-gcn".into(), 2, 64);
    (settings.parallel.workers, settings.parallel.strategy) = (workers, strategy.into());
    settings
}

impl Crew {
    fn new(name: &str, store: &Arc<Store>, strategy: &str, workers: usize) -> Crew {
        let context = RunContext::open(settings(store, strategy, workers), store.clone()).unwrap();
        let begun = Instant::now();
        let division = match workers {
            1 => Division::Groups,
            _ => Division::new(&context, strategy, workers).unwrap(),
        };
        let layout = begun.elapsed().as_secs_f64();
        let (finished, done) = mpsc::channel();
        let (mut orders, groups) = (Vec::new(), WorkerGroup::in_process(workers));
        for group in &groups {
            let (order, asked) = mpsc::channel::<Vec<Iteration>>();
            orders.push(order);
            let (context, shares) = (context.clone(), division.shares().cloned());
            let (group, finished) = (group.clone(), finished.clone());
            std::thread::spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                let worker = Mutex::new(Worker::join(context, group, shares.as_ref()).unwrap());
                for iterations in asked {
                    let begun = Instant::now();
                    for iteration in &iterations {
                        pool.install(|| worker.lock().unwrap().iterate(iteration, 0.01, false).unwrap());
                    }
                    finished.send(begun.elapsed().as_secs_f64()).unwrap();
                }
            });
        }
        Crew { name: name.into(), context, division, groups, orders, done, setup: [layout, 0.0] }
    }

    /// Seconds until all workers have done the last two windows, as one iteration.
    fn train(&self) -> f64 {
        let windows = last_two(&self.context);
        let mut settings = self.context.settings.clone();
        settings.parallel.windows = windows.len();
        let (workers, assignment) = (self.groups.len(), self.division.assignment(&settings));
        let epochs = Epochs { windows, workers, seed: None, assignment, batches: None };
        let begun = Instant::now();
        self.orders.iter().for_each(|order| order.send(epochs.plan(0).iterations).unwrap());
        for _ in &self.orders {
            self.done.recv().unwrap();
        }
        begun.elapsed().as_secs_f64()
    }
}

/// The largest windows; two of them, so that groups have one for each worker.
fn last_two(context: &RunContext) -> Vec<std::ops::Range<usize>> {
    let windows = context.windows();
    windows[windows.len() - 2..].to_vec()
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() {
    let scale = std::env::args().skip(1).find_map(|argument| argument.parse::<f64>().ok()).unwrap_or(0.05);
    let folder = tempfile::tempdir().unwrap();
    let kind = generate::find("stackoverflow-like").unwrap();
    let params = kind.defaults().scaled(scale);
    let store =
        generate::write(kind, &params, &folder.path().join("store"), false, &Progress::silent()).unwrap();
    let store = Arc::new(store);
    let mut crews = vec![
        Crew::new("one worker", &store, "psg", 1),
        Crew::new("psg", &store, "psg", 2),
        Crew::new("pts", &store, "pts", 2),
        Crew::new("vertex-metis", &store, "vertex-metis", 2),
        Crew::new("esdg", &store, "esdg", 2),
        Crew::new("pss-ts", &store, "pss-ts", 2),
    ];
    let windows = last_two(&crews[0].context);
    let edges: usize = windows.into_iter().flatten().map(|t| store.snapshot(t).unwrap().len()).sum();
    println!(
        "{} vertices, {} steps, {edges} edges in two windows; t-gcn of two layers, 64 hidden columns, one \
         thread a worker",
        store.vertices(),
        store.steps()
    );
    for crew in &mut crews {
        crew.setup[1] = crew.train();
    }
    let before: Vec<Vec<[f64; 2]>> =
        crews.iter().map(|crew| crew.groups.iter().map(|group| group.in_flight()).collect()).collect();
    let mut times = vec![Vec::new(); crews.len()];
    for _ in 0..ROUNDS {
        for (crew, times) in crews.iter().zip(&mut times) {
            times.push(crew.train());
        }
    }
    println!("strategy        seconds   against one   hidden   layout s   first iteration s");
    for ((crew, times_of), before) in crews.iter().zip(&times).zip(&before) {
        let now: Vec<[f64; 2]> = crew.groups.iter().map(|group| group.in_flight()).collect();
        let sum = |at: usize| now.iter().zip(before).map(|(now, before)| now[at] - before[at]).sum::<f64>();
        let hidden = match sum(0) {
            under_way if under_way > 0.0 => format!("{:>6.0} %", 100.0 * (1.0 - sum(1) / under_way)),
            _ => format!("{:>8}", "-"),
        };
        println!(
            "{:<14}{:>9.3}{:>14.2}{hidden}{:>11.2}{:>20.2}",
            crew.name,
            best(times_of),
            best(&times[0]) / best(times_of),
            crew.setup[0],
            crew.setup[1],
        );
    }
}
