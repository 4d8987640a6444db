//! Parameters: what a model asks for, what the caller holds, and what an operation sees of them.

use std::borrow::Cow;

use kymo_tensor::optim::DeviceParams;
use kymo_tensor::{Error, Result, Shape, Tape, Var};
use rustc_hash::FxHashMap;

/// How a parameter begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Uniform between plus and minus `sqrt(6 / (rows + columns))` (Glorot and Bengio, 2010).
    Glorot,
    /// Uniform between plus and minus this.
    Uniform(f32),
    /// All the same.
    Constant(f32),
}

/// A parameter that a model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Its name, unique within the model.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// How it begins.
    pub initial: Initial,
}

impl Slot {
    /// A weight matrix.
    pub fn weight(name: impl Into<String>, rows: usize, columns: usize) -> Slot {
        Slot { name: name.into(), shape: Shape::new(rows, columns), initial: Initial::Glorot }
    }

    /// A row of zeros.
    pub fn bias(name: impl Into<String>, columns: usize) -> Slot {
        Slot { name: name.into(), shape: Shape::new(1, columns), initial: Initial::Constant(0.0) }
    }
}

/// The parameters of a model and their values; they belong to the caller.
#[derive(Clone, Debug)]
pub struct Params {
    slots: Vec<Slot>,
    index: FxHashMap<String, usize>,
    /// The values, in the order of the slots.
    pub values: Vec<Vec<f32>>,
}

impl Params {
    /// Values as their slots begin, from a seed: the same on every machine.
    pub fn new(slots: Vec<Slot>, seed: u64) -> Result<Params> {
        let mut index = FxHashMap::default();
        for (number, slot) in slots.iter().enumerate() {
            if index.insert(slot.name.clone(), number).is_some() {
                return Err(Error::settings("parameters", format!("two are called {}", slot.name)));
            }
        }
        let values =
            slots.iter().enumerate().map(|(number, slot)| begin(slot, seed, number as u64)).collect();
        Ok(Params { slots, index, values })
    }

    /// The slots, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.values.iter().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of one parameter, to be set.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Vec<f32>> {
        self.index.get(name).map(|&number| &mut self.values[number])
    }

    /// The values of one parameter.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.index.get(name).map(|&number| self.values[number].as_slice())
    }

    /// Puts all parameters on a tape.
    pub fn bind<'a>(&'a self, tape: &mut Tape<'a>) -> Result<Bound<'a>> {
        self.bind_as(|shape, values| tape.parameter(shape, values))
    }

    /// Puts all parameters on a tape as matrices that need no gradient: for looking, not for learning.
    pub fn bind_constant<'a>(&'a self, tape: &mut Tape<'a>) -> Result<Bound<'a>> {
        self.bind_as(|shape, values| tape.constant(shape, values))
    }

    /// Puts all parameters on a tape from where they are on its GPU.
    pub fn bind_on_device<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        on_device: &'a DeviceParams,
        learning: bool,
    ) -> Result<Bound<'a>> {
        let bind =
            |(number, slot): (usize, &Slot)| tape.resident(slot.shape, on_device.parameter(number), learning);
        let vars = self.slots.iter().enumerate().map(bind).collect::<Result<_>>()?;
        Ok(Bound::new(&self.index, vars))
    }

    fn bind_as<'a>(&'a self, mut bind: impl FnMut(Shape, &'a [f32]) -> Result<Var>) -> Result<Bound<'a>> {
        let bind = |(slot, values): (&Slot, &'a Vec<f32>)| bind(slot.shape, values);
        let vars = self.slots.iter().zip(&self.values).map(bind).collect::<Result<_>>()?;
        Ok(Bound::new(&self.index, vars))
    }
}

/// Uniform numbers by counter: SplitMix64 of (seed, parameter, position).
fn begin(slot: &Slot, seed: u64, number: u64) -> Vec<f32> {
    let limit = match slot.initial {
        Initial::Constant(value) => return vec![value; slot.shape.len()],
        Initial::Uniform(limit) => limit,
        Initial::Glorot => (6.0 / (slot.shape.rows + slot.shape.columns).max(1) as f32).sqrt(),
    };
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let stream =
        mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ mix(number.wrapping_add(0xD1B5_4A32_D192_ED03));
    let uniform = |at: u64| {
        let bits = mix(stream.wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15))) >> 40;
        (bits as f32 / (1u32 << 24) as f32 * 2.0 - 1.0) * limit
    };
    (0..slot.shape.len() as u64).map(uniform).collect()
}

/// Parameters on a tape, by name.
#[derive(Clone)]
pub struct Bound<'a> {
    index: &'a FxHashMap<String, usize>,
    vars: Vec<Var>,
    prefix: String,
}

impl<'a> Bound<'a> {
    fn new(index: &'a FxHashMap<String, usize>, vars: Vec<Var>) -> Self {
        Bound { index, vars, prefix: String::new() }
    }

    /// The same names for other matrices, as inside a block of rows.
    pub fn renewed(&self, vars: Vec<Var>) -> Self {
        Bound { vars, prefix: self.prefix.clone(), ..*self }
    }

    /// The parameters of a part of the model, by the names that it gave them itself: what they are called
    /// begins with `prefix`.
    pub fn within(&self, prefix: &str) -> Self {
        Bound { prefix: format!("{}{prefix}", self.prefix), vars: self.vars.clone(), ..*self }
    }

    /// The parameter called `name`.
    pub fn get(&self, name: &str) -> Result<Var> {
        let name = match self.prefix.as_str() {
            "" => Cow::Borrowed(name),
            prefix => Cow::Owned(format!("{prefix}{name}")),
        };
        let missing = || Error::settings("parameters", format!("there is none called {name}"));
        self.index.get(&*name).and_then(|&number| self.vars.get(number)).copied().ok_or_else(missing)
    }

    /// All of them, in the order of the slots.
    pub fn vars(&self) -> &[Var] {
        &self.vars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_begin_as_their_slots_say_and_follow_the_seed() {
        let slots = || vec![Slot::weight("w", 40, 60), Slot::bias("b", 7), Slot::weight("v", 40, 60)];
        let params = Params::new(slots(), 3).unwrap();
        let limit = (6.0f32 / 100.0).sqrt();
        assert!(params.values[0].iter().all(|value| value.abs() <= limit));
        let mean: f32 = params.values[0].iter().sum::<f32>() / 2400.0;
        let spread: f32 = params.values[0].iter().map(|value| value * value).sum::<f32>() / 2400.0;
        assert!(mean.abs() < 0.01 && (spread - limit * limit / 3.0).abs() < 0.001);
        assert_eq!(params.values[1], [0.0; 7]);
        assert_ne!(params.values[0], params.values[2]);
        assert_eq!(params.values, Params::new(slots(), 3).unwrap().values);
        assert_ne!(params.values, Params::new(slots(), 4).unwrap().values);
        assert!(Params::new(vec![Slot::bias("b", 1), Slot::bias("b", 1)], 0).is_err());
    }
}
