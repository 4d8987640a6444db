//! Numbers that stay the same while a model is trained: in the memory of the host, and on a GPU once it has
//! asked for them.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use super::call::Slice;
use super::device::Device;
use super::lines::LinesOn;
use super::memory::Memory;
use crate::aligned::Aligned;
use crate::error::{Error, Result};
use crate::ops::Entries;
use crate::ops::permuted;
use crate::pattern::Pattern;
use crate::pool::{Array, Element, Pool};

/// Numbers that do not change, with their copy on a GPU.
pub struct Resident<T: Element = f32> {
    length: usize,
    /// Those in the memory of the host, once they have been made.
    values: OnceLock<Array<T>>,
    /// How many of those come before the first one that counts.
    skipped: usize,
    make: Option<Make<T>>,
    /// Where they are the values of a sparse matrix, each the product of the factors of its row and of its
    /// column: those.
    factors: Option<Array<f32>>,
    /// Held while the copy on the GPU is made: others wait for it instead of making their own.
    bringing: Mutex<()>,
    resident: OnceLock<Arc<Memory>>,
    /// The copy in the order of the transpose of the sparse matrix that the numbers are the values of.
    transposed: OnceLock<Memory>,
}

/// How numbers are made when they are first asked for.
type Make<T> = Box<dyn Fn() -> Vec<T> + Send + Sync>;

impl<T: Element> From<Vec<T>> for Resident<T> {
    fn from(values: Vec<T>) -> Self {
        Resident::reusable(values, &Pool::default())
    }
}

impl<T: Element> Resident<T> {
    /// These numbers, whose array is for a pool in the end.
    pub fn reusable(values: Vec<T>, pool: &Pool) -> Resident<T> {
        let length = values.len();
        let values = Array::new(Arc::new(values), pool);
        Resident { values: values.into(), ..Resident::with(length, None) }
    }

    fn with(length: usize, make: Option<Make<T>>) -> Resident<T> {
        Resident {
            length,
            values: OnceLock::new(),
            skipped: 0,
            make,
            factors: None,
            bringing: Mutex::default(),
            resident: OnceLock::new(),
            transposed: OnceLock::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<T: Element> Deref for Resident<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let make = || self.make.as_ref().map_or_else(Vec::new, |make| make()).into();
        let values = self.values.get_or_init(make);
        &values[self.skipped..]
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Element + bytemuck::Pod> Resident<T> {
    /// Its copy on the GPU, made when it is first asked for.
    pub fn on(&self, device: &Device) -> Result<Slice<'_>> {
        Ok(self.shared(device)?.all())
    }

    /// Its copy on the GPU, to be held by others, too.
    pub(crate) fn shared(&self, device: &Device) -> Result<&Arc<Memory>> {
        if let Some(memory) = self.resident.get() {
            return Ok(memory);
        }
        let _bringing = self.bringing.lock().unwrap_or_else(PoisonError::into_inner);
        self.brought(device)
    }

    /// Sees to it that the copy on the GPU is made, by this thread unless another is at it.
    pub fn bring(&self, device: &Device) -> Result<()> {
        match self.bringing.try_lock() {
            Ok(_bringing) => self.brought(device).map(drop),
            Err(TryLockError::Poisoned(_)) => self.shared(device).map(drop),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn brought(&self, device: &Device) -> Result<&Arc<Memory>> {
        if let Some(memory) = self.resident.get() {
            return Ok(memory);
        }
        let memory = Arc::new(device.upload(self)?);
        Ok(self.resident.get_or_init(|| memory))
    }
}

impl Resident {
    /// These numbers, whose array is for a pool in the end.
    pub fn aligned(aligned: Aligned, pool: &Pool) -> Resident {
        let (values, skipped) = aligned.into_parts();
        let length = values.len() - skipped;
        let values = Array::new(Arc::new(values), pool);
        Resident { values: values.into(), skipped, ..Resident::with(length, None) }
    }

    /// The values of a sparse matrix, each the product of the factors of its row and of its column; rows
    /// stand for what the first columns stand for. They need no memory of their own: products with dense
    /// rows multiply as they go.
    pub fn products(pattern: Arc<Pattern>, factors: Vec<f32>) -> Result<Resident> {
        if pattern.columns() != factors.len() || pattern.rows() > pattern.columns() {
            let problem = format!(
                "{} factors for {} rows and {} columns",
                factors.len(),
                pattern.rows(),
                pattern.columns()
            );
            return Err(Error::shape("products of factors", problem));
        }
        let factors = Array::new(Arc::new(factors), pattern.pool());
        let shared = factors.clone();
        let length = pattern.entries();
        let make = move || {
            let mut values = vec![0.0; pattern.entries()];
            for (row, of_row) in pattern.starts().windows(2).zip(shared.iter()) {
                let row = row[0] as usize..row[1] as usize;
                let entries = values[row.clone()].iter_mut().zip(&pattern.places()[row]);
                entries.for_each(|(value, &column)| *value = shared[column as usize] * of_row);
            }
            values
        };
        Ok(Resident { factors: Some(factors), ..Resident::with(length, Some(Box::new(make))) })
    }

    /// Whether they are products of factors, and take no memory.
    pub fn are_products(&self) -> bool {
        self.factors.is_some() && self.values.get().is_none()
    }

    /// The factors of rows and columns, where values are their products.
    pub fn factors(&self) -> Option<&[f32]> {
        self.factors.as_ref().map(|factors| &factors[..])
    }

    /// What the host multiplies with.
    pub(crate) fn entries(&self) -> Entries<'_> {
        match &self.factors {
            Some(factors) if self.values.get().is_none() => Entries::Products(factors),
            _ => Entries::Given(self),
        }
    }

    /// Makes the copy on the GPU there, where it is not there yet.
    pub(crate) fn make_on(&self, device: &Device, make: impl FnOnce(Slice<'_>) -> Result<()>) -> Result<()> {
        if self.resident.get().is_none() {
            let memory = device.take(self.length)?;
            make(memory.all())?;
            // Another thread may have been faster: then its copy, which is the same, stays.
            let _ = self.resident.set(Arc::new(memory));
        }
        Ok(())
    }

    /// The values of the entries of a sparse matrix in the order of `lines`, which are its columns.
    pub(crate) fn transposed_on(&self, device: &Device, lines: &LinesOn) -> Result<Slice<'_>> {
        resident(&self.transposed, || {
            let memory = device.take(self.length)?;
            permuted(device, lines, self.on(device)?, memory.all())?;
            Ok(memory)
        })
    }
}

/// What a cell holds on the GPU, brought there now if it is empty.
pub(crate) fn resident(cell: &OnceLock<Memory>, make: impl FnOnce() -> Result<Memory>) -> Result<Slice<'_>> {
    if let Some(memory) = cell.get() {
        return Ok(memory.all());
    }
    let memory = make()?;
    Ok(cell.get_or_init(|| memory).all())
}
