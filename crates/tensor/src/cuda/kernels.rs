//! Kernels: `.cu` files beside the operations, compiled when they are first needed and kept on disk.
//!
//! A kernel is compiled for the widths it is used with (`-DWIDTH=64`), so loops over columns have known ends.
//! What was compiled is kept under a name that follows from its source, what was defined, the architecture
//! and the compiler: a change of any makes another file.

use std::path::{Path, PathBuf};

use super::driver::{compile, compiler_version};
use crate::error::{Error, Result};

/// A file of kernels.
#[derive(Debug)]
pub struct Source {
    /// What it is called.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Widths that it is compiled with to see whether it does: what would be defined for them.
    pub samples: &'static [&'static [(&'static str, usize)]],
}

/// What all kernels share.
const PRELUDE: &str = include_str!("prelude.cu");

/// All files of kernels.
pub fn all() -> &'static [&'static Source] {
    crate::ops::KERNELS
}

fn options(defined: &[(&str, usize)], architecture: (i32, i32)) -> Vec<String> {
    // Hopper's own instructions have a name of their own.
    let own = if architecture == (9, 0) { "a" } else { "" };
    let mut options = vec![
        format!("--gpu-architecture=sm_{}{}{own}", architecture.0, architecture.1),
        "--std=c++17".into(),
        "--extra-device-vectorization".into(),
    ];
    options.extend(defined.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

/// Compiles a file for an architecture, without looking at what is kept: for finding out whether it compiles.
/// Needs no GPU.
pub fn compiles(source: &Source, defined: &[(&str, usize)], architecture: (i32, i32)) -> Result<usize> {
    let text = format!("{PRELUDE}\n{}", source.text);
    let compiled = compile(source.name, &text, &options(defined, architecture));
    compiled.map(|binary| binary.len()).map_err(Error::Device)
}

/// The binary of a file for what is defined: from disk, or compiled now.
pub(super) fn binary(
    source: &Source,
    defined: &[(&str, usize)],
    architecture: (i32, i32),
) -> Result<Vec<u8>> {
    let text = format!("{PRELUDE}\n{}", source.text);
    let options = options(defined, architecture);
    let (major, minor) = compiler_version().map_err(Error::Device)?;
    let key = format!("{text}\0{}\0{major}.{minor}", options.join("\0"));
    let file = folder().map(|folder| folder.join(format!("{}-{:032x}.cubin", source.name, digest(&key))));
    if let Some(binary) = file.as_deref().and_then(|file| std::fs::read(file).ok())
        && !binary.is_empty()
    {
        return Ok(binary);
    }
    let binary = compile(source.name, &text, &options).map_err(Error::Device)?;
    // Where nothing can be kept it is compiled again next time, which costs a moment and is no error.
    if let Some(file) = file {
        let _ = keep(&file, &binary);
    }
    Ok(binary)
}

/// Where compiled kernels are kept.
pub fn folder() -> Option<PathBuf> {
    Some(crate::cache::folder()?.join("kernels"))
}

/// Writes a file under another name first: a concurrent reader sees all of it or nothing.
fn keep(file: &Path, binary: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let partial = file.with_extension(format!("partial-{}", std::process::id()));
    std::fs::write(&partial, binary)?;
    std::fs::rename(&partial, file)
}

/// FNV-1a in 128 bits: names files, decides nothing.
fn digest(text: &str) -> u128 {
    let add = |hash: u128, &byte: &u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
    };
    text.as_bytes().iter().fold(0x6C62_272E_07BB_0142_62B8_2175_6295_C58D, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_fnv() {
        assert_eq!(digest(""), 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D);
        assert_eq!(digest("a"), 0xD228_CB69_6F1A_8CAF_7891_2B70_4E4A_8964);
        assert_ne!(digest("ab"), digest("ba"));
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn every_kernel_compiles_where_there_is_a_compiler() {
        if let Err(missing) = compiler_version() {
            eprintln!("skipped: {missing}");
            return;
        }
        for source in all() {
            for defined in source.samples {
                for architecture in [(8, 0), (9, 0)] {
                    compiles(source, defined, architecture).unwrap();
                }
            }
        }
    }
}
