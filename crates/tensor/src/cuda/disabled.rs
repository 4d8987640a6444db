//! The door, closed: this program was built without the feature `cuda`. No value of [`Driver`] exists.

use super::device::{Argument, Facts, Precision, Product};

/// No driver.
pub(super) enum Driver {}

/// No module of kernels.
#[derive(Clone, Copy)]
pub(super) enum Module {}

/// No kernel.
#[derive(Clone, Copy)]
pub(super) enum Function {}

/// No moment on the stream.
pub(super) enum Event {}

pub(super) fn libraries() -> Vec<(&'static str, bool)> {
    Vec::new()
}

pub(super) fn count() -> usize {
    0
}

/// Compiles nothing.
pub(super) fn compile(_: &str, _: &str, _: &[String]) -> Result<Vec<u8>, String> {
    Err(CLOSED.into())
}

/// The version of a compiler that there is not.
pub(super) fn compiler_version() -> Result<(i32, i32), String> {
    Err(CLOSED.into())
}

const CLOSED: &str = "this program was built without CUDA; build it with --features cuda";

impl Driver {
    pub(super) fn open(_: usize) -> Result<Driver, String> {
        Err(CLOSED.into())
    }

    pub(super) fn facts(&self) -> &Facts {
        match *self {}
    }

    pub(super) fn free_bytes(&self) -> Result<usize, String> {
        match *self {}
    }

    pub(super) fn allocate(&self, _: usize) -> Result<Option<u64>, String> {
        match *self {}
    }

    pub(super) fn release(&self, _: u64) {
        match *self {}
    }

    pub(super) fn upload(&self, _: u64, _: &[u8]) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn download(&self, _: u64, _: &mut [u8]) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn copy(&self, _: u64, _: u64, _: usize) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn clear(&self, _: u64, _: usize) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn load(&self, _: &[u8]) -> Result<Module, String> {
        match *self {}
    }

    pub(super) fn function(&self, _: Module, _: &str) -> Result<Function, String> {
        match *self {}
    }

    pub(super) fn launch(&self, _: Function, _: [u32; 3], _: [u32; 2], _: &[Argument]) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn multiply(&self, _: &Product, _: Precision) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn wait(&self) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn mark(&self) -> Result<Event, String> {
        match *self {}
    }

    pub(super) fn milliseconds(&self, _: &Event, _: &Event) -> Result<f32, String> {
        match *self {}
    }
}
