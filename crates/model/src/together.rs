//! What windows share that are run together, on one tape: the type II reuse of REAL (section 4.2).
//!
//! Windows of one iteration are run with the same parameters. What a model makes of a snapshot before time
//! comes in is then the same in every window that has the snapshot: it is put on the tape once, all windows
//! go on from there, and the backward pass adds up what they send back before it goes through it, once.
//!
//! A model says what that is by asking for it here. What is made is told apart by the snapshot and by the
//! matrix that it is made of: what follows from the state of a window is another matrix in each, and never
//! taken for that of another window. Snapshots may have the same matrix of features, where these are learnt.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use kymo_tensor::{Costs, Result, Var};

/// What is made: by which part of a model, at which snapshot, where that matters, and of what.
type Key = (&'static str, usize, Option<usize>, Vec<Var>);

/// Of as many snapshots the first has its sums from nothing, and the others out of those before.
const CHAIN: usize = 8;

/// How a product is made out of that with the snapshot before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// By the entries that changed, where that is expected to be faster: the same, to rounding.
    Entries(Costs),
    /// By the rows of which an entry changed, which are summed anew: the same bits.
    Rows,
}

impl Default for Update {
    fn default() -> Update {
        Update::Entries(Costs::default())
    }
}

/// Snapshots that are on one tape, of one window or of several: what has been made of them so far.
#[derive(Debug, Default)]
pub struct Together {
    made: RefCell<BTreeMap<Key, Var>>,
    /// Whether they are of several windows.
    several: bool,
    update: Update,
    /// Products that were made out of those with the snapshot before.
    increments: Cell<Increments>,
}

/// How many products were made out of those with the snapshot before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Increments {
    /// With matrices whose rows change with their own edges.
    pub of_rows: usize,
    /// With matrices that change with the degrees of both ends.
    pub of_both_ends: usize,
}

/// A snapshot among those of a tape.
#[derive(Clone, Copy, Debug)]
pub struct Common<'t> {
    /// What has been made.
    pub together: &'t Together,
    /// Its number among the snapshots on the tape.
    pub snapshot: usize,
}

impl Common<'_> {
    /// What a part of a model, told by its name and a number, makes of a matrix at this snapshot; what
    /// another window made of it, if there was one.
    pub fn once(
        &self,
        (part, number): (&'static str, usize),
        x: Var,
        make: impl FnOnce() -> Result<Var>,
    ) -> Result<Var> {
        self.together.get((part, number, Some(self.snapshot), vec![x]), make)
    }

    /// What a part made of the same matrix at the snapshot before, if it has, and may be gone on from: chains
    /// of sums that are made out of each other are short, so that what is rounded does not add up.
    pub fn earlier(&self, (part, number): (&'static str, usize), x: Var) -> Option<Var> {
        let goes_on = self.update() == Update::Rows || !self.snapshot.is_multiple_of(CHAIN);
        let before = self.snapshot.checked_sub(1).filter(|_| goes_on)?;
        self.together.made.borrow().get(&(part, number, Some(before), vec![x])).copied()
    }

    /// How products are made out of each other.
    pub(crate) fn update(&self) -> Update {
        self.together.update
    }

    /// Counts a product that was made out of that with the snapshot before.
    pub(crate) fn count_increment(&self, is_of_both_ends: bool) {
        let mut counted = self.together.increments.get();
        *if is_of_both_ends { &mut counted.of_both_ends } else { &mut counted.of_rows } += 1;
        self.together.increments.set(counted);
    }
}

impl<'t> Common<'t> {
    /// What windows share, where there are several.
    pub fn of_several(&self) -> Option<&'t Together> {
        Some(self.together).filter(|together| together.several)
    }
}

impl Together {
    /// Nothing yet, of one window or of several.
    pub fn new(several: bool, update: Update) -> Together {
        Together { several, update, ..Together::default() }
    }

    /// How many products were made out of those with the snapshot before.
    pub fn increments(&self) -> Increments {
        self.increments.get()
    }

    fn get(&self, key: Key, make: impl FnOnce() -> Result<Var>) -> Result<Var> {
        let found = self.made.borrow().get(&key).copied();
        if let Some(var) = found {
            return Ok(var);
        }
        let var = make()?;
        self.made.borrow_mut().insert(key, var);
        Ok(var)
    }
}

/// What a part of a model makes of the rows of a matrix, each by itself; what another window made of them, if
/// there was one. A window that is alone makes everything itself.
pub fn once(
    together: Option<&Together>,
    part: (&'static str, usize),
    x: Var,
    make: impl FnOnce() -> Result<Var>,
) -> Result<Var> {
    once_of(together, part, &[x], make)
}

/// The same of several matrices, each row with those of the others.
pub fn once_of(
    together: Option<&Together>,
    (part, number): (&'static str, usize),
    all: &[Var],
    make: impl FnOnce() -> Result<Var>,
) -> Result<Var> {
    match together {
        Some(together) => together.get((part, number, None, all.to_vec()), make),
        None => make(),
    }
}

#[cfg(test)]
mod tests {
    use kymo_tensor::{Arena, Shape, Tape};

    use super::*;

    #[test]
    fn what_is_made_of_the_same_is_made_once_and_only_together() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(1, 1), 1.0), tape.filled(Shape::new(1, 1), 2.0));
        let together = Together::default();
        let mut make = |together, part, x| once(together, part, x, || tape.scale(a, 3.0)).unwrap();
        let first = make(Some(&together), ("part", 0), a);
        assert_eq!(make(Some(&together), ("part", 0), a), first);
        let mut others = vec![
            make(Some(&together), ("part", 1), a),
            make(Some(&together), ("other", 0), a),
            make(Some(&together), ("part", 0), b),
            make(None, ("part", 0), a),
            make(None, ("part", 0), a),
        ];
        // The same matrix at another snapshot is not the same.
        let at = |snapshot: usize| Common { together: &together, snapshot };
        let mut make = |snapshot| at(snapshot).once(("part", 0), a, || tape.scale(a, 3.0)).unwrap();
        let second = make(0);
        assert_eq!(make(0), second);
        others.extend([second, make(1)]);
        for (number, other) in others.iter().enumerate() {
            assert!(*other != first && !others[..number].contains(other), "{number}");
        }
        // Of several it is that of the same ones in the same order.
        let mut of =
            |all: &[Var]| once_of(Some(&together), ("several", 0), all, || tape.scale(a, 3.0)).unwrap();
        let several = [of(&[a, b]), of(&[b, a]), of(&[a, b, b])];
        assert_eq!(of(&[a, b]), several[0]);
        assert!(several[0] != several[1] && several[0] != several[2] && several[1] != several[2]);
        // What failed is made again.
        let failing = || Err(kymo_tensor::Error::settings("layers", "there are none"));
        assert!(once(Some(&together), ("third", 0), a, failing).is_err());
        assert!(once(Some(&together), ("third", 0), a, || Ok(b)).is_ok_and(|var| var == b));
    }
}
