use std::sync::Arc; use std::time::Instant;
use kymo_graph::store::Cursor; use kymo_graph::Store; use kymo_model::{Graph, Rows, Normalisation};
fn main() {
    let store = Arc::new(Store::open(std::path::Path::new(&std::env::args().nth(1).unwrap())).unwrap());
    let steps: Vec<usize> = std::env::args().nth(2).map_or((0..store.steps()).collect(), |n| (0..n.parse().unwrap()).collect());
    for round in 0..2 {
        let mut cursor = Cursor::new(store.clone());
        let (mut a, mut b, mut c, mut edges) = (0.0, 0.0, 0.0, 0);
        let g = Graph::new(vec![0, 1], vec![0], None).unwrap(); g.normalised(Normalisation::Both).unwrap(); let asked = g.asked();
        for &t in &steps {
            let begun = Instant::now();
            let rows = cursor.go_to(t).unwrap();
            a += begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            let rows = Rows { starts: &rows.starts, sources: &rows.columns, weights: rows.weights.as_deref() };
            let graph = Graph::prepared(&rows, asked).unwrap();
            b += begun.elapsed().as_secs_f64();
            edges += graph.edges();
            let begun = Instant::now();
            drop(graph);
            c += begun.elapsed().as_secs_f64();
        }
        println!("{round}: go_to {:.1} ms prepared {:.1} ms drop {:.1} ms; {:.0} M edges/s", a * 1e3 / steps.len() as f64, b * 1e3 / steps.len() as f64, c*1e3/steps.len() as f64, edges as f64 / (a + b) / 1e6);
    }
}
