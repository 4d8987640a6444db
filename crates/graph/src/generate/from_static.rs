//! A dynamic graph out of a static one: every snapshot is a part of it, by random deletion.
//!
//! This is how BLAD, DyGNeX and REAL (section 7.1) make dynamic graphs of Arxiv, Products and Reddit: edges
//! are deleted at random so that their number follows a trend. An edge that left may return.

use super::grow::{Growth, Supply};
use super::params::most_edges;
use super::trend::Trend;
use super::{Generated, Params};
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// Mean edges of a step by default: 70 % of the graph, or less if the trend would need more than all.
pub fn default_edges(graph: &Snapshot<'_>, undirected: bool, trend: Trend) -> usize {
    let edges = graph.count(!undirected);
    most_edges(edges, trend).min((0.7 * edges as f64).round() as usize)
}

/// Steps that are parts of `graph`, with its weights.
///
/// Of `params` the edges, steps, edge change, trend, direction and seed count. Features are left to the
/// caller. In an undirected graph opposite edges leave and return together, so both must be there.
pub fn from_static(graph: Snapshot<'static>, vertices: usize, params: &Params) -> Result<Generated> {
    let edges = graph.count(!params.undirected);
    params.check_growth(edges, &format!("a graph of {edges} edges"))?;
    let outside = |end: u32| end as usize >= vertices;
    if let Some(edge) = graph.edges.iter().find(|edge| outside(edge.source()) || outside(edge.target())) {
        let problem = format!("the graph has the edge {edge:?} but {vertices} vertices");
        return Err(Error::settings("--vertices", format!("{problem}; its vertices are counted from 0")));
    }
    let lonely = |edge| graph.edges.binary_search(&edge).is_err();
    if let Some(edge) = graph.edges.iter().find(|edge| params.undirected && lonely(edge.reversed())) {
        let problem = format!("the graph has the edge {edge:?} without its opposite");
        return Err(Error::settings("--undirected", format!("{problem}; add it or make a directed graph")));
    }
    let params = Params { vertices, ..params.clone() };
    let steps = params.steps;
    Ok(Generated::new(steps, Growth::new(params, Supply::Graph(graph)), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Delta;
    use crate::generate::uniform::Uniform;
    use crate::generate::{Generator, generate};
    use crate::snapshot::Edge;
    use crate::step::StepEdges;

    fn whole(undirected: bool) -> Snapshot<'static> {
        let params = Params { undirected, features: 0, ..Uniform.defaults().scaled(0.1) };
        let step = generate(&Uniform, &params).unwrap().next().unwrap().unwrap();
        let StepEdges::Delta(delta) = step.edges else { panic!("the generator makes deltas") };
        let weighted = delta.added.into_iter().map(|(edge, _)| (edge, edge.source() as f32)).collect();
        Snapshot::from_weighted(weighted)
    }

    #[test]
    fn steps_are_weighted_parts_of_the_graph_and_follow_the_trend() {
        for undirected in [false, true] {
            let graph = whole(undirected);
            for &trend in Trend::ALL {
                let edges = default_edges(&graph, undirected, trend);
                let params = Params { edges, steps: 20, trend, undirected, ..Params::GENERIC };
                let mut present = Snapshot::default();
                let mut returned = 0;
                let mut gone: Vec<Edge> = Vec::new();
                for (t, step) in from_static(graph.clone(), 1000, &params).unwrap().enumerate() {
                    let StepEdges::Delta(delta) = step.unwrap().edges else {
                        panic!("the generator makes deltas")
                    };
                    let before = present.len();
                    present = delta.apply(&present).unwrap();
                    assert_eq!(present.count(!undirected), trend.edges(edges, t, 20, params.seed));
                    let lost = Delta::between(&graph, &present);
                    assert!(lost.added.is_empty() && lost.reweighted.is_empty());
                    if t > 0 && trend == Trend::Flat {
                        let change = delta.len() as f64 / before as f64;
                        assert!((change - 0.2).abs() < 0.001, "{change}");
                    }
                    returned += delta.added.iter().filter(|(edge, _)| gone.contains(edge)).count();
                    gone.extend(delta.removed.iter().take(100).map(|(edge, _)| *edge));
                    if undirected {
                        assert!(
                            present.edges.iter().all(|e| present.edges.binary_search(&e.reversed()).is_ok())
                        );
                    }
                }
                assert!(returned > 0);
            }
        }
    }

    #[test]
    fn graphs_that_do_not_fit_the_request_are_refused() {
        let graph = Snapshot::from_edges(vec![Edge::new(0, 1), Edge::new(1, 0), Edge::new(1, 2)]);
        let params = Params { edges: 1, steps: 2, ..Params::GENERIC };
        let refusal = |vertices, params: Params| {
            from_static(graph.clone(), vertices, &params).err().unwrap().to_string()
        };
        assert!(refusal(3, Params { edges: 4, ..params.clone() }).contains("at most 3"));
        assert!(refusal(2, params.clone()).contains("1->2"));
        assert!(refusal(3, Params { undirected: true, ..params.clone() }).contains("opposite"));
        assert!(refusal(3, Params { steps: 0, ..params }).contains("--steps"));
    }

    #[test]
    fn an_empty_graph_and_a_whole_one_stay_as_they_are() {
        let params = Params { edges: 0, steps: 3, ..Params::GENERIC };
        assert_eq!(from_static(Snapshot::default(), 5, &params).unwrap().count(), 3);
        let graph = Snapshot::from_edges(vec![Edge::new(0, 1), Edge::new(2, 2)]);
        let mut steps = from_static(graph, 3, &Params { edges: 2, ..params }).unwrap();
        assert_eq!(steps.next().unwrap().unwrap().events, 2);
        assert!(steps.all(|step| step.unwrap().events == 0));
    }
}
