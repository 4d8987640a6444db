//! The names vertices had in the input, and the dense numbers they get.
//!
//! While reading, vertices are numbered as they appear. Afterwards they are ranked: by original id, and in a
//! bipartite graph the sources before the targets. So the same rows in any order give the same numbers, and
//! ids that are dense already stay what they were.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::snapshot::Vertex;

/// The original ids of the vertices, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Vertices were numbers.
    Number(Vec<u64>),
    /// Vertices were names.
    Text(Vec<String>),
}

impl Ids {
    /// How many vertices there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::Number(ids) => ids.len(),
            Ids::Text(ids) => ids.len(),
        }
    }

    /// Whether there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The original id of `v` as text.
    pub fn name(&self, v: Vertex) -> String {
        match self {
            Ids::Number(ids) => ids[v as usize].to_string(),
            Ids::Text(ids) => ids[v as usize].clone(),
        }
    }
}

/// Which id space a vertex belongs to: one for all, or one for sources and one for targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Sources, and every vertex of a graph that is not bipartite.
    Left,
    /// Targets of a bipartite graph.
    Right,
}

/// Ids below this are looked up in a table, the others in a hash map: real sets have small ids, and the table
/// costs one cache miss where the map costs two.
const TABLE: u64 = 1 << 24;

const ABSENT: u32 = u32::MAX;

#[derive(Default)]
struct Space {
    table: Vec<u32>,
    numbers: FxHashMap<u64, u32>,
    names: FxHashMap<Box<[u8]>, u32>,
}

/// Numbers vertices as they appear.
#[derive(Default)]
pub struct IdMap {
    spaces: [Space; 2],
    sides: Vec<Side>,
    numbers: Vec<u64>,
    names: Vec<Box<[u8]>>,
    name_bytes: usize,
    keep_order: bool,
    /// The order of the first vertices, where it is settled.
    settled: Vec<Vertex>,
}

impl IdMap {
    /// How many vertices have been seen.
    pub fn len(&self) -> usize {
        self.sides.len()
    }

    /// Whether none has been seen.
    pub fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// Keeps the order of appearance as the final order: for inputs whose own order means something.
    pub fn keep_order(&mut self) {
        self.keep_order = true;
    }

    /// Bytes held, for the memory budget.
    pub fn bytes(&self) -> usize {
        let spaces = self.spaces.iter();
        let maps: usize =
            spaces.map(|s| s.table.len() * 4 + s.numbers.capacity() * 17 + s.names.capacity() * 25).sum();
        maps + self.numbers.capacity() * 8
            + self.names.capacity() * 16
            + self.name_bytes * 2
            + self.sides.capacity()
    }

    /// The number of the vertex with this id, given now if it is new.
    #[inline]
    pub fn number(&mut self, side: Side, id: u64) -> Result<Vertex> {
        let space = &mut self.spaces[side as usize];
        let slot = if id < TABLE {
            let index = id as usize;
            if index >= space.table.len() {
                space.table.resize((index + 1).next_power_of_two(), ABSENT);
            }
            &mut space.table[index]
        } else {
            space.numbers.entry(id).or_insert(ABSENT)
        };
        if *slot == ABSENT {
            *slot = fresh(self.sides.len())?;
            self.sides.push(side);
            self.numbers.push(id);
        }
        Ok(*slot)
    }

    /// The number of the vertex with this name, given now if it is new.
    pub fn text(&mut self, side: Side, name: &[u8]) -> Result<Vertex> {
        if let Some(&vertex) = self.spaces[side as usize].names.get(name) {
            return Ok(vertex);
        }
        let vertex = fresh(self.sides.len())?;
        self.spaces[side as usize].names.insert(name.into(), vertex);
        self.sides.push(side);
        self.names.push(name.into());
        self.name_bytes += name.len();
        Ok(vertex)
    }

    /// Gives vertices that were numbers these names, in the order in which they appeared. They keep their
    /// final order, and can still be found by their numbers, none of which may be one of the names.
    pub fn name_all(&mut self, names: &[&[u8]]) {
        self.settled = self.order();
        for (vertex, name) in (0..).zip(names) {
            self.spaces[Side::Left as usize].names.insert((*name).into(), vertex);
            self.name_bytes += name.len();
        }
        self.names = names.iter().map(|&name| name.into()).collect();
    }

    /// Names of vertices for which `wanted` holds, as written in the input.
    pub fn names_where(&self, wanted: impl Fn(Vertex) -> bool) -> Vec<String> {
        let name = |vertex: Vertex| match self.names.get(vertex as usize) {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => self.numbers[vertex as usize].to_string(),
        };
        (0..self.sides.len() as Vertex).filter(|&vertex| wanted(vertex)).map(name).collect()
    }

    /// The number of a vertex seen before, by its id in either side, written as in the input.
    pub fn find(&self, id: &str) -> Option<Vertex> {
        self.spaces.iter().find_map(|space| {
            if let Some(&vertex) = space.names.get(id.as_bytes()) {
                return Some(vertex);
            }
            let id: u64 = id.parse().ok()?;
            let entry = if id < TABLE { space.table.get(id as usize) } else { space.numbers.get(&id) };
            entry.copied().filter(|&vertex| vertex != ABSENT)
        })
    }

    /// The vertices in their final order.
    pub fn order(&self) -> Vec<Vertex> {
        let mut order = self.settled.clone();
        order.extend(order.len() as Vertex..self.sides.len() as Vertex);
        let named = !self.names.is_empty();
        let compare = |&a: &Vertex, &b: &Vertex| -> Ordering {
            let (a, b) = (a as usize, b as usize);
            let ids = || {
                if named { self.names[a].cmp(&self.names[b]) } else { self.numbers[a].cmp(&self.numbers[b]) }
            };
            self.sides[a].cmp(&self.sides[b]).then_with(ids)
        };
        if !self.keep_order && self.settled.is_empty() {
            order.sort_unstable_by(compare);
        }
        order
    }

    /// The final ids in order, how many of them are on the left side, and the final number of each vertex as
    /// it was numbered while reading.
    pub fn rank(self) -> (Ids, usize, Vec<Vertex>) {
        let left = self.sides.iter().filter(|&&side| side == Side::Left).count();
        let (order, named) = (self.order(), !self.names.is_empty());
        let mut ranks = vec![0; order.len()];
        for (rank, &vertex) in (0..).zip(&order) {
            ranks[vertex as usize] = rank;
        }
        let ids = if named {
            Ids::Text(
                order
                    .iter()
                    .map(|&v| String::from_utf8_lossy(&self.names[v as usize]).into_owned())
                    .collect(),
            )
        } else {
            Ids::Number(order.iter().map(|&v| self.numbers[v as usize]).collect())
        };
        (ids, left, ranks)
    }
}

fn fresh(count: usize) -> Result<Vertex> {
    u32::try_from(count).ok().filter(|&vertex| vertex != ABSENT).ok_or_else(|| {
        Error::settings(
            "input",
            format!("more than {} vertices: a store numbers them in 32 bits", u32::MAX - 1),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_original_ids_whatever_the_order_of_appearance() {
        let mut map = IdMap::default();
        let large = TABLE + 5;
        for (id, expected) in [(7, 0), (3, 1), (large, 2), (3, 1), (0, 3), (7, 0)] {
            assert_eq!(map.number(Side::Left, id).unwrap(), expected);
        }
        assert_eq!(map.find("3"), Some(1));
        assert_eq!(map.find("4"), None);
        let (ids, left, ranks) = map.rank();
        assert_eq!(ids, Ids::Number(vec![0, 3, 7, large]));
        assert_eq!((left, ranks), (4, vec![2, 1, 3, 0]));
    }

    #[test]
    fn two_sides_are_two_spaces_and_the_left_comes_first() {
        let mut map = IdMap::default();
        assert_eq!(map.number(Side::Right, 1).unwrap(), 0);
        assert_eq!(map.number(Side::Left, 1).unwrap(), 1);
        let (ids, left, ranks) = map.rank();
        assert_eq!((ids, left, ranks), (Ids::Number(vec![1, 1]), 1, vec![1, 0]));
    }

    #[test]
    fn names_are_ranked_by_their_bytes_or_kept_in_order() {
        for (keep, expected) in [(false, ["a", "b"]), (true, ["b", "a"])] {
            let mut map = IdMap::default();
            if keep {
                map.keep_order();
            }
            for name in ["b", "a", "b"] {
                map.text(Side::Left, name.as_bytes()).unwrap();
            }
            assert_eq!(map.rank().0, Ids::Text(expected.map(String::from).to_vec()));
        }
    }

    #[test]
    fn vertices_that_get_names_keep_their_order_and_their_numbers() {
        let mut map = IdMap::default();
        for id in [7, 3, 9] {
            map.number(Side::Left, id).unwrap();
        }
        map.name_all(&[b"seven", b"three", b"nine"]);
        assert_eq!([map.find("seven"), map.find("3"), map.find("4")], [Some(0), Some(1), None]);
        assert_eq!(map.text(Side::Left, b"a").unwrap(), 3);
        assert_eq!(map.names_where(|vertex| vertex > 1), ["nine", "a"]);
        let (ids, _, ranks) = map.rank();
        assert_eq!(ids, Ids::Text(["three", "seven", "nine", "a"].map(String::from).to_vec()));
        assert_eq!(ranks, [1, 0, 2, 3]);
    }
}
