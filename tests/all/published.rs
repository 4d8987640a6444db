//! Figures that others have published for rules that learn nothing, by the protocols named after them.

use std::sync::Arc;

use kymo::graph::Store;
use kymo::model::metric;
use kymo::run::task::{self, Says, Tallies};
use kymo::{Part, Settings};

use crate::fixture::{Bench, data};

/// EdgeBank in both forms on tgbl-wiki, as the Temporal Graph Benchmark has published it, and to the digit
/// what py-tgb gives for the same steps (`bench/peers/edgebank.py`).
#[test]
fn edgebank_on_wikipedia_edits_comes_to_what_the_benchmark_has() {
    let Some(file) = data("wikipedia-edits/wikipedia.txt.gz") else { return };
    let bench = Bench::new();
    bench.done(&format!("ingest {} --time-unit s --events 200 -o edits", file.display()));
    let store = Arc::new(Store::open(&bench.path("edits")).unwrap());
    let mut settings = Settings::default();
    settings.task.name = "link-prediction".into();
    settings.link.evaluate_negatives = 999;
    settings.link.evaluate_positives = 0;
    let overrides = [("link.weigh", "events"), ("link.edgebank_window", "15%"), ("split.by", "events")]
        .map(|(key, value)| (key.into(), value.into(), "--set".into()));
    let settings = kymo::run::config::overlay::resolve_over(&settings, None, &overrides).unwrap();
    let goal = task::find("link-prediction").unwrap().open(&store, &settings).unwrap();
    let mrr = metric::find("mrr-tgb").unwrap();
    for (form, published, here) in [("edgebank", 0.495, 0.4944), ("edgebank-window", 0.571, 0.5737)] {
        let mut tallies = Tallies::sliced(&[mrr]);
        for sample in goal.split().samples(Part::Test) {
            goal.judge(Part::Test, sample, Says::Baseline(form), &mut tallies).unwrap();
        }
        let found = tallies.values()[0].1;
        let events: usize = tallies.slices().iter().map(|slice| slice.count).sum();
        assert!((found - published).abs() < 0.01 && (found - here).abs() < 0.0001, "{form}: {found}");
        // The test begins with the step after the one in which 85 % of all events end.
        assert_eq!(events, 157_474 - 670 * 200);
    }
}
