//! A GPU as operations see it: memory, kernels, products.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::Slice;
use super::driver::{Driver, Function, Module};
use super::kernels::{self, Source};
use super::memory::{Memory, Pool};
use crate::error::{Error, Result};

/// How products are computed. Everything is stored in single precision whatever is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// In single precision throughout.
    #[default]
    Single,
    /// Factors rounded to 10 bits of mantissa, sums in single precision: about 1e-3 of a product's norm.
    Tf32,
    /// Factors rounded to 7 bits of mantissa: about 1e-2.
    Bf16,
}

impl Precision {
    /// All of them, by the names of settings.
    pub const ALL: [(&'static str, Precision); 3] =
        [("f32", Precision::Single), ("tf32", Precision::Tf32), ("bf16", Precision::Bf16)];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.iter().find(|(other, _)| *other == name).map(|&(_, precision)| precision)
    }
}

/// What a GPU says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub bytes: usize,
    /// Its compute capability.
    pub architecture: (i32, i32),
    /// How many multiprocessors it has.
    pub processors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
}

/// How a GPU is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which one.
    pub number: usize,
    /// How products are computed.
    pub precision: Precision,
    /// Bytes that may be taken of its memory; as many as there are where nothing is said.
    pub budget: Option<usize>,
}

/// An argument of a kernel.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    Address(u64),
    Integer(i32),
    Long(i64),
    Real(f32),
}

impl From<Slice<'_>> for Argument {
    fn from(slice: Slice<'_>) -> Self {
        Argument::Address(slice.at())
    }
}

impl From<Option<Slice<'_>>> for Argument {
    fn from(slice: Option<Slice<'_>>) -> Self {
        Argument::Address(slice.map_or(0, |slice| slice.at()))
    }
}

impl From<usize> for Argument {
    fn from(value: usize) -> Self {
        Argument::Long(value as i64)
    }
}

impl From<i32> for Argument {
    fn from(value: i32) -> Self {
        Argument::Integer(value)
    }
}

impl From<bool> for Argument {
    fn from(value: bool) -> Self {
        Argument::Integer(i32::from(value))
    }
}

impl From<f32> for Argument {
    fn from(value: f32) -> Self {
        Argument::Real(value)
    }
}

/// A factor of a product: where it begins, and how far its rows are apart.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor {
    pub at: u64,
    pub stride: usize,
    pub transposed: bool,
}

/// `output = left right + keep * output`, row after row.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
    pub left: Factor,
    pub right: Factor,
    /// What the output is multiplied by before: 0 or 1.
    pub keep: f32,
    pub output: u64,
    pub stride: usize,
}

/// Threads of a grid: blocks in both directions, threads of a block, bytes of shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub blocks: [usize; 2],
    pub threads: usize,
    pub shared: usize,
}

/// Threads of a block where nothing asks for another number.
pub(crate) const THREADS: usize = 256;

impl Launch {
    /// One thread per item.
    pub fn each(count: usize) -> Launch {
        Launch::blocks(count.div_ceil(THREADS))
    }

    /// This number of blocks.
    pub fn blocks(count: usize) -> Launch {
        Launch { blocks: [count, 1], threads: THREADS, shared: 0 }
    }
}

/// Kernels by their source, what was defined for it, and their name.
type Functions = HashMap<(&'static str, String, &'static str), Function>;

pub(super) struct Inner {
    pub(super) driver: Driver,
    pub(super) pool: Mutex<Pool>,
    precision: Precision,
    functions: Mutex<Functions>,
    modules: Mutex<HashMap<(&'static str, String), Module>>,
    launches: AtomicUsize,
}

impl Inner {
    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for at in self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).all_free() {
            self.driver.release(at);
        }
    }
}

/// A GPU. Clones are the same one.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Inner>);

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.facts().name)
    }
}

pub(super) fn problem(problem: String) -> Error {
    Error::Device(problem)
}

impl Device {
    /// Opens a GPU; the error says what is missing.
    pub fn open(options: Options) -> Result<Device> {
        let driver = Driver::open(options.number).map_err(problem)?;
        let free = driver.free_bytes().map_err(problem)?;
        let most = options.budget.unwrap_or(free).min(free);
        Ok(Device(Arc::new(Inner {
            driver,
            pool: Mutex::new(Pool::new(most)),
            precision: options.precision,
            functions: Mutex::default(),
            modules: Mutex::default(),
            launches: AtomicUsize::new(0),
        })))
    }

    /// What it says of itself.
    pub fn facts(&self) -> &Facts {
        self.0.driver.facts()
    }

    /// How products are computed.
    pub fn precision(&self) -> Precision {
        self.0.precision
    }

    /// Bytes taken now, and the most that were.
    pub fn bytes(&self) -> (usize, usize) {
        let pool = self.0.pool();
        (pool.used, pool.most_used)
    }

    /// Bytes that may be taken.
    pub fn budget(&self) -> usize {
        self.0.pool().budget
    }

    /// Forgets what was the most.
    pub fn forget_most(&self) {
        let mut pool = self.0.pool();
        pool.most_used = pool.used;
    }

    /// Kernels launched and products asked for so far.
    pub fn launches(&self) -> usize {
        self.0.launches.load(Ordering::Relaxed)
    }

    /// Waits until all work has been done.
    pub fn wait(&self) -> Result<()> {
        self.0.driver.wait().map_err(problem)
    }

    /// Does some work; the milliseconds it took on the GPU.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        let begun = self.0.driver.mark().map_err(problem)?;
        work()?;
        let ended = self.0.driver.mark().map_err(problem)?;
        self.0.driver.milliseconds(&begun, &ended).map_err(problem)
    }

    /// Numbers of four bytes each, brought to the GPU.
    pub fn upload<T: bytemuck::Pod>(&self, values: &[T]) -> Result<Memory> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let memory = self.take(bytes.len().div_ceil(4))?;
        self.set(memory.all(), values)?;
        Ok(memory)
    }

    /// Writes numbers to memory of the GPU.
    pub fn set<T: bytemuck::Pod>(&self, to: Slice<'_>, values: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if bytes.is_empty() {
            return Ok(());
        }
        self.0.driver.upload(to.at(), bytes).map_err(problem)
    }

    /// Numbers brought back from the GPU, when all work before has been done.
    pub fn download(&self, from: Slice<'_>, into: &mut [f32]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        self.0.driver.download(from.at(), bytemuck::cast_slice_mut(into)).map_err(problem)
    }

    /// The numbers there, in memory of the host.
    pub fn read(&self, from: Slice<'_>) -> Result<Vec<f32>> {
        let mut values = vec![0.0; from.len()];
        self.download(from, &mut values)?;
        Ok(values)
    }

    /// Copies on the GPU.
    pub fn copy(&self, from: Slice<'_>, to: Slice<'_>) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        self.0.driver.copy(from.at(), to.at(), 4 * from.len()).map_err(problem)
    }

    /// Fills with zeros.
    pub fn clear(&self, at: Slice<'_>) -> Result<()> {
        if at.is_empty() {
            return Ok(());
        }
        self.0.driver.clear(at.at(), 4 * at.len()).map_err(problem)
    }

    /// Runs a kernel, compiled with what is defined for it. Nothing is done for an empty grid.
    pub(crate) fn run(
        &self,
        source: &'static Source,
        name: &'static str,
        defined: &[(&str, usize)],
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<()> {
        if launch.blocks[0] * launch.blocks[1] == 0 {
            return Ok(());
        }
        let function = self.function(source, name, defined)?;
        let grid = [launch.blocks[0] as u32, launch.blocks[1] as u32, 1];
        self.0.launches.fetch_add(1, Ordering::Relaxed);
        let run =
            self.0.driver.launch(function, grid, [launch.threads as u32, launch.shared as u32], arguments);
        run.map_err(|error| problem(format!("{name}: {error}")))
    }

    fn function(
        &self,
        source: &'static Source,
        name: &'static str,
        defined: &[(&str, usize)],
    ) -> Result<Function> {
        let text: String = defined.iter().map(|(name, value)| format!("-D{name}={value} ")).collect();
        let key = (source.name, text, name);
        let mut functions = self.0.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&function) = functions.get(&key) {
            return Ok(function);
        }
        let mut modules = self.0.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = &self.0.driver;
        let module = match modules.get(&(key.0, key.1.clone())) {
            Some(&module) => module,
            None => {
                let binary = kernels::binary(source, defined, self.facts().architecture)?;
                let module = driver.load(&binary).map_err(problem)?;
                modules.insert((key.0, key.1.clone()), module);
                module
            }
        };
        let function = driver.function(module, name).map_err(problem)?;
        functions.insert(key, function);
        Ok(function)
    }

    /// A dense product by cuBLAS.
    pub(crate) fn multiply(&self, product: &Product) -> Result<()> {
        if product.rows * product.columns == 0 {
            return Ok(());
        }
        if [product.rows, product.inner, product.columns].into_iter().any(|size| size > i32::MAX as usize) {
            return Err(problem("a product has more than 2^31 rows or columns".into()));
        }
        self.0.launches.fetch_add(1, Ordering::Relaxed);
        self.0.driver.multiply(product, self.0.precision).map_err(problem)
    }
}
