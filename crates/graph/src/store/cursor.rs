//! stub
use std::sync::Arc;
use super::Store;
use crate::error::Result;
use crate::snapshot::{Csr, Step};
/// stub
pub struct Cursor { store: Arc<Store>, at: Option<Step>, rows: Csr }
impl Cursor {
    /// stub
    pub fn new(store: Arc<Store>) -> Cursor { let rows = crate::Snapshot::default().by_target(0); Cursor { store, at: None, rows } }
    /// stub
    pub fn at(&self) -> Option<Step> { self.at }
    /// stub
    pub fn go_to(&mut self, t: Step) -> Result<&Csr> {
        self.rows = self.store.snapshot(t)?.by_target(self.store.vertices());
        self.at = Some(t);
        Ok(&self.rows)
    }
}
