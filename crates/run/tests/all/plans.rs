//! Plans from a sample of the steps against plans from all of them.

use std::sync::Arc;

use kymo_graph::Progress;
use kymo_graph::generate::{self, Params, Trend};
use kymo_plan::price::Rates;
use kymo_plan::strategy;
use kymo_run::RunContext;
use kymo_run::schedule::{Division, Question, Sample, is_possible};

use super::fixture::settings;

/// Every figure of a sampled plan is within a few per cent of the exact one, for every strategy; METIS and
/// label propagation, which see fewer links then, cut a little otherwise.
#[test]
fn a_sample_of_steps_stands_for_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for trend in [Trend::Flat, Trend::Linear] {
        let params = Params { vertices: 2000, edges: 9000, steps: 60, features: 4, trend, ..Params::GENERIC };
        let kind = generate::find("power-law").unwrap();
        let store = generate::write(kind, &params, &path, true, &Progress::silent()).unwrap();
        let context =
            RunContext::open_to_plan(settings(&path, "node-regression", "t-gcn"), Arc::new(store)).unwrap();
        let sample = Sample::with(&context, 6).unwrap().unwrap();
        let [looked, all] = sample.counts();
        assert!(looked < all / 2, "{looked} of {all}");
        for way in strategy::ALL.iter().filter(|way| is_possible(way, &context, 4)) {
            let plan = |sample: Option<&Sample>| {
                let division = Division::looking_at(&context, way.name, 4, sample).unwrap();
                let question =
                    Question { strategy: way.name, workers: 4, reuse: None, sample, rates: Rates::default() };
                division.plan(&context, &question).unwrap()
            };
            let (exact, sampled) = (plan(None), plan(Some(&sample)));
            assert_eq!((exact.sampled, sampled.sampled), (None, Some([looked, all])), "{}", way.name);
            assert_eq!(exact.epoch.windows(), sampled.epoch.windows(), "{}", way.name);
            let cuts = |name: &&str| way.name.contains(*name);
            let within = if ["metis", "greedy", "dgc"].iter().any(cuts) { 0.15 } else { 0.05 };
            let edges = |plan: &kymo_plan::Plan| plan.workers.iter().map(|share| share.edges).sum::<u64>();
            let figures = [
                ("seconds", exact.seconds, sampled.seconds),
                ("bytes", exact.bytes() as f64, sampled.bytes() as f64),
                ("memory", exact.memory() as f64, sampled.memory() as f64),
                ("edges", edges(&exact) as f64, edges(&sampled) as f64),
                ("cut", exact.edge_cut as f64, sampled.edge_cut as f64),
                ("imbalance", exact.imbalance(), sampled.imbalance()),
            ];
            for (figure, exact, sampled) in figures {
                let off = (sampled - exact).abs() / exact.max(1e-9);
                assert!(off <= within, "{trend:?} {} {figure}: {sampled}, exactly {exact}", way.name);
            }
        }
    }
}

/// A store that is small is looked at as a whole, and so is every window where the sample has all of them.
#[test]
fn small_stores_are_not_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let params = Params { vertices: 50, edges: 200, steps: 12, features: 0, ..Params::GENERIC };
    let kind = generate::find("uniform").unwrap();
    let store = generate::write(kind, &params, &path, false, &Progress::silent()).unwrap();
    let context =
        RunContext::open_to_plan(settings(&path, "link-prediction", "gcn"), Arc::new(store)).unwrap();
    let names: Vec<&str> = strategy::ALL.iter().map(|way| way.name).collect();
    assert_eq!(Sample::of(&context, &names).unwrap(), None);
    assert_eq!(Sample::with(&context, 1000).unwrap(), None);
}
