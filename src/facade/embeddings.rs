//! Embeddings: what a trained model has for every vertex, as arrays that other programs read.

use std::io::{self, Write};
use std::path::Path;

use kymo_files::write_whole;
use kymo_graph::{Ids, Step};
use kymo_run::Result;
use serde_json::{Map, Value, json};

/// Numbers that are written at a time.
const BLOCK: usize = 1 << 14;

/// The rows that the head of the task reads, of every vertex: one matrix for each step that the model saw
/// last.
pub struct Embeddings {
    /// The steps, in the order of time.
    pub steps: Vec<Step>,
    /// Columns.
    pub width: usize,
    /// Of each step, the rows of all vertices in their order.
    pub values: Vec<Vec<f32>>,
    /// The original ids of the vertices.
    pub ids: Ids,
}

impl Embeddings {
    /// The row of a vertex, by its number, at the step of this place.
    pub fn row(&self, place: usize, vertex: usize) -> Option<&[f32]> {
        self.values.get(place)?.get(vertex * self.width..(vertex + 1) * self.width)
    }

    /// Writes a safetensors file: `embeddings` (steps, vertices, columns), `step`, and the ids of the
    /// vertices as stores have them, `id`, or `name` and `name.at`.
    pub fn write_safetensors(&self, file: &mut dyn Write) -> io::Result<()> {
        let shape = [self.steps.len(), self.ids.len(), self.width];
        let steps: Vec<u64> = self.steps.iter().map(|&step| step as u64).collect();
        let (numbers, names) = match &self.ids {
            Ids::Number(ids) => (Some(ids), None),
            Ids::Text(names) => (None, Some(names)),
        };
        let starts = names.map(|names| {
            let ends = names.iter().scan(0, |end, name| {
                *end += name.len() as u64;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect::<Vec<u64>>()
        });
        let (mut header, mut offset) = (Map::new(), 0);
        let mut describe = |name: &str, dtype: &str, shape: &[usize], bytes: usize| {
            let offsets = [offset, offset + bytes];
            header.insert(name.into(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
            offset += bytes;
        };
        // Words of eight bytes come first, so that all are aligned.
        describe("step", "U64", &[steps.len()], 8 * steps.len());
        if let Some(ids) = numbers {
            describe("id", "U64", &[ids.len()], 8 * ids.len());
        }
        if let Some(starts) = &starts {
            describe("name.at", "U64", &[starts.len()], 8 * starts.len());
        }
        describe("embeddings", "F32", &shape, 4 * shape.iter().product::<usize>());
        if let Some(starts) = &starts {
            let bytes = starts.last().copied().unwrap_or(0) as usize;
            describe("name", "U8", &[bytes], bytes);
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for words in [Some(&steps), numbers, starts.as_ref()].into_iter().flatten() {
            words.iter().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
        }
        for block in self.values.iter().flat_map(|rows| rows.chunks(BLOCK)) {
            let bytes: Vec<u8> = block.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write_all(&bytes)?;
        }
        names.into_iter().flatten().try_for_each(|name| file.write_all(name.as_bytes()))
    }

    /// The same to a file, which appears whole or not at all and replaces what was there.
    pub fn save_safetensors(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(write_whole(path.as_ref(), |file| self.write_safetensors(file))?)
    }
}
