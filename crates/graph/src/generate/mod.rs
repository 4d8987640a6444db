//! Dynamic graphs out of nothing: seeded, the same for any number of threads, as large as memory allows.
//!
//! A kind says how the ends of an edge are drawn; all else is shared: how edges come and leave ([`Params`],
//! [`Trend`]), and features with targets whose lowest possible error is known ([`Signal`]).

mod from_static;
mod grow;
mod hot;
mod params;
mod power_law;
mod presets;
mod random;
mod signal;
mod trend;
mod uniform;
mod write;

pub use from_static::{default_edges, from_static};
pub use params::Params;
pub use signal::Signal;
pub use trend::Trend;
pub use write::{FromStatic, write, write_from_static, write_within_run};

use crate::error::{Error, Result};
use crate::snapshot::{Step, Vertex};
use crate::step::StepData;
use grow::{Growth, Supply};
use signal::Features;

/// Turns 64 uniform random bits into one end of an edge.
pub type Sampler = Box<dyn Fn(u64) -> Vertex + Send + Sync>;

/// A kind of graph.
pub trait Generator: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// What it is, in one line.
    fn about(&self) -> &'static str;
    /// What it makes by default.
    fn defaults(&self) -> Params;
    /// How it draws the ends of edges; `params` must have passed [`Params::check`].
    fn sampler(&self, params: &Params) -> Sampler;
}

/// Every kind, in the order of the help.
pub const ALL: &[&dyn Generator] = &[
    &uniform::Uniform,
    &power_law::PowerLaw,
    &hot::Hot,
    &presets::UNI500K,
    &presets::EX500K,
    &presets::ARXIV,
    &presets::REDDIT,
    &presets::PRODUCTS,
    &presets::STACKOVERFLOW,
];

/// The name under which a dynamic graph is made from a static one (`from_static`), which is no kind of its
/// own.
pub const FROM_STATIC: &str = "from-static";

/// The kind of this name.
pub fn find(name: &str) -> Result<&'static dyn Generator> {
    ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|kind| kind.name()).chain([FROM_STATIC]).collect();
        Error::settings("KIND", format!("there is no kind '{name}'; known are {}", names.join(", ")))
    })
}

/// The steps of a graph of this kind, made one at a time as they are asked for.
pub fn generate(kind: &dyn Generator, params: &Params) -> Result<Generated> {
    params.check()?;
    let growth = Growth::new(params.clone(), Supply::Drawn(kind.sampler(params)));
    Ok(Generated::new(params.steps, growth, (params.features > 0).then(|| Features::new(params.clone()))))
}

/// The steps of a generated graph, in order: an iterator like that of a loader, although nothing here can
/// fail.
pub struct Generated {
    steps: usize,
    next: Step,
    growth: Growth,
    features: Option<Features>,
}

impl Generated {
    fn new(steps: usize, growth: Growth, features: Option<Features>) -> Self {
        Self { steps, next: 0, growth, features }
    }

    /// The rule that the targets follow: known once two steps were taken, if there are features.
    pub fn signal(&self) -> Option<Signal> {
        self.features.as_ref()?.signal()
    }
}

impl Iterator for Generated {
    type Item = Result<StepData>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.steps {
            return None;
        }
        let mut data = self.growth.advance(self.next);
        if let Some(features) = &mut self.features {
            features.advance(self.next, self.growth.edges(), &mut data);
        }
        self.next += 1;
        Some(Ok(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use crate::step::{FeatureChange, StepEdges};
    use proptest::prelude::*;

    /// One step with everything that holds at it.
    pub(super) struct Replay {
        pub data: StepData,
        pub snapshot: Snapshot<'static>,
        pub features: Vec<f32>,
    }

    /// All steps, each checked for what holds of every generated graph.
    pub(super) fn replay(kind: &dyn Generator, params: &Params) -> Vec<Replay> {
        let (mut snapshot, mut features) = (Snapshot::default(), Vec::new());
        let mut steps = Vec::new();
        for (t, data) in generate(kind, params).unwrap().enumerate() {
            let data = data.unwrap();
            let StepEdges::Delta(delta) = &data.edges else { panic!("the generator makes deltas") };
            snapshot = delta.apply(&snapshot).unwrap();
            assert!(snapshot.edges.is_sorted_by(|a, b| a < b) && snapshot.weights.is_none());
            for edge in snapshot.edges.iter() {
                assert!(!edge.is_self_loop() && edge.source().max(edge.target()) < params.vertices as u32);
                assert!(!params.undirected || snapshot.edges.binary_search(&edge.reversed()).is_ok());
            }
            assert_eq!((data.begin, data.end), (t as f64, t as f64 + 1.0));
            assert_eq!(data.events as usize, delta.added.len() / if params.undirected { 2 } else { 1 });
            match &data.features {
                FeatureChange::Same => {}
                FeatureChange::All(all) => features = all.clone(),
                FeatureChange::Rows(vertices, rows) => {
                    assert!(vertices.is_sorted_by(|a, b| a < b));
                    for (&v, row) in vertices.iter().zip(rows.chunks(params.features)) {
                        features[v as usize * params.features..][..params.features].copy_from_slice(row);
                    }
                }
            }
            assert_eq!(features.len(), params.vertices * params.features);
            steps.push(Replay { data, snapshot: snapshot.clone(), features: features.clone() });
        }
        assert_eq!(steps.len(), params.steps);
        steps
    }

    /// In- plus out-degree of every vertex at the first step of the kind's default graph.
    pub(super) fn degrees_of_first_step(kind: &dyn Generator) -> Vec<u32> {
        let params = Params { steps: 1, features: 0, ..kind.defaults() };
        let (inward, outward) = replay(kind, &params)[0].snapshot.degrees(params.vertices);
        inward.iter().zip(&outward).map(|(i, o)| i + o).collect()
    }

    #[test]
    fn every_kind_is_found_by_its_name_and_generates() {
        for &kind in ALL {
            assert_eq!(find(kind.name()).unwrap().name(), kind.name());
            assert!(!kind.about().is_empty());
            kind.defaults().check().unwrap();
            let params = kind.defaults().scaled(0.002);
            replay(kind, &Params { steps: 4, ..params });
        }
        assert!(find("triangular").is_err());
    }

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads_but_on_the_seed() {
        for (name, scale) in [("power-law", 0.2), ("ex500k", 0.004)] {
            let kind = find(name).unwrap();
            let run = |threads: usize, seed: u64| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let params = Params { steps: 4, features: 8, seed, ..kind.defaults().scaled(scale) };
                pool.install(|| {
                    generate(kind, &params)
                        .unwrap()
                        .map(|step| format!("{:?}", step.unwrap()))
                        .collect::<Vec<_>>()
                })
            };
            let one = run(1, 1);
            assert!(one == run(2, 1) && one == run(5, 1));
            assert!(one[0] != run(2, 2)[0]);
        }
    }

    #[test]
    fn counts_follow_the_trend_and_changes_the_rate() {
        for &trend in Trend::ALL {
            for (undirected, edge_change) in [(false, 0.0), (false, 0.3), (true, 0.2), (true, 2.0)] {
                let params =
                    Params { steps: 20, features: 0, trend, undirected, edge_change, ..Params::GENERIC };
                let params = params.scaled(0.05);
                let wanted = |t| trend.edges(params.edges, t, params.steps, params.seed);
                for (t, step) in replay(&power_law::PowerLaw, &params).iter().enumerate() {
                    assert_eq!(step.snapshot.count(!undirected), wanted(t));
                    if t > 0 {
                        let StepEdges::Delta(delta) = &step.data.edges else {
                            panic!("the generator makes deltas")
                        };
                        let changed = delta.len() / if undirected { 2 } else { 1 };
                        let asked = (edge_change * wanted(t - 1) as f64)
                            .max(wanted(t).abs_diff(wanted(t - 1)) as f64);
                        assert!((changed as f64 - asked).abs() <= 1.5, "{changed} of {asked} at {t}");
                    }
                }
            }
        }
    }

    #[test]
    fn graphs_that_are_nearly_complete_are_filled() {
        for (vertices, undirected) in [(2, false), (2, true), (60, false), (61, true)] {
            for kind in [&uniform::Uniform as &dyn Generator, &power_law::PowerLaw, &hot::Hot] {
                let pairs = Params { vertices, undirected, ..Params::GENERIC }.pairs();
                for edges in [pairs, pairs - 1, pairs * 9 / 10] {
                    let params =
                        Params { vertices, edges, undirected, steps: 3, features: 4, ..Params::GENERIC };
                    assert!(
                        replay(kind, &params).iter().all(|step| step.snapshot.count(!undirected) == edges)
                    );
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_request_is_refused_or_followed(
            kind in 0..ALL.len(),
            (vertices, edges, steps) in (0usize..12, 0usize..60, 0usize..5),
            (features, segments) in (0usize..6, 0usize..5),
            rates in prop::array::uniform3(
                prop_oneof![8 => 0.0..1.0, 1 => -0.5..2.5, 1 => Just(2.0), 1 => Just(f64::NAN)]
            ),
            trend in prop::sample::select(Trend::ALL.to_vec()),
            (binary, undirected, seed) in any::<(bool, bool, u64)>(),
        ) {
            let [edge_change, feature_change, noise] = rates;
            let params = Params {
                vertices, edges, steps, edge_change, feature_change, features, segments, binary, trend,
                undirected,
                noise, seed,
            };
            if params.check().is_ok() {
                let all = replay(ALL[kind], &params);
                for (t, step) in all.iter().enumerate() {
                    prop_assert_eq!(step.snapshot.count(!undirected), trend.edges(edges, t, steps, seed));
                }
            }
        }
    }
}
