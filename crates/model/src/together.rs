//! What windows share that are run together, on one tape: the type II reuse of REAL (section 4.2).
//!
//! Windows of one iteration are run with the same parameters. What a model makes of a snapshot before time
//! comes in is then the same in every window that has the snapshot: it is put on the tape once, all windows
//! go on from there, and the backward pass adds up what they send back before it goes through it, once.
//!
//! A model says what that is by asking for it here. What is made is told apart by the matrices that it is
//! made of: what follows from the state of a window is another matrix in each, and never taken for that of
//! another window.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kymo_tensor::{Result, Var};

/// What is made, by which part of a model, and of what.
type Key = (&'static str, usize, [Var; 2]);

/// Windows that are run on one tape: what has been made for all of them so far.
#[derive(Debug, Default)]
pub struct Together(RefCell<BTreeMap<Key, Var>>);

/// What a part of a model, told by its name and a number, makes of matrices; what another window made of
/// them, if there was one. A window that is alone makes everything itself.
pub fn once(
    together: Option<&Together>,
    (part, number): (&'static str, usize),
    of: [Var; 2],
    make: impl FnOnce() -> Result<Var>,
) -> Result<Var> {
    let Some(Together(made)) = together else { return make() };
    let key = (part, number, of);
    let found = made.borrow().get(&key).copied();
    if let Some(var) = found {
        return Ok(var);
    }
    let var = make()?;
    made.borrow_mut().insert(key, var);
    Ok(var)
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
        let mut make = |together, part, of| once(together, part, of, || tape.scale(a, 3.0)).unwrap();
        let first = make(Some(&together), ("part", 0), [a, b]);
        assert_eq!(make(Some(&together), ("part", 0), [a, b]), first);
        let others = [
            make(Some(&together), ("part", 1), [a, b]),
            make(Some(&together), ("other", 0), [a, b]),
            make(Some(&together), ("part", 0), [b, b]),
            make(Some(&together), ("part", 0), [a, a]),
            make(None, ("part", 0), [a, b]),
            make(None, ("part", 0), [a, b]),
        ];
        for (number, other) in others.iter().enumerate() {
            assert!(*other != first && !others[..number].contains(other), "{number}");
        }
        // What failed is made again.
        let failing = || Err(kymo_tensor::Error::settings("layers", "there are none"));
        assert!(once(Some(&together), ("third", 0), [a, a], failing).is_err());
        assert!(once(Some(&together), ("third", 0), [a, a], || Ok(b)).is_ok_and(|var| var == b));
    }
}
