//! One worker: its replica, its runner and its place in a group. An iteration of training, and what the model
//! outputs.

mod held;
mod outputs;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use kymo_comm::Traffic;
use kymo_graph::{Progress, Step, Store};
use kymo_plan::{Batch, Iteration, Portion, Share, Shares, Targets, Window};
use kymo_tensor::estimate::MemoryEstimate;
use kymo_tensor::{Arena, Device, Numbers, Times};
use kymo_trace::Kind;
use kymo_trace::schema::{AveragingRecord, folder};

use super::context::RunContext;
use super::extraction::Extraction;
use super::group::Group;
use super::runner::{Runner, WindowRun};
use super::seams::Seams;
use super::times::WindowTimes;
use crate::config::{Mode, Settings, device};
use crate::data::{Loaded, Room, Sizes, Snapshots, Split, Surroundings, WholeSteps};
use crate::error::{Error, Result};
use crate::forward::RecurrentState;
use crate::halo::{Cells, HaloPolicy, Kept, Pass, Stale};
use crate::merge::{Averaging, GradientSum, Merge, Merged};
use crate::random::Random;
use crate::replica::Replica;
use crate::task::Goal;
use crate::workers::{Clock, Work, WorkerGroup};

/// The stream of random numbers that dropout follows.
const DROPOUT: u64 = 0xD40F;

/// Where a worker computes.
struct Place {
    arena: Arena,
    /// Bytes that its snapshots may take there.
    most: usize,
}

impl Place {
    /// The place that the settings ask for.
    fn of(context: &RunContext) -> Result<Place> {
        let device = device::open(&context.settings)?;
        // What is held of snapshots is held on a GPU, too, beside what a step computes there.
        let most = device.as_ref().map_or(usize::MAX, |device| device.budget() / 2);
        let own = || match context.vertex_batches() {
            Some(_) => Arena::growing(),
            None => Arena::new(),
        };
        Ok(Place { arena: device.map_or_else(own, Arena::on), most })
    }
}

/// How models are averaged by these settings.
fn averaging(settings: &Settings, workers: usize) -> Result<Averaging> {
    let path = &settings.averaging.replay;
    if path.is_empty() {
        return Ok(Averaging::every(settings.averaging.seconds, workers));
    }
    let records: Vec<AveragingRecord> = folder::lines(path.as_ref())?;
    if records.is_empty() {
        let problem = format!("{path} has no rounds, expected the averaging.jsonl of a run");
        return Err(Error::settings("averaging.replay", problem));
    }
    Ok(Averaging::again(records, workers))
}

/// Everything that learns, at one worker.
pub struct Worker {
    /// What does not change.
    pub context: Arc<RunContext>,
    /// The worker among others.
    pub group: Arc<WorkerGroup>,
    /// What is learnt, and how.
    pub replica: Replica,
    /// Where the time goes.
    pub clock: Clock,
    /// How far an evaluation or prediction is, and whether to stop it.
    pub progress: Progress,
    /// The state that the last training window left, where windows hand it over.
    pub state: Option<RecurrentState>,
    /// What went over the wire while training.
    pub trained: Traffic,
    /// What was measured of windows, where they are measured, operation by operation.
    pub measured: Option<Vec<WindowTimes>>,
    /// What all workers keep of rows that they sent, gathered for a checkpoint.
    pub kept: Option<Kept>,
    runner: Runner,
    stale: Option<Arc<Stale>>,
    merge: Box<dyn Merge>,
    gradient: GradientSum,
    epoch: usize,
}

impl Worker {
    /// A worker without others, before its first step; fails where settings and data do not go together.
    pub fn open(settings: Settings, store: Arc<Store>) -> Result<Worker> {
        Worker::join(RunContext::open(settings, store)?, WorkerGroup::alone(), None)
    }

    /// A worker among others, before its first step; `shares` says who owns what where workers share windows.
    pub fn join(
        context: Arc<RunContext>,
        group: Arc<WorkerGroup>,
        shares: Option<&Shares>,
    ) -> Result<Worker> {
        Worker::with(context, group, shares, Seams::default())
    }

    /// A worker that shares windows with others, whose plan says what its part of them takes.
    pub fn planned(
        context: Arc<RunContext>,
        group: Arc<WorkerGroup>,
        shares: &Shares,
        share: &Share,
    ) -> Result<Worker> {
        let place = Place::of(&context)?;
        Worker::assemble(context, group, Some((shares, Some(share))), Seams::default(), place)
    }

    /// A worker among others that does some things in another way.
    pub fn with(
        context: Arc<RunContext>,
        group: Arc<WorkerGroup>,
        shares: Option<&Shares>,
        seams: Seams,
    ) -> Result<Worker> {
        let place = Place::of(&context)?;
        Worker::assemble(context, group, shares.map(|shares| (shares, None)), seams, place)
    }

    /// A worker that computes nothing and counts what a GPU with this many bytes would have to hold.
    pub(crate) fn estimating(
        context: Arc<RunContext>,
        estimate: Arc<MemoryEstimate>,
        bytes: usize,
    ) -> Result<Worker> {
        let place = Place { arena: Arena::estimating(estimate), most: bytes / 2 };
        Worker::assemble(context, WorkerGroup::alone(), None, Seams::default(), place)
    }

    /// A worker at a place; `part` says who owns what, and what it takes, where workers share windows.
    fn assemble(
        context: Arc<RunContext>,
        group: Arc<WorkerGroup>,
        part: Option<(&Shares, Option<&Share>)>,
        seams: Seams,
        Place { arena, most }: Place,
    ) -> Result<Worker> {
        let settings = &context.settings;
        let planned = part.and_then(|(_, share)| share);
        let bytes = context.room_to_keep(planned.map(|share| share.memory))?.min(most);
        let share = planned.and_then(|share| share.last_rows).map_or(1.0, |rows| rows.share);
        let rule = part.and(settings.stale_rule()?);
        let stale = rule.map(|rule| Arc::new(Stale::new(rule, share)));
        // Where a setting asks for stale rows, no other way for rows to arrive is wanted.
        let halo = stale.clone().map_or(seams.halo, |stale| stale as Arc<dyn HaloPolicy>);
        let cells = part.map(|(shares, _)| Arc::new(Cells::new(group.clone(), shares.clone(), halo)));
        // The one that keeps a GPU busy must not have to share its core.
        let on_device = usize::from(arena.device().is_some());
        let threads = (rayon::current_num_threads() / context.sharing.workers).saturating_sub(on_device);
        let sizes = match (&cells, planned) {
            (None, _) => Some(context.sizes()?),
            (Some(_), share) => share.zip(part).map(|(share, (shares, _))| {
                let times = context.evaluated_too(shares, group.rank());
                Sizes::of_part(share, times, context.store.bytes())
            }),
        };
        let room = match sizes {
            Some(sizes) => {
                let cells = context.store.vertices() * context.store.steps();
                let kept = match context.settings.run.keep {
                    true => Some(cells.saturating_mul(context.reused()? as usize)),
                    false => None,
                };
                Room::new(&sizes, bytes, context.span(), threads).keeping(kept)
            }
            None => Room::unplanned(bytes, context.span(), threads),
        };
        let asked = context.asked()?;
        let (store, inputs) = (context.store.clone(), context.inputs.clone());
        let source = seams
            .source
            .unwrap_or_else(|| Arc::new(WholeSteps::new(store.clone(), inputs, asked, cells.clone())));
        let (recorder, device) = (group.recorder.clone(), arena.device().cloned());
        let around = Surroundings { cells: cells.clone(), recorder, device };
        let snapshots = Snapshots::new(store, source, room, around);
        let merge: Box<dyn Merge> = match settings.averages() && group.size() > 1 {
            true => Box::new(averaging(settings, group.size())?),
            false => seams.merge,
        };
        let extraction = Extraction::keeping(context.reservoir()?);
        let mut replica = Replica::new(context.slots(), settings)?;
        context.goal.start(&mut replica.params)?;
        Ok(Worker {
            replica,
            runner: Runner::new(context.clone(), Arc::new(snapshots), cells, arena, extraction),
            state: None,
            clock: Clock::default(),
            progress: Progress::silent(),
            trained: Traffic::default(),
            measured: None,
            kept: None,
            stale,
            merge,
            gradient: GradientSum::default(),
            epoch: 0,
            group,
            context,
        })
    }

    /// What decides what is computed.
    pub fn settings(&self) -> &Settings {
        &self.context.settings
    }

    /// The task on the data.
    pub fn goal(&self) -> &dyn Goal {
        &*self.context.goal
    }

    /// The snapshots.
    pub fn snapshots(&self) -> &Snapshots {
        self.runner.snapshots()
    }

    /// The cells, where workers share windows.
    pub fn cells(&self) -> Option<&Cells> {
        self.runner.cells()
    }

    /// Which samples are for what.
    pub fn split(&self) -> &Split {
        self.context.goal.split()
    }

    /// Numbers that are learnt.
    pub fn parameters(&self) -> usize {
        self.replica.params.len()
    }

    /// The GPU that the work is done on, if it is.
    pub fn device(&self) -> Option<&Device> {
        self.runner.device()
    }

    /// Begins an epoch, at its first window or where it was interrupted: only then is the state before of any
    /// use.
    pub fn begin_epoch(&mut self, epoch: usize, is_new: bool) {
        self.epoch = epoch;
        if is_new {
            self.state = None;
        }
    }

    /// Trains on one window: forward, backward, one step of the optimiser. The loss, or `None` where nothing
    /// is labelled.
    pub fn step(&mut self, steps: Range<Step>, salt: u64, rate: f32) -> Result<Option<f32>> {
        let batch = Batch::whole(Window { number: 0, steps, salt });
        let done = self.iterate(&Iteration { workers: vec![vec![batch]] }, rate, false)?;
        Ok((done.losses > 0).then_some(done.loss as f32))
    }

    /// Begins to read what training needs, where all of it stays: what else has to be done before the first
    /// epoch need not be waited for.
    pub fn begin_reading(&self) {
        if self.snapshots().holds_all() {
            self.snapshots().look_ahead(self.context.windows());
        }
    }

    /// Says which iterations come next, and which windows after them, so that their snapshots are read before
    /// their turn comes.
    pub fn look_ahead(&self, iterations: &[Iteration], after: Vec<Range<Step>>) {
        let mine = iterations.iter().flat_map(|iteration| self.groups(iteration));
        self.snapshots().look_ahead(mine.map(|group| group.steps).chain(after).collect());
    }

    /// One iteration: every worker runs its batches, then all take a step of the optimiser.
    pub fn iterate(&mut self, iteration: &Iteration, rate: f32, stop: bool) -> Result<Merged> {
        if let Some(stale) = self.stale() {
            stale.agree(&self.group)?;
        }
        let before = self.group.traffic();
        self.replica.send_to(self.runner.device())?;
        let mut gradient = std::mem::take(&mut self.gradient);
        gradient.begin(self.replica.params.values.iter().map(Vec::len));
        let mut edges = 0;
        for group in self.groups(iteration) {
            edges += self.train_on(&group, &mut gradient)?;
        }
        let begun = Instant::now();
        gradient.add_facts(edges, stop);
        if let Some(owners) = self.context.batches.and_then(|batches| batches.owners)
            && self.merge.is_local()
        {
            // The loss of a batch is a mean over the vertices of all, and those of others are not heard of.
            gradient.scale(owners as f32);
        }
        let done = self.merge.gradients(&mut gradient, &self.group)?;
        if done.losses > 0 {
            self.follow(&done, &mut gradient, iteration, rate)?;
        }
        self.merge.parameters(&mut self.replica, &self.group)?;
        self.trained = self.trained.and(self.group.traffic().since(before));
        self.gradient = gradient;
        self.clock.add(Work::Train, begun.elapsed());
        Ok(done)
    }

    /// Says that workers go on from here until they meet: of an epoch, this many windows are done.
    pub fn go_on(&mut self, epoch: usize, window: usize) -> Result<()> {
        self.merge.go_on(epoch, window, self.group.size())
    }

    /// Where workers go ways of their own, they come together here and have the same parameters from now on:
    /// what all have seen since they met before, and when models were averaged meanwhile. All workers come
    /// here together.
    pub fn meet(&mut self, epoch: usize, window: usize) -> Result<Option<(Merged, AveragingRecord)>> {
        let before = self.group.traffic();
        let met = self.merge.meet(&mut self.replica, &self.group, (epoch, window))?;
        self.trained = self.trained.and(self.group.traffic().since(before));
        Ok(met)
    }

    /// The windows of this worker in an iteration, in groups that are run together: where nothing is measured
    /// of each, and each has all rows.
    fn groups<'i>(&self, iteration: &'i Iteration) -> Vec<Group<'i>> {
        let is_alone = self.runner.cells().is_some() || self.measured.is_some();
        let together = if is_alone { [1, 0] } else { self.context.together };
        Group::all(iteration.of(self.group.rank()), together)
    }

    /// Seconds that windows take that are run together, or of one that is alone; nothing is learnt of them.
    pub fn time(&mut self, windows: &[Range<Step>]) -> Result<f64> {
        let whole = |steps: &Range<Step>| Batch::whole(Window { number: 0, steps: steps.clone(), salt: 0 });
        let batches: Vec<Batch> = windows.iter().map(whole).collect();
        let (begun, mut gradient) = (Instant::now(), GradientSum::default());
        gradient.begin(self.replica.params.values.iter().map(Vec::len));
        for group in Group::all(&batches, [windows.len(), usize::MAX]) {
            self.train_on(&group, &mut gradient)?;
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Adds the gradient of windows that are run together; their edges.
    fn train_on(&mut self, group: &Group<'_>, gradient: &mut GradientSum) -> Result<u64> {
        self.snapshots().check(&group.batch.neighbourhood)?;
        let all = Instant::now();
        let (loaded, reads) = self.load(&group.steps)?;
        let begun = Instant::now();
        let counted = self.add_gradient(group, &loaded, gradient)?;
        self.clock.add(Work::Train, begun.elapsed());
        if let Some(measured) = &mut self.measured {
            let seconds = all.elapsed().as_secs_f64();
            measured.push(WindowTimes::new(group.steps.start, &reads, &counted, seconds));
        }
        let edges = |window: &&Window| -> u64 {
            group.of(window, &loaded).iter().map(|loaded| loaded.graph.edges() as u64).sum()
        };
        let edges: u64 = group.windows.iter().map(edges).sum();
        // An epoch counts the edges of a window once, however many batches go through some of them.
        Ok(match &group.batch.targets {
            Targets::Drawn(drawn) => edges / drawn.parts.max(1) as u64,
            Targets::Portion(Portion { owners, drawn, .. }) => {
                edges / drawn.parts.saturating_mul(*owners).max(1) as u64
            }
            _ => edges,
        })
    }

    /// Reads a window; the seconds that each of its steps took.
    fn load(&mut self, window: &Range<Step>) -> Result<(Vec<Arc<Loaded>>, Vec<f64>)> {
        let (runner, recorder) = (&self.runner, &self.group.recorder);
        self.clock.time(Work::Load, || recorder.time(Kind::Load, "snapshots", || runner.load(window)))
    }

    /// Adds the gradient of windows that are run together; where the time went, if windows are measured.
    fn add_gradient(
        &mut self,
        group: &Group<'_>,
        loaded: &[Arc<Loaded>],
        gradient: &mut GradientSum,
    ) -> Result<Times> {
        let Group { batch, windows, steps } = group;
        let mut times = Times::default();
        let before = self.state.take();
        let run = WindowRun {
            steps,
            loaded,
            windows: &windows.iter().map(|window| window.steps.clone()).collect::<Vec<_>>(),
            targets: &batch.targets,
            neighbourhood: &batch.neighbourhood,
            before: before.as_ref(),
            hand_over: self.settings().train.mode == Mode::Truncated,
            pass: Pass { epoch: self.epoch, trains: true },
            measures: self.measured.is_some(),
        };
        let random = Random::new(self.settings().train.seed).stream(DROPOUT);
        let rate = self.settings().model.dropout as f32;
        let (context, recorder) = (self.context.clone(), self.group.recorder.clone());
        let computing = recorder.open(Kind::Compute, if windows.len() > 1 { "windows" } else { "window" });
        let (done, after) = self.runner.learn(
            &self.replica,
            run,
            |goal, mut forward, number| {
                let Window { steps, salt, .. } = windows[number];
                forward.dropout = (rate, random.word(*salt));
                let loss = goal.loss(&mut forward, &context.losses_at(steps), *salt)?;
                if loss.is_none() {
                    // The state goes on, whether there is something to learn or not.
                    let outputs = goal.outputs(&mut forward)?;
                    forward.take(outputs.loss)?;
                }
                Ok(loss)
            },
            |tape, params, losses| {
                let Some((loss, count)) = losses else {
                    times = tape.times();
                    return Ok(None);
                };
                // Also where the loss is NaN: peers wait for their part of the backward pass.
                let mut gradients = tape.backward(loss)?;
                times = tape.times();
                let take = |&var| gradients.take(var).unwrap_or_default();
                let taken = params.vars().iter().map(take).collect::<Vec<Numbers>>();
                Ok(Some((tape.read(loss)?[0], count, taken)))
            },
        )?;
        drop(computing);
        self.state = after;
        if let Some((loss, losses, gradients)) = done {
            let is_first = gradient.is_new();
            // A window that several share is one.
            let counts = match &batch.targets {
                Targets::Own => self.group.leads(),
                Targets::Portion(portion) => portion.owner == 0 || self.merge.is_local(),
                _ => true,
            };
            gradient.add_losses(loss, if counts { losses } else { 0 });
            // An estimate of memory has no numbers to add.
            let computes = self.runner.arena().estimate().is_none();
            if computes && !self.replica.add_on_device(&gradients, !is_first)? {
                gradient.add(&gradients)?;
            }
            gradients.into_iter().for_each(|gradient| gradient.give(self.runner.arena()));
        }
        Ok(times)
    }

    /// Changes the parameters by their gradients.
    fn follow(
        &mut self,
        done: &Merged,
        gradient: &mut GradientSum,
        iteration: &Iteration,
        rate: f32,
    ) -> Result<()> {
        let norm = match done.loss.is_finite() {
            true => self.replica.step(gradient.slices(), done.losses, rate)?,
            false => f32::NAN,
        };
        if norm.is_finite() {
            return Ok(());
        }
        let steps = |window: &&Window| format!("{} to {}", window.steps.start, window.steps.end - 1);
        let windows: Vec<String> = iteration.windows().iter().map(steps).collect();
        let problem = format!(
            "training diverged: the loss became {} (its gradient {norm}) in the window of steps {}; nothing \
             of it was \
             kept. Lower train.learning_rate, set train.clip, or look for extreme values in the data",
            done.loss,
            windows.join(", ")
        );
        Err(Error::Diverged(problem))
    }
}
