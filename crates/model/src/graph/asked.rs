//! What a model asks of a snapshot, and what that takes.

use super::weighted::Normalisation;

/// What a model asks of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub(super) normalised: [bool; 3],
    pub(super) with_loops: bool,
    pub(super) plain: bool,
    pub(super) mean: bool,
    pub(super) diffusion: bool,
    /// The transposes of the patterns with loops, without, and of the walk against the edges.
    pub(super) transposed: [bool; 3],
}

impl Asked {
    /// The same without transposes: they are made where a gradient asks for one. Of a part, the halves of a
    /// matrix may be what gradients go back through, and not the matrix.
    pub fn untransposed(self) -> Asked {
        Asked { transposed: [false; 3], ..self }
    }

    /// Whether all of it can be made of the edges with a loop at every vertex.
    pub fn is_of_loops(&self) -> bool {
        let (loops, others) = (self.normalised, [self.plain, self.mean, self.diffusion]);
        (self.with_loops || loops.contains(&true)) && !others.contains(&true)
    }

    /// Bytes of a snapshot that was prepared so, of edges with or without weights.
    pub fn bytes(&self, vertices: u64, edges: u64, weighted: bool) -> u64 {
        let pattern = |is_made: bool, is_transposed: bool, entries: u64| {
            let starts = 8 * (vertices + 1);
            u64::from(is_made) * (starts + 4 * entries) + u64::from(is_transposed) * (starts + 8 * entries)
        };
        let (looped, transposed) = (edges + vertices, self.transposed);
        let loops = self.with_loops || self.normalised.contains(&true);
        let plain = self.plain || self.mean || self.diffusion;
        // Without weights, values that follow from the degrees of both ends are not kept.
        let both = self.normalised[Normalisation::Both as usize];
        let normalised = self.normalised.iter().filter(|&&is_made| is_made).count() as u64;
        let normalised = normalised - u64::from(both && !weighted);
        pattern(loops, transposed[0], looped)
            + pattern(plain, transposed[1], edges)
            + pattern(self.diffusion, transposed[2], edges)
            + u64::from(both) * 4 * vertices
            + 4 * (normalised * looped + u64::from(self.mean) * edges + 2 * u64::from(self.diffusion) * edges)
    }
}
