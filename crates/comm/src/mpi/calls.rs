//! The calls of MPI that move messages, each in a function that says what may go wrong. None of them waits.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use mpi_sys as ffi;

use crate::error::{Error, Result};

/// What a function of MPI returned.
pub fn check(what: &str, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0 as c_char; 1024];
    let mut length = 0;
    // SAFETY: the text is as long as any message of MPI.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr(), &mut length) };
    let text: Vec<u8> = text.iter().take(length.max(0) as usize).map(|&byte| byte as u8).collect();
    Err(Error::usage(format!("{what}: {}", String::from_utf8_lossy(&text))))
}

/// Begins to send.
///
/// # Safety
///
/// The numbers stay where they are, and are not touched, until the request is done.
pub unsafe fn send(comm: ffi::MPI_Comm, to: usize, tag: c_int, words: &[f32]) -> Result<ffi::MPI_Request> {
    let count = c_int::try_from(words.len()).map_err(|_| {
        Error::usage(format!("a message of {} numbers is more than MPI carries at once", words.len()))
    })?;
    let (place, mut request) = (words.as_ptr().cast::<c_void>(), MaybeUninit::uninit());
    // SAFETY: as many numbers as are said, kept by the caller; the request is written where it was begun.
    unsafe {
        let to = to as c_int;
        let code = ffi::MPI_Isend(place, count, ffi::RSMPI_FLOAT, to, tag, comm, request.as_mut_ptr());
        check("MPI_Isend", code)?;
        Ok(request.assume_init())
    }
}

/// A message that was announced, and is to be received.
pub struct Announced {
    /// Who sends it.
    pub from: usize,
    /// With which tag.
    pub tag: usize,
    /// Numbers in it.
    pub count: usize,
    message: ffi::MPI_Message,
}

/// The next message, if one was announced.
pub fn next(comm: ffi::MPI_Comm) -> Result<Option<Announced>> {
    let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
    let (mut found, mut message, mut count) = (0, MaybeUninit::uninit(), 0);
    // SAFETY: places to write to; status and message are written where one was found.
    unsafe {
        let (source, tag) = (ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG);
        let (to, facts) = (message.as_mut_ptr(), status.as_mut_ptr());
        check("MPI_Improbe", ffi::MPI_Improbe(source, tag, comm, &mut found, to, facts))?;
        if found == 0 {
            return Ok(None);
        }
        let status = status.assume_init();
        check("MPI_Get_count", ffi::MPI_Get_count(&status, ffi::RSMPI_FLOAT, &mut count))?;
        Ok(Some(Announced {
            from: status.MPI_SOURCE as usize,
            tag: status.MPI_TAG as usize,
            count: count.max(0) as usize,
            message: message.assume_init(),
        }))
    }
}

/// Begins to receive what was announced.
///
/// # Safety
///
/// The numbers stay where they are, and are not touched, until the request is done.
pub unsafe fn receive(announced: Announced, words: &mut [f32]) -> Result<ffi::MPI_Request> {
    let Announced { count, mut message, from, .. } = announced;
    if words.len() != count {
        let problem = format!("sent {count} numbers where {} were expected", words.len());
        return Err(Error::peer(from, problem));
    }
    let mut request = MaybeUninit::uninit();
    // SAFETY: as many numbers as were announced, kept by the caller; the request is written where it was
    // begun.
    unsafe {
        let (place, count) = (words.as_mut_ptr().cast::<c_void>(), count as c_int);
        let code = ffi::MPI_Imrecv(place, count, ffi::RSMPI_FLOAT, &mut message, request.as_mut_ptr());
        check("MPI_Imrecv", code)?;
        Ok(request.assume_init())
    }
}

/// Whether a request is done.
pub fn is_done(request: &mut ffi::MPI_Request) -> Result<bool> {
    let mut done = 0;
    // SAFETY: a request that was begun, and is not asked for again once it is done.
    let code = unsafe { ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
    check("MPI_Test", code)?;
    Ok(done != 0)
}

/// Takes those away that are done, in the order in which they were begun; whether none is left.
pub fn are_done(requests: &mut VecDeque<ffi::MPI_Request>) -> Result<bool> {
    while let Some(first) = requests.front_mut() {
        if !is_done(first)? {
            return Ok(false);
        }
        requests.pop_front();
    }
    Ok(true)
}
