//! The door, open: the CUDA driver, its run-time compiler and cuBLAS, found when they are first needed.
//!
//! The only file that calls them. Every call makes the context current first, because any thread may come
//! along.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::{Condvar, Mutex, PoisonError};

use cudarc::cublas::{result as blas, sys as blas_sys};
use cudarc::driver::{result, sys};
use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};

use super::device::{Argument, Facts, Precision, Product};

/// A GPU with its stream and its handle to cuBLAS.
pub(super) struct Driver {
    context: sys::CUcontext,
    device: sys::CUdevice,
    stream: sys::CUstream,
    blas: Mutex<blas_sys::cublasHandle_t>,
    facts: Facts,
    staging: Staging,
    /// Whether memory can be taken in the order of the stream, without waiting for what is under way.
    pooled: bool,
}

// SAFETY: handles of the driver may be used from any thread once the context is current there, which every
// call sees to; cuBLAS asks for one call at a time on a handle, which its lock sees to.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// Memory of the host that the GPU can read by itself: copies from it do not wait for the stream. Threads
/// fill slots of it side by side.
struct Staging {
    at: *mut u8,
    /// Those that nobody is filling, the one that was used first in front.
    free: Mutex<VecDeque<Slot>>,
    freed: Condvar,
}

/// A part of the memory for staging.
struct Slot {
    at: *mut u8,
    /// Recorded when it was last used.
    used: sys::CUevent,
}

impl Staging {
    fn take(&self) -> Slot {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop_front() {
                Some(slot) => return slot,
                None => free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn give(&self, slot: Slot) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(slot);
        self.freed.notify_one();
    }
}

const SLOT: usize = 1 << 20;
const SLOTS: usize = 64;

/// A loaded module.
#[derive(Clone, Copy)]
pub(super) struct Module(sys::CUmodule);

/// A kernel, with the bytes of each of its parameters where the driver tells.
#[derive(Clone, Copy)]
pub(super) struct Function(sys::CUfunction, [u8; MOST_PARAMETERS]);

const MOST_PARAMETERS: usize = 24;

/// The first version of the driver that tells what parameters a kernel has.
const TELLS_PARAMETERS: i32 = 12040;

// SAFETY: both are handles that live as long as the context.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Send for Function {}

/// A moment on the stream.
pub(super) struct Event(sys::CUevent);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was created by `mark` and is destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

fn driver_problem(error: result::DriverError) -> String {
    let text = error.error_string().map_or("unknown", |text| text.to_str().unwrap_or("unknown"));
    format!("the CUDA driver says: {text}")
}

/// Whether a library can be loaded. The crate below looks for these names and panics if there is none, so
/// they are looked for first.
fn is_there(name: &str) -> bool {
    let also = [format!("lib{name}.so.2")];
    // SAFETY: loading a library of NVIDIA runs nothing but its own initialisation.
    let can_be_loaded = |name: &String| unsafe { libloading::Library::new(name) }.is_ok();
    cudarc::get_lib_name_candidates(name).iter().chain(&also).any(can_be_loaded)
}

pub(super) fn libraries() -> Vec<(&'static str, bool)> {
    ["cuda", "nvrtc", "cublas", "nccl"].map(|name| (name, is_there(name))).to_vec()
}

pub(super) fn count() -> usize {
    if !is_there("cuda") || result::init().is_err() {
        return 0;
    }
    result::device::get_count().map_or(0, |count| usize::try_from(count).unwrap_or(0))
}

fn expect_library(name: &str, what: &str, advice: &str) -> Result<(), String> {
    match is_there(name) {
        true => Ok(()),
        false => Err(format!("{what} (lib{name}.so) was not found; {advice}")),
    }
}

const TOOLKIT: &str = "install the CUDA toolkit, or the package nvidia-cuda-nvrtc or nvidia-cublas from \
                       PyPI, and set LD_LIBRARY_PATH to its folder";

/// Compiles a kernel's source to a binary for one architecture.
pub(super) fn compile(name: &str, source: &str, options: &[String]) -> Result<Vec<u8>, String> {
    expect_library("nvrtc", "the run-time compiler of CUDA", TOOLKIT)?;
    let text = CString::new(source).map_err(|_| format!("{name} has a zero byte"))?;
    let label = CString::new(name).map_err(|_| "a name has a zero byte".to_string())?;
    let problem = |error: nvrtc::NvrtcError| format!("{name}: the run-time compiler says {error:?}");
    // SAFETY: the program is used between its creation and its end, and buffers have the sizes that it asks
    // for.
    unsafe {
        let program = nvrtc::create_program(&text, Some(&label)).map_err(problem)?;
        let compiled = nvrtc::compile_program(program, options).map_err(|_| {
            let log = nvrtc::get_program_log(program).unwrap_or_default();
            let log = CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned();
            format!("{name} does not compile:\n{log}")
        });
        let binary = compiled.and_then(|()| {
            let mut size = 0;
            nvrtc_sys::nvrtcGetCUBINSize(program, &mut size).result().map_err(problem)?;
            let mut binary = vec![0u8; size];
            nvrtc_sys::nvrtcGetCUBIN(program, binary.as_mut_ptr().cast()).result().map_err(problem)?;
            Ok(binary)
        });
        let _ = nvrtc::destroy_program(program);
        binary
    }
}

/// The version of the run-time compiler.
pub(super) fn compiler_version() -> Result<(i32, i32), String> {
    expect_library("nvrtc", "the run-time compiler of CUDA", TOOLKIT)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: it writes two numbers.
    let done = unsafe { nvrtc_sys::nvrtcVersion(&mut major, &mut minor) }.result();
    done.map(|()| (major, minor)).map_err(|error| format!("the run-time compiler says {error:?}"))
}

impl Driver {
    /// Opens a GPU by its number; everything that is missing is named.
    pub(super) fn open(number: usize) -> Result<Driver, String> {
        let advice = "install NVIDIA's driver, and see that nvidia-smi works";
        expect_library("cuda", "the CUDA driver", advice)?;
        expect_library("nvrtc", "the run-time compiler of CUDA", TOOLKIT)?;
        expect_library("cublas", "cuBLAS", TOOLKIT)?;
        result::init().map_err(driver_problem)?;
        let count = count();
        if number >= count {
            return Err(format!("GPU {number} was asked for, there are {count}"));
        }
        // SAFETY: handles are used as they are made, and the context is never destroyed.
        let opened = unsafe {
            (|| {
                let device = result::device::get(number as c_int)?;
                let context = result::primary_ctx::retain(device)?;
                result::ctx::set_current(context)?;
                let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
                use sys::CUdevice_attribute as Attribute;
                let fact = |attribute| result::device::get_attribute(device, attribute);
                let facts = Facts {
                    name: result::device::get_name(device)?,
                    bytes: result::device::total_mem(device)?,
                    architecture: (
                        fact(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                        fact(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
                    ),
                    processors: fact(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
                    shared_bytes: fact(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                        as usize,
                };
                let pooled = fact(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
                // To spin would take a core from those who read.
                let event = || result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC);
                let at: *mut u8 = result::malloc_host(SLOTS * SLOT, 0)?.cast();
                let slot = |number: usize| Ok(Slot { at: at.add(number * SLOT), used: event()? });
                let free = (0..SLOTS).map(slot).collect::<Result<_, result::DriverError>>()?;
                let staging = Staging { at, free: Mutex::new(free), freed: Condvar::new() };
                Ok((context, device, stream, facts, staging, pooled))
            })()
        };
        let (context, device, stream, facts, staging, pooled) = opened.map_err(driver_problem)?;
        let problem = |error| format!("cuBLAS says {error:?}");
        let blas = blas::create_handle().map_err(problem)?;
        // SAFETY: both handles are new.
        unsafe { blas::set_stream(blas, stream.cast()) }.map_err(problem)?;
        Ok(Driver { context, device, stream, blas: Mutex::new(blas), facts, staging, pooled })
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    fn enter(&self) -> Result<(), String> {
        // SAFETY: the context lives as long as the driver.
        unsafe { result::ctx::set_current(self.context) }.map_err(driver_problem)
    }

    pub(super) fn free_bytes(&self) -> Result<usize, String> {
        self.enter()?;
        result::mem_get_info().map(|(free, _)| free).map_err(driver_problem)
    }

    /// Memory of the GPU; `None` where there is not enough.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Option<u64>, String> {
        self.enter()?;
        // SAFETY: the caller writes before reading, and all its work is on this stream.
        let taken = unsafe {
            match self.pooled {
                true => result::malloc_async(self.stream, bytes),
                false => result::malloc_sync(bytes),
            }
        };
        match taken {
            Ok(at) => Ok(Some(at)),
            Err(result::DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(error) => Err(driver_problem(error)),
        }
    }

    pub(super) fn release(&self, at: u64) {
        // SAFETY: it was allocated here and is released once, after the work that still uses it.
        let _ = self.enter().map(|()| unsafe {
            match self.pooled {
                true => result::free_async(at, self.stream),
                false => result::free_sync(at),
            }
        });
    }

    /// Copies to the GPU; the bytes may change as soon as this returns.
    pub(super) fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), String> {
        self.enter()?;
        for (number, piece) in bytes.chunks(SLOT).enumerate() {
            let slot = self.staging.take();
            // SAFETY: the piece fits into the slot, which is this thread's and whose last use has ended.
            let copied = unsafe {
                (|| {
                    result::event::synchronize(slot.used)?;
                    std::ptr::copy_nonoverlapping(piece.as_ptr(), slot.at, piece.len());
                    let staged = std::slice::from_raw_parts(slot.at, piece.len());
                    result::memcpy_htod_async(to + (number * SLOT) as u64, staged, self.stream)?;
                    result::event::record(slot.used, self.stream)
                })()
            };
            self.staging.give(slot);
            copied.map_err(driver_problem)?;
        }
        Ok(())
    }

    /// Copies from the GPU, when all work before it has been done.
    pub(super) fn download(&self, from: u64, into: &mut [u8]) -> Result<(), String> {
        self.enter()?;
        // SAFETY: the bytes are there until the stream has been waited for.
        let done = unsafe {
            result::memcpy_dtoh_async(into, from, self.stream)
                .and_then(|()| result::stream::synchronize(self.stream))
        };
        done.map_err(driver_problem)
    }

    pub(super) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), String> {
        self.enter()?;
        // SAFETY: both ends are memory of the GPU of that length.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) }.map_err(driver_problem)
    }

    pub(super) fn clear(&self, at: u64, bytes: usize) -> Result<(), String> {
        self.enter()?;
        // SAFETY: it is memory of the GPU of that length.
        unsafe { result::memset_d8_async(at, 0, bytes, self.stream) }.map_err(driver_problem)
    }

    pub(super) fn load(&self, binary: &[u8]) -> Result<Module, String> {
        self.enter()?;
        // SAFETY: the binary came from the compiler, and is read while it is loaded.
        unsafe { result::module::load_data(binary.as_ptr().cast()) }.map(Module).map_err(driver_problem)
    }

    /// A kernel of a module, allowed to use all the shared memory that there is.
    pub(super) fn function(&self, module: Module, name: &str) -> Result<Function, String> {
        self.enter()?;
        let text = CString::new(name).map_err(|_| "a kernel's name has a zero byte".to_string())?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(module.0, text) };
        let function = function.map_err(|error| format!("kernel {name}: {}", driver_problem(error)))?;
        use sys::CUfunction_attribute_enum as Attribute;
        // SAFETY: the function was just found.
        unsafe {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            let fixed = result::function::get_function_attribute(function, attribute).unwrap_or(0);
            let most = self.facts.shared_bytes as i32 - fixed;
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            result::function::set_function_attribute(function, attribute, most).map_err(driver_problem)?;
        }
        let mut bytes = [0; MOST_PARAMETERS];
        let mut version = 0;
        // SAFETY: it writes a number, and two for each parameter that there is.
        unsafe {
            let _ = sys::cuDriverGetVersion(&mut version);
            for (number, bytes) in bytes.iter_mut().enumerate().filter(|_| version >= TELLS_PARAMETERS) {
                let (mut offset, mut size) = (0, 0);
                if sys::cuFuncGetParamInfo(function, number, &mut offset, &mut size).result().is_err() {
                    break;
                }
                *bytes = size as u8;
            }
        }
        Ok(Function(function, bytes))
    }

    /// Launches a kernel on a grid; `block` is its threads and the bytes of shared memory it gets.
    pub(super) fn launch(
        &self,
        function: Function,
        grid: [u32; 3],
        block: [u32; 2],
        arguments: &[Argument],
    ) -> Result<(), String> {
        self.enter()?;
        // A kernel that is given too little reads what lies behind it: better to be told.
        let given = arguments.iter().map(|argument| match argument {
            Argument::Address(_) | Argument::Long(_) => 8,
            Argument::Integer(_) | Argument::Real(_) => 4,
        });
        let expected = function.1.iter().copied().take_while(|&bytes| bytes > 0);
        if function.1[0] > 0 && !given.clone().eq(expected.clone()) {
            let [given, expected] = [given.collect::<Vec<u8>>(), expected.collect()];
            return Err(format!("arguments of {given:?} bytes were given for parameters of {expected:?}"));
        }
        let mut places: Vec<*mut c_void> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Address(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Argument::Integer(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Argument::Long(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Argument::Real(value) => std::ptr::from_ref(value).cast_mut().cast(),
            })
            .collect();
        let grid = (grid[0], grid[1], grid[2]);
        // SAFETY: arguments are those of the kernel, as the operation that it belongs to gives them; memory
        // outlives the launch because it is used again on this stream alone.
        let launched = unsafe {
            result::launch_kernel(function.0, grid, (block[0], 1, 1), block[1], self.stream, &mut places)
        };
        launched.map_err(driver_problem)
    }

    /// `output = left right + keep * output` for matrices row after row: cuBLAS is asked for the transposed
    /// product.
    pub(super) fn multiply(&self, product: &Product, precision: Precision) -> Result<(), String> {
        self.enter()?;
        use blas_sys::cublasComputeType_t as Compute;
        let compute = match precision {
            Precision::Single => Compute::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => Compute::CUBLAS_COMPUTE_32F_FAST_16BF,
        };
        let side = |transposed: bool| match transposed {
            true => blas_sys::cublasOperation_t::CUBLAS_OP_T,
            false => blas_sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let (one, keep) = (1.0f32, product.keep);
        let real = blas_sys::cudaDataType_t::CUDA_R_32F;
        let (left, right) = (&product.left, &product.right);
        let blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the operation gives places and strides within its memory.
        let done = unsafe {
            blas::gemm_ex(
                *blas,
                side(right.transposed),
                side(left.transposed),
                product.columns as c_int,
                product.rows as c_int,
                product.inner as c_int,
                std::ptr::from_ref(&one).cast(),
                right.at as *const c_void,
                real,
                right.stride as c_int,
                left.at as *const c_void,
                real,
                left.stride as c_int,
                std::ptr::from_ref(&keep).cast(),
                product.output as *mut c_void,
                real,
                product.stride as c_int,
                compute,
                blas_sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        drop(blas);
        done.map_err(|error| format!("cuBLAS says {error:?}"))
    }

    pub(super) fn wait(&self) -> Result<(), String> {
        self.enter()?;
        // SAFETY: the stream lives as long as the driver.
        unsafe { result::stream::synchronize(self.stream) }.map_err(driver_problem)
    }

    /// A moment on the stream, to be compared with another.
    pub(super) fn mark(&self) -> Result<Event, String> {
        self.enter()?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(driver_problem)?;
        // SAFETY: both were just made or live on.
        unsafe { result::event::record(event, self.stream) }.map_err(driver_problem)?;
        Ok(Event(event))
    }

    /// Milliseconds between two moments.
    pub(super) fn milliseconds(&self, from: &Event, to: &Event) -> Result<f32, String> {
        self.enter()?;
        // SAFETY: both were recorded.
        let time =
            unsafe { result::event::synchronize(to.0).and_then(|()| result::event::elapsed(from.0, to.0)) };
        time.map_err(driver_problem)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: everything was made in `open` and is given up once, after the last work.
        unsafe {
            let _ = result::ctx::set_current(self.context);
            let _ = result::stream::synchronize(self.stream);
            let _ = blas::destroy_handle(*self.blas.get_mut().unwrap_or_else(PoisonError::into_inner));
            for slot in self.staging.free.get_mut().unwrap_or_else(PoisonError::into_inner) {
                let _ = result::event::destroy(slot.used);
            }
            let _ = result::free_host(self.staging.at.cast());
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
