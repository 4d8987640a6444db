//! The settings of a run: what can be written in a TOML file or typed as `--set section.key=value`.
//!
//! Every setting has a default and a plain form, so that the settings of a run can be saved whole, read back
//! and compared.

use serde::{Deserialize, Serialize};

use super::averaging::Averaging;
use super::benchmark::Weigh;
use super::describe::{Choice, Kind, Section, Setting, choice, section, sections};
use super::split::Split;

sections! {
    /// Everything that decides what a run computes.
    Settings {
        /// What is learnt from.
        data: Data,
        /// What is to be predicted.
        task: Task,
        /// Link prediction alone.
        link: Link,
        /// Edge regression and edge classification alone.
        edge: Edge,
        /// What predicts.
        model: Model,
        /// How it is trained.
        train: Train,
        /// Which steps are for what.
        split: Split,
        /// Who shares the work, and how.
        parallel: Parallel,
        /// Whether models are averaged instead of gradients.
        averaging: Averaging,
        /// What the run may use, and what it leaves behind.
        run: Run,
    }
}

section! {
    /// Who shares the work, and how.
    Parallel {
        /// Workers; each has its share of the threads.
        workers: usize = 1,
        /// A name of `kymo list strategies`.
        strategy: String = "psg".into(),
        /// Windows of an iteration, whose gradients make one step; 0: one for each worker that trains whole
        /// windows, all where the strategy trains full batches (adt), one otherwise.
        windows: usize = 0,
        /// Windows that a scheduler may give a worker in an iteration, one after the other.
        groups: usize = 2,
        /// Which windows make an iteration, where no scheduler decides.
        order: Order = Order::Random,
        /// Whether windows that a worker has in one iteration and that overlap are run together: their common
        /// snapshots go through structure once (REAL, section 4.2). The same result, to rounding.
        share: bool = true,
        /// Whether what consecutive snapshots have in common is computed once (REAL, section 4.1): where few
        /// edges change, attention goes through their edges together, and means and sums are made out of
        /// those of the snapshot before; rows that did not change are not multiplied again. The same result,
        /// to rounding.
        increments: bool = true,
        /// Of products with snapshots, rows of which an edge changed are summed anew instead of being
        /// updated, and gradients take the whole way: the bits of increments=false, for little of the gain.
        recompute: bool = false,
        /// The share of edges that several snapshots may have together, each counted once, for attention to
        /// go through them at once: a number, or a formula with the mean degree such as 0.3+0.4/d. `fitted`
        /// makes one of what both ways take on this machine, in some seconds for the first run; the run goes
        /// on with it wherever it is resumed. Both ways have the same result, to rounding.
        break_even: String = "0.334".into(),
        /// What an entry that changed costs, and what a row does, for products to be made out of each other:
        /// in entries of a product that is made from nothing, which is what is done where that costs less.
        /// `fitted` as above: what both ways take on this machine. The same result, to rounding.
        change_costs: String = "1.6,1.5".into(),
        /// Epochs before windows are scheduled by the median of what they took; the first of several is not
        /// counted.
        profile_epochs: usize = 4,
        /// What a scheduler takes windows to cost: measured (what they take in these epochs), edges (an
        /// estimate from their edges) or the path of a profile.json that an earlier run left. By the last two
        /// windows are scheduled from the first epoch on, and the same run gives the same bits again.
        costs: String = "measured".into(),
        /// Whether these epochs are scheduled, too, by what earlier runs on this machine took (the user's
        /// cache folder), where that is known. What such a run computes depends on the cache, so it must be
        /// asked for.
        cached_costs: bool = false,
        /// Whether the learning rate grows with the windows of an iteration, in proportion.
        scale_rate: bool = false,
        /// Seconds that nothing may be heard of a worker on another machine before it counts as lost.
        deadline: f64 = 30.0,
        /// How gradients of workers in several processes are summed.
        sums: Sums = Sums::Ordered,
        /// Whether rows of neighbours on other workers are sent again only where they have moved (DGC,
        /// section 5.2), with a strategy that cuts windows: off (all are sent, and the result is exact),
        /// adaptive (the further the loss has fallen, the further rows may be off), adaptive-printed (the
        /// other way round, as DGC's Eq. 6 is printed) or a share of the largest distance seen, such as 0.3.
        stale: String = "off".into(),
    }
}

choice! {
    /// Which windows make an iteration.
    Order {
        /// Any, drawn anew in every epoch.
        Random = "random",
        /// Those that follow each other, which have most in common; iterations come in random order.
        Runs = "runs",
    }
}

choice! {
    /// How gradients of workers in several processes are summed.
    Sums {
        /// In the order of ranks: the same bits every time, and as with threads.
        Ordered = "ordered",
        /// As MPI does it, in any order.
        Native = "native",
    }
}

section! {
    /// What is learnt from.
    Data {
        /// The store; the built-in data where empty.
        store: String = String::new(),
        /// What is known of a vertex.
        features: Features = Features::Auto,
        /// Columns that are learnt for each vertex (or each column of sparse features) where features are
        /// learnt; 0: as many as the model has hidden columns.
        learnt: usize = 0,
        /// Whether columns are brought to mean 0 and deviation 1, by what the training steps have.
        standardise: bool = true,
        /// Steps whose features stand side by side: the current one and those before it.
        lags: usize = 1,
    }
}

choice! {
    /// What is known of a vertex.
    Features {
        /// What the store has; degrees where it has nothing, with learnt columns beside them for links whose
        /// past is not looked at (link.history).
        Auto = "auto",
        /// What the store has.
        Stored = "stored",
        /// The logarithms of degrees.
        Degrees = "degrees",
        /// A column for each number of outgoing edges, 1 where it is that of the vertex (EvolveGCN).
        OneHotDegrees = "one-hot-degrees",
        /// Columns learnt for each vertex.
        Learnt = "learnt",
        /// What the store has (degrees where it has nothing), and learnt columns.
        Both = "both",
    }
}

section! {
    /// What is to be predicted.
    Task {
        /// A name of `kymo list tasks`.
        name: String = "node-regression".into(),
        /// Names of `kymo list metrics`, the first of which decides; the usual ones of the task where empty.
        metrics: Vec<String> = Vec::new(),
        /// The values that a regression predicts.
        signal: Signal = Signal::Stored,
        /// Steps between the last snapshot seen and the values or classes to be predicted.
        horizon: usize = 1,
        /// Several of them for a regression, which one model then predicts at once: 1..12 (both included) or
        /// 3,6,12. Where empty, task.horizon alone.
        horizons: String = String::new(),
        /// How many past values of a vertex its prediction is made of, beside the embedding, in a regression:
        /// a number, or auto: those of a window, at least 8 and at most 16. 0: none, nor those of a season
        /// ago.
        past: String = "auto".into(),
        /// What a regression sees of a season after which values come back, where there is one and past
        /// values are looked at.
        season: SeasonName = SeasonName::Both,
        /// Whether a regression sees the hour of the day, the day of the week and the month of the year of
        /// what it predicts.
        calendar: CalendarName = CalendarName::Auto,
        /// What a regression is trained on.
        target: Target = Target::Standardised,
        /// What a regression keeps small.
        errors: Errors = Errors::Auto,
        /// Whether a node classification sees the classes around a vertex beside the embedding: its last one,
        /// the vote of its neighbours, labels that spread along edges. Not where the neighbours of all
        /// vertices take more than 1 GiB.
        labels: bool = true,
        /// How classes are weighed in the loss.
        class_weights: ClassWeights = ClassWeights::None,
    }
}

choice! {
    /// The values that a regression predicts.
    Signal {
        /// Those that the store has (kymo ingest --signal).
        Stored = "stored",
        /// How many edges end at each vertex in a snapshot, whatever their weights: a store needs no values.
        InDegree = "in-degree",
    }
}

choice! {
    /// What a regression is trained on.
    Target {
        /// Values brought to mean 0 and deviation 1 by the training steps; metrics are in the original units.
        Standardised = "standardised",
        /// The values as they are.
        Raw = "raw",
        /// `log(1 + y)`, in which metrics are measured, too.
        Log = "log",
    }
}

choice! {
    /// What a regression keeps small.
    Errors {
        /// Absolute errors where the metric that decides is of those (mae, mape), squared ones otherwise.
        Auto = "auto",
        /// Their squares: the mean of what may come is predicted.
        Squared = "squared",
        /// Themselves: the middle of what may come is predicted.
        Absolute = "absolute",
    }
}

choice! {
    /// What a regression sees of a season.
    SeasonName {
        /// The mean of a vertex at this phase of all seasons so far, of what is predicted and of the step
        /// itself.
        Usual = "usual",
        /// The value of a season before what is predicted.
        Ago = "ago",
        /// Both.
        Both = "both",
        /// Nothing.
        Off = "off",
    }
}

choice! {
    /// What a regression sees of the calendar.
    CalendarName {
        /// What varies, where steps have times of a known unit and are equally long, and training has seen it
        /// twice.
        Auto = "auto",
        /// Nothing.
        Off = "off",
    }
}

choice! {
    /// How classes are weighed.
    ClassWeights {
        /// All the same.
        None = "none",
        /// The rarer in training, the more.
        Balanced = "balanced",
    }
}

section! {
    /// Link prediction alone.
    Link {
        /// Pairs without a link for every link, in training.
        negatives: usize = 4,
        /// The share of them that were linked before; mrr-balanced has the same share of those that are not
        /// new, other metrics have their own.
        historical: f64 = 0.5,
        /// Steps whose targets the others are drawn from in training, each as often as there are steps that
        /// it was a target in; 0: all that were one so far, once.
        recent: usize = 0,
        /// How much a link counts in the loss, where a pair without one counts 1.
        weight: f64 = 1.0,
        /// Links of a step that are trained on at most; 0: all.
        positives: usize = 5_000,
        /// Pairs without a link for every link, in evaluation.
        evaluate_negatives: usize = 100,
        /// Links of a step that the test looks at, at most; 0: all. Metrics by source or over all pairs look
        /// at all.
        evaluate_positives: usize = 10_000,
        /// Links of a step that the validation after every epoch looks at, at most; 0: all.
        validate_positives: usize = 1_000,
        /// Steps that baselines with a memory of some time look back (edgebank-window, popular,
        /// common-neighbours); 0: those of a window.
        baseline_window: usize = 0,
        /// How far back edgebank-window remembers: baseline_window (auto), a number of steps, a share of the
        /// time of the training part such as 15% (the Temporal Graph Benchmark's), or a time such as 3d. A
        /// step is remembered while its end is.
        edgebank_window: String = "auto".into(),
        /// What mrr-tgb, auc and average-precision ask about.
        weigh: Weigh = Weigh::Edges,
        /// Whether the decoder sees the past of a pair beside the two embeddings: when and how often it was
        /// linked, in either direction, neighbours that both had lately (baseline_window), and how popular
        /// the target was.
        history: bool = true,
    }
}

section! {
    /// Edge regression and edge classification alone.
    Edge {
        /// What the classes of edges are.
        classes: EdgeClasses = EdgeClasses::Auto,
        /// Edges of a step that are trained on at most; 0: all. Evaluations look at all.
        trained: usize = 20_000,
        /// Whether the decoder sees what edges of the pair and of its ends weighed, beside embeddings.
        history: bool = true,
    }
}

choice! {
    /// What the classes of edges are.
    EdgeClasses {
        /// The signs of weights where the training part has both, otherwise their values.
        Auto = "auto",
        /// Negative for weights below 0, positive for all others.
        Sign = "sign",
        /// Each weight of the training part, at most 32 of them; another one counts as the nearest.
        Values = "values",
    }
}

section! {
    /// What predicts.
    Model {
        /// A name of `kymo list models`.
        name: String = "graphsage-linear".into(),
        /// Hidden columns.
        hidden: usize = 32,
        /// Layers of structure, 1 to 3; each block has as many.
        layers: usize = 1,
        /// Blocks above each other, 1 to 3: each is structure and then time, and reads what the one below
        /// made of every vertex at every step. (Layers stack structure alone, below one time encoder.)
        blocks: usize = 1,
        /// Heads of attention.
        heads: usize = 4,
        /// How graph convolution weighs neighbours.
        normalisation: NormalisationName = NormalisationName::Both,
        /// How GraphSAGE and ROLAND gather neighbours.
        gather: GatherName = GatherName::Mean,
        /// How ROLAND updates the state of a layer.
        update: UpdateName = UpdateName::Gru,
        /// Steps of each walk of DCRNN; hops of the convolutions of GC-LSTM and STGCN.
        walks: usize = 2,
        /// Share of the embedding that is dropped in training.
        dropout: f64 = 0.0,
    }
}

choice! {
    /// How graph convolution weighs neighbours.
    NormalisationName {
        /// By the degrees of both ends.
        Both = "both",
        /// By the degree of the target.
        Right = "right",
        /// All the same.
        None = "none",
    }
}

choice! {
    /// How ROLAND updates the state of a layer.
    UpdateName {
        /// By a gated recurrent unit.
        Gru = "gru",
        /// By two layers that read the state before and what the layer made.
        Mlp = "mlp",
        /// By a moving average, with a share that is learnt for each column.
        Average = "average",
    }
}

choice! {
    /// How GraphSAGE and ROLAND gather neighbours.
    GatherName {
        /// Their mean.
        Mean = "mean",
        /// The largest of each column after a layer of its own.
        Pool = "pool",
    }
}

choice! {
    /// How parameters follow their gradients.
    OptimiserName {
        /// Adam; weight decay is added to the gradient.
        Adam = "adam",
        /// Adam with decoupled weight decay.
        AdamW = "adamw",
        /// Stochastic gradient descent with a momentum of 0.9.
        Sgd = "sgd",
    }
}

choice! {
    /// How the learning rate changes over the epochs.
    RateName {
        /// It does not.
        Constant = "constant",
        /// It is halved every `schedule_every` epochs.
        Step = "step",
        /// It falls to zero over all epochs, in half a wave.
        Cosine = "cosine",
    }
}

choice! {
    /// How a sequence is cut for training.
    Mode {
        /// Sliding windows ("snapshot groups"), each a sample of its own, in random order.
        Windows = "windows",
        /// All training steps as one window.
        Sequence = "sequence",
        /// Windows one after the other, each beginning with the state that the one before left (truncated
        /// backpropagation).
        Truncated = "truncated",
    }
}

choice! {
    /// Which steps of a window the loss is taken at.
    LossAt {
        /// The last in sliding windows, all of them otherwise.
        Auto = "auto",
        /// The last.
        Last = "last",
        /// All of them.
        All = "all",
    }
}

section! {
    /// How it is trained.
    Train {
        /// How the sequence is cut.
        mode: Mode = Mode::Windows,
        /// The folder of a run whose parameters this one begins with, on its data grown or on other data of
        /// the same kind, which is scaled as it was there. Where empty, parameters are drawn.
        from: String = String::new(),
        /// Steps of a window.
        window: usize = 4,
        /// Steps between the beginnings of sliding windows.
        stride: usize = 1,
        /// Vertices in a batch, drawn at random, which see as much around them as the model looks at: every
        /// window is then there for many steps of the optimiser. 0: all vertices.
        batch: usize = 0,
        /// Windows of a batch, which follow each other: those that overlap are run together, and their
        /// gradients make one step of the optimiser, unless parallel.windows has several batches in a step.
        /// 0: all windows.
        batch_windows: usize = 1,
        /// Where the loss is taken.
        loss: LossAt = LossAt::Auto,
        /// Passes over the training steps.
        epochs: usize = 50,
        /// Epochs without a better validation after which training ends; 0: never.
        patience: usize = 10,
        /// How parameters follow their gradients.
        optimiser: OptimiserName = OptimiserName::Adam,
        /// Its first rate.
        learning_rate: f64 = 0.01,
        /// How weights are kept small.
        weight_decay: f64 = 0.0,
        /// The largest norm of a gradient; 0: any.
        clip: f64 = 1.0,
        /// How the learning rate changes over the epochs.
        schedule: RateName = RateName::Constant,
        /// Epochs between changes of the step schedule.
        schedule_every: usize = 10,
        /// What all random numbers follow from.
        seed: u64 = 1,
    }
}

section! {
    /// What the run may use, and what it leaves behind.
    Run {
        /// Memory that the run may take, as in 2GiB; where it is "auto", what it needs, and a quarter of what
        /// there is for snapshots and products that are kept.
        memory: String = "auto".into(),
        /// Whether products of features with snapshots are kept where there is memory for them; they are the
        /// same either way.
        keep: bool = true,
        /// Memory for batches that come again in every epoch and are kept as they were taken out of their
        /// snapshots, as in 256MiB, at each worker; with the strategies pyd, dbos and bvr. 0: none.
        reservoir: String = "0".into(),
        /// Where the work is done: cpu, cuda (the first GPU) or cuda:N.
        device: String = "cpu".into(),
        /// How products are computed on a GPU: f32, tf32 or bf16. The last two are faster and less exact.
        precision: String = "f32".into(),
        /// Memory of the GPU that may be taken, as in 40GiB; all that is free where it is "auto".
        device_memory: String = "auto".into(),
        /// Epochs between checkpoints.
        checkpoint_epochs: usize = 1,
        /// Windows between checkpoints within an epoch; 0: none.
        checkpoint_windows: usize = 0,
    }
}
