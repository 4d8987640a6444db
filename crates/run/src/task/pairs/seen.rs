//! Pairs apart by whether training has seen their ends.

use kymo_graph::Vertex;

/// The vertices that had an edge in the training part, in either direction.
pub struct Seen(Vec<bool>);

/// What pairs are called by that.
pub const SLICES: [&str; 4] = [
    "seen source, seen target",
    "seen source, new target",
    "new source, seen target",
    "new source, new target",
];

impl Seen {
    /// These of all vertices.
    pub fn new(vertices: usize, seen: impl Iterator<Item = Vertex>) -> Seen {
        let mut all = vec![false; vertices];
        seen.for_each(|vertex| all[vertex as usize] = true);
        Seen(all)
    }

    /// Which of [`SLICES`] a pair belongs to.
    pub fn slice(&self, source: Vertex, target: Vertex) -> usize {
        let is_new = |vertex: Vertex| usize::from(!self.0.get(vertex as usize).copied().unwrap_or(false));
        2 * is_new(source) + is_new(target)
    }
}
