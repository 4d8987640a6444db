//! Matrices of `f32`, an explicit tape, and coarse operations with hand-written gradients.
//!
//! Everything is a matrix with rows and columns; a window of snapshots is several matrices, or one with their
//! rows below each other. A [`Tape`] runs operations as they are applied and remembers them; its end is where
//! the gradient begins. [`Op`] is the only seam: one operation, its shape rule, its values, its gradient.

mod aligned;
pub mod arena;
pub mod backward;
pub mod cache;
mod change;
pub mod check;
pub mod clock;
pub mod cuda;
pub mod error;
pub mod estimate;
mod held;
mod indexed;
mod lines;
pub mod op;
pub mod ops;
pub mod optim;
mod pairs;
pub mod pattern;
mod pool;
mod row;
mod simd;
mod spans;
pub mod tape;
mod versions;

pub use aligned::Aligned;
pub use arena::{Arena, Buffer};
pub use backward::Gradients;
pub use change::{Change, Changed, Costs};
pub use clock::{Of, Stage, Times};
pub use cuda::{Device, Resident};
pub use error::{Error, Result};
pub use op::{Back, Op, Shape, View};
pub use pairs::{Tiles, weigh_pair};
pub use pattern::Pattern;
pub use pool::{Array, Pool};
pub use spans::{Span, Spans};
pub use tape::{Numbers, Tape, Var};
pub use versions::RowVersions;
