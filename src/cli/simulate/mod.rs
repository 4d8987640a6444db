//! `kymo simulate`: an epoch on a simulated cluster.

mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kymo_files::is_stream;
use kymo_graph::Store;
use kymo_plan::EpochPlan;
use kymo_plan::schedule::{self, Gantt, Instance, Limit, Reuse, Scheduled, Scheduler};
use kymo_run::config::machine::require;
use kymo_run::{Error, Result};
use kymo_sim::{
    AllReduce, Cluster, Distribution, Groups, Linear, Shape, Simulated, Size, Stragglers, Synthetic,
    simulate, simulate_with_timeline,
};
use kymo_trace::chrome;

use super::console::Console;
use super::{cannot_print, print_json};
use report::{Line, Report};

/// Seconds of a group: DyGNeX's table 4 has 0.1 to 0.7 s.
const MEAN: f64 = 0.2;
/// Bytes of a number of the gradient.
const NUMBER: u64 = 4;
/// Bytes that a group takes in schedules, about, and that a worker does.
const GROUP_BYTES: u64 = 1000;
const WORKER_BYTES: u64 = 300;

/// Compare schedulers on a simulated cluster, from a few workers to thousands
///
/// An epoch trains groups of snapshots (windows). In an iteration every worker runs some of them, all wait
/// for the slowest, and gradients are added up. A scheduler assigns groups to workers; this runs its
/// schedule in virtual time and says how long the epoch takes and how much of the workers' time is used.
/// Groups are the windows of a store, with times by a linear model of their vertices and edges, or made up
/// (--groups).
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Simulate {
    /// The store whose windows are the groups; or give --groups
    store: Option<PathBuf>,
    /// Make up N groups instead
    #[arg(long, value_name = "N")]
    groups: Option<usize>,
    /// How the times of made-up groups are distributed [default: trend]
    #[arg(long, value_name = "NAME")]
    distribution: Option<String>,
    /// Seconds of a made-up group on average [default: 0.2]
    #[arg(long, value_name = "SECONDS")]
    mean: Option<f64>,
    /// A file with the cost model that training fitted: profile.json of a run, or one of the user's cache
    /// folder (see parallel.cached_costs); other options override it
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Seconds for each vertex of a snapshot [default: 50e-9]
    #[arg(long, value_name = "SECONDS")]
    seconds_per_vertex: Option<f64>,
    /// Seconds for each edge of a snapshot [default: 20e-9]
    #[arg(long, value_name = "SECONDS")]
    seconds_per_edge: Option<f64>,
    /// Seconds for each snapshot on top [default: 0.005]
    #[arg(long, value_name = "SECONDS")]
    seconds_per_snapshot: Option<f64>,
    /// Snapshots of a group
    #[arg(long, value_name = "STEPS", default_value_t = 4)]
    window: usize,
    /// Steps from one group to the next; with the length of the window, groups share nothing
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    stride: usize,
    /// Sizes of the cluster
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [4, 64, 512, 1024])]
    workers: Vec<usize>,
    /// Schedulers of `kymo list schedulers`, or all [default: psg,blad,dygnex-g,fold,dygnex; with --reuse
    /// psg,blad,real-g,match,real]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Maximum number of groups per worker and iteration
    #[arg(long, value_name = "N", default_value_t = 2)]
    most: usize,
    /// Share of a snapshot's time that the second of two consecutive groups with it saves (0 to 1) [default:
    /// nothing is reused]
    #[arg(long, value_name = "RATIO")]
    reuse: Option<f64>,
    /// Share of a group's time that is its structure stage, which 'blad' overlaps with the time stage before
    /// (0 to 1) [default: nothing overlaps]
    #[arg(long, value_name = "PART")]
    pipeline: Option<f64>,
    /// How gradients are added up: ring or halving
    #[arg(long, value_name = "SHAPE", default_value = "ring")]
    all_reduce: String,
    /// Latency of a message in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5e-6)]
    latency: f64,
    /// Bandwidth of a worker's link in bytes per second
    #[arg(long, value_name = "RATE", default_value_t = 50e9)]
    bandwidth: f64,
    /// Parameters of the model, four bytes each in the gradient
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    parameters: u64,
    /// Relative standard deviation of a group's time
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    noise: f64,
    /// Workers that are slower, as in 0.05:2, every twentieth takes twice as long [default: none]
    #[arg(long, value_name = "SHARE:FACTOR")]
    stragglers: Option<String>,
    /// Time limit of a scheduler in seconds
    // Enough for the papers' greedy ones on 10,000 groups: cut short, they would be shown with what 'fold'
    // did for them.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    time_limit: f64,
    /// End a search as soon as the schedule is proven to be within this part of the fastest, as in 0.02
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    gap: f64,
    /// Write a timeline of all workers for Perfetto or chrome://tracing; takes one size and one scheduler
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the schedules as charts
    #[arg(long)]
    gantt: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let names: Vec<&str> = schedule::ALL.iter().map(|scheduler| scheduler.name()).collect();
    let width = Distribution::ALL.iter().map(|kind| kind.name().len()).max().unwrap_or(0);
    let kinds = Distribution::ALL.iter().map(|kind| format!("  {:width$}  {}", kind.name(), kind.about()));
    format!(
        "Schedulers: {}, or all\n\n\
         Distributions of made-up groups:\n\
         {}\n\n\
         What the columns mean:\n  \
         epoch       seconds of virtual time\n  \
         / bound     the epoch over the time that no schedule can beat\n  \
         gap         how far the schedule may be from the fastest, proven by its scheduler\n  \
         imbalance   time at work of the busiest worker over the mean of all\n  \
         efficiency  part of all workers' time that goes into groups\n  \
         iterations  steps of the optimiser\n  \
         scheduled   how long the scheduler took; * means that its time limit ended the search\n\n\
         Examples:\n  \
         kymo simulate --groups 10000\n  \
         kymo simulate demo --workers 4,16 --strategy all\n  \
         kymo simulate --groups 2000 --reuse 0.3 --workers 64 --strategy real-g,real\n  \
         kymo simulate --groups 500 --workers 32 --strategy dygnex --noise 0.1 --stragglers 0.05:2 --trace \
         epoch.json",
        names.join(", "),
        kinds.collect::<Vec<_>>().join("\n")
    )
}

/// Prints the results of the simulations.
pub fn run(args: &Simulate, out: &mut Console) -> Result<()> {
    let chosen = args.schedulers()?;
    let groups = args.groups()?;
    let limit = args.limit()?;
    if args.json && args.gantt {
        return Err(Error::settings("--gantt", "is for people; leave --json out"));
    }
    if args.most == 0 {
        return Err(Error::settings("--most", "found 0, expected at least 1"));
    }
    args.check_trace(&chosen)?;
    let mut report = Report { groups: groups.costs.len(), lines: Vec::new(), left_out: Vec::new() };
    let mut charts = String::new();
    for &workers in &args.workers {
        let cluster = args.cluster(workers)?;
        let first = report.lines.len();
        for &scheduler in &chosen {
            let instance = args.instance(&groups, &cluster, scheduler)?;
            let found = match scheduler.schedule(&instance, &limit) {
                // What is not possible is left out unless it was named.
                Err(_) if args.is_all() => {
                    report.leave_out(scheduler.name());
                    continue;
                }
                found => found?,
            };
            let simulated = args.simulate(&instance, &found, &cluster)?;
            report.lines.push(Line::new(&cluster, scheduler.name(), &found, &simulated));
            if args.gantt {
                let chart = Gantt::new(&instance, &found.schedule).width(out.chart_columns());
                charts.push_str(&format!("\n{} on {workers} workers\n{chart}", scheduler.name()));
            }
        }
        // A bound that one scheduler has proven holds for all that answer the same question.
        let own = |line: &Line| args.pipeline.is_some() && line.strategy == "blad";
        report::share_bounds(&mut report.lines[first..], own);
    }
    if args.json {
        return Ok(print_json(out, &report)?);
    }
    let text = out.fit(&format!("{report}{charts}"));
    Ok(write!(out, "{text}").map_err(cannot_print)?)
}

impl Simulate {
    fn is_all(&self) -> bool {
        self.strategy == ["all"]
    }

    fn schedulers(&self) -> Result<Vec<&'static dyn Scheduler>> {
        if self.is_all() {
            return Ok(schedule::ALL.to_vec());
        }
        let usual: &[&str] = match self.reuse {
            None => &["psg", "blad", "dygnex-g", "fold", "dygnex"],
            Some(_) => &["psg", "blad", "real-g", "match", "real"],
        };
        let named: Vec<&str> = self.strategy.iter().map(|name| name.trim()).collect();
        let names = if named.is_empty() { usual } else { &named };
        Ok(names.iter().map(|name| schedule::find(name)).collect::<Result<_, _>>()?)
    }

    fn groups(&self) -> Result<Groups> {
        match (&self.store, self.groups) {
            (Some(_), Some(_)) => {
                Err(Error::settings("--groups", "has no meaning with a store, whose windows are the groups"))
            }
            (None, None) => Err(Error::settings(
                "STORE",
                "none was given; kymo generate or kymo ingest makes one, and \
                 --groups N makes up groups without",
            )),
            (None, Some(groups)) => self.made_up(groups),
            (Some(path), None) => {
                let made_up =
                    [("--distribution", self.distribution.is_some()), ("--mean", self.mean.is_some())];
                refuse_given(&made_up, "has no meaning with a store: it is for --groups")?;
                let store = Store::open(path)?;
                let vertices = store.vertices() as u64;
                let mut sizes = Vec::with_capacity(store.steps());
                let mut walk = store.walk();
                while let Some(stop) = walk.step()? {
                    sizes.push(Size { vertices, edges: stop.snapshot.len() as u64 });
                }
                let usual = self.costs.as_deref().map(cost_model).transpose()?.unwrap_or_default();
                let linear = Linear {
                    vertex: self.seconds_per_vertex.unwrap_or(usual.vertex),
                    edge: self.seconds_per_edge.unwrap_or(usual.edge),
                    snapshot: self.seconds_per_snapshot.unwrap_or(usual.snapshot),
                };
                Groups::of_snapshots(&sizes, &linear, self.window, self.stride).map_err(typed)
            }
        }
    }

    fn made_up(&self, groups: usize) -> Result<Groups> {
        require_groups(groups)?;
        let of_store = [
            ("--costs", self.costs.is_some()),
            ("--seconds-per-vertex", self.seconds_per_vertex.is_some()),
            ("--seconds-per-edge", self.seconds_per_edge.is_some()),
            ("--seconds-per-snapshot", self.seconds_per_snapshot.is_some()),
        ];
        refuse_given(&of_store, "has no meaning with --groups: it is for a store")?;
        let distribution = match &self.distribution {
            None => Distribution::default(),
            Some(name) => choose("--distribution", name, &Distribution::ALL, Distribution::name)?,
        };
        let mean = self.mean.unwrap_or(MEAN);
        let Simulate { window, stride, seed, .. } = *self;
        Synthetic { groups, distribution, mean, window, stride, seed }.groups().map_err(typed)
    }

    fn cluster(&self, workers: usize) -> Result<Cluster> {
        let needed = (workers as u64).saturating_mul(WORKER_BYTES);
        require(&format!("a cluster of {workers} workers"), needed, "lower --workers")?;
        let shape = choose("--all-reduce", &self.all_reduce, &Shape::ALL, Shape::name)?;
        let bytes = self.parameters.checked_mul(NUMBER).ok_or_else(|| {
            Error::settings("--parameters", format!("found {}, expected fewer", self.parameters))
        })?;
        let all_reduce = AllReduce { shape, latency: self.latency, bandwidth: self.bandwidth, bytes };
        let stragglers = match &self.stragglers {
            None => Stragglers::NONE,
            Some(text) => stragglers(text)?,
        };
        let cluster = Cluster { workers, all_reduce, noise: self.noise, stragglers, seed: self.seed };
        cluster.check().map_err(typed)?;
        Ok(cluster)
    }

    /// The question for one scheduler: BLAD overlaps stages and reuses nothing, the others run groups one
    /// after the other.
    fn instance(&self, groups: &Groups, cluster: &Cluster, scheduler: &dyn Scheduler) -> Result<Instance> {
        let reuse = match (self.pipeline, self.reuse) {
            (Some(structure), _) if scheduler.name() == "blad" => {
                groups.pipeline(structure).map_err(typed)?
            }
            (_, Some(ratio)) => groups.reuse(ratio).map_err(typed)?,
            _ => Reuse::None,
        };
        let overhead = cluster.all_reduce.seconds(cluster.workers);
        let plain = Instance::new(groups.costs.clone(), cluster.workers);
        // More than all of them are as many as all of them.
        let most = self.most.min(plain.groups().max(1));
        Ok(Instance { most, overhead, reuse, ..plain })
    }

    fn limit(&self) -> Result<Limit> {
        let time = Duration::try_from_secs_f64(self.time_limit).map_err(|_| {
            Error::settings("--time-limit", format!("found {}, expected seconds from 0", self.time_limit))
        })?;
        if !(self.gap >= 0.0 && self.gap.is_finite()) {
            return Err(Error::settings("--gap", format!("found {}, expected a part from 0", self.gap)));
        }
        Ok(Limit { time, seed: self.seed, gap: self.gap, ..Limit::default() })
    }

    fn check_trace(&self, chosen: &[&dyn Scheduler]) -> Result<()> {
        let Some(path) = &self.trace else { return Ok(()) };
        if self.workers.len() != 1 || chosen.len() != 1 {
            let (sizes, schedulers) = (self.workers.len(), chosen.len());
            let problem = format!(
                "is of one simulation, found {sizes} sizes and {schedulers} schedulers; give one --workers \
                 and one --strategy"
            );
            return Err(Error::settings("--trace", problem));
        }
        if path.exists() && !is_stream(path) {
            let problem = format!("{} is there already; give another name or remove it", path.display());
            return Err(Error::settings("--trace", problem));
        }
        Ok(())
    }

    /// Runs the schedule, and writes its timeline on request.
    fn simulate(&self, instance: &Instance, found: &Scheduled, cluster: &Cluster) -> Result<Simulated> {
        let plan = EpochPlan::of_schedule(&found.schedule);
        let Some(path) = &self.trace else {
            return simulate(instance, &plan, cluster).map_err(typed);
        };
        let simulated = simulate_with_timeline(instance, &plan, cluster).map_err(typed)?;
        if let Some(traces) = &simulated.timeline {
            chrome::export(traces, path)?;
        }
        Ok(simulated)
    }
}

fn require_groups(groups: usize) -> Result<()> {
    let needed = (groups as u64).saturating_mul(GROUP_BYTES);
    require(&format!("a schedule of {groups} groups"), needed, "lower --groups")
}

/// The cost model in a file that training wrote.
fn cost_model(path: &Path) -> Result<Linear> {
    let bytes = std::fs::read(path).map_err(Error::resource("cannot read", path))?;
    let wrong = |problem: String| Error::file(path, problem);
    let file: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("is no JSON: {error}")))?;
    let seconds = |name: &str| {
        let seconds = file["model"][name].as_f64();
        seconds.ok_or_else(|| wrong(format!("holds no cost model: there is no model.{name}")))
    };
    Ok(Linear { vertex: seconds("vertex")?, edge: seconds("edge")?, snapshot: seconds("snapshot")? })
}

/// An error under the name of the option that it is about.
fn typed(error: kymo_sim::Error) -> Error {
    match error {
        kymo_sim::Error::Plan(error) => Error::Plan(error),
        kymo_sim::Error::Settings { setting, problem } => {
            Error::settings(format!("--{}", setting.replace(' ', "-")), problem)
        }
    }
}

fn refuse_given(options: &[(&str, bool)], problem: &str) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::settings(*option, problem)),
        None => Ok(()),
    }
}

/// The one of this name.
fn choose<T: Copy>(option: &str, name: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T> {
    all.iter().copied().find(|&one| name_of(one) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&one| name_of(one)).collect();
        Error::settings(option, format!("found '{name}', expected {}", names.join(" or ")))
    })
}

fn stragglers(text: &str) -> Result<Stragglers> {
    let parts = text.split_once(':').and_then(|(share, factor)| {
        Some(Stragglers { share: share.trim().parse().ok()?, factor: factor.trim().parse().ok()? })
    });
    parts.ok_or_else(|| {
        Error::settings("--stragglers", format!("found '{text}', expected SHARE:FACTOR as in 0.05:2"))
    })
}
