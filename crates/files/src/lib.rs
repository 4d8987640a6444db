//! Outputs that are there whole or not at all, and that have one writer at a time.
//!
//! Files are written by [`write_whole`] and [`write_new`], folders by [`NewFolder`]. A [`Lock`] keeps other
//! writers out; it ends with its process, however that ends, so what a dead process left never blocks the
//! next one. [`place`] tells what a path leads to.

mod error;
mod folder;
mod lock;
pub mod place;
mod rename;
mod whole;

pub use error::{Error, Result};
pub use folder::{NewFolder, clear, lock, restore};
pub use lock::Lock;
pub use whole::{is_stream, write_new, write_whole};
