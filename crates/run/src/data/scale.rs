//! How constant columns are scaled: by the mean and the deviation that they have in training.

/// Of each column, what is subtracted and what it is then multiplied by; of none where columns stay as they
/// are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scales {
    pub(super) means: Vec<f32>,
    pub(super) factors: Vec<f32>,
}

impl Scales {
    /// The scales of columns with these sums of values and of their squares over `count` rows.
    pub fn new(sums: &[[f64; 2]], count: f64) -> Scales {
        let scale = |&[sum, square]: &[f64; 2]| {
            let mean = sum / count;
            let variance = square / count - mean * mean;
            // A column that never changes stays at zero.
            let factor = if variance > 1e-12 { 1.0 / variance.sqrt() } else { 1.0 };
            (mean as f32, factor as f32)
        };
        let (means, factors) = sums.iter().map(scale).unzip();
        Scales { means, factors }
    }

    /// Writes the columns from `first` on, which are `raw`, into a place of their size.
    #[inline]
    pub fn write(&self, first: usize, raw: &[f32], place: &mut [f32]) {
        if self.means.is_empty() {
            return place.copy_from_slice(raw);
        }
        let columns = first..first + raw.len();
        let scales = self.means[columns.clone()].iter().zip(&self.factors[columns]);
        for ((value, raw), (mean, factor)) in place.iter_mut().zip(raw).zip(scales) {
            *value = (raw - mean) * factor;
        }
    }
}
