//! Where the work of a run is done: on the host, or on a GPU.

use kymo_tensor::cuda::{Device, Options, Precision};

use super::Settings;
use super::bytes::size;
use crate::error::{Error, Result};

/// The number of the GPU that the settings name, if they name one.
fn number(settings: &Settings) -> Result<Option<usize>> {
    let device = settings.run.device.as_str();
    let wrong = || Error::settings("run.device", format!("found '{device}', expected cpu, cuda or cuda:N"));
    match device.split_once(':') {
        None if device == "cpu" => Ok(None),
        None if device == "cuda" => Ok(Some(0)),
        Some(("cuda", number)) => Ok(Some(number.parse().map_err(|_| wrong())?)),
        _ => Err(wrong()),
    }
}

fn precision(settings: &Settings) -> Result<Precision> {
    let name = settings.run.precision.as_str();
    Precision::named(name).ok_or_else(|| {
        let names = Precision::ALL.map(|(name, _)| name).join(", ");
        Error::settings("run.precision", format!("found '{name}', expected one of {names}"))
    })
}

/// Fails where what is said of the device makes no sense, or does not go with the rest.
pub fn check(settings: &Settings) -> Result<()> {
    let (number, precision) = (number(settings)?, precision(settings)?);
    if number.is_none() && precision != Precision::Single {
        let problem =
            "products on the CPU are computed in f32; choose a GPU with run.device, or leave it out";
        return Err(Error::settings("run.precision", problem));
    }
    if number.is_some() && settings.parallel.workers > 1 {
        let problem = "several workers run on the CPU; choose one worker, or run.device cpu";
        return Err(Error::settings("run.device", problem));
    }
    Ok(())
}

/// Opens the device that the settings name; `None` for the host.
pub fn open(settings: &Settings) -> Result<Option<Device>> {
    let Some(number) = number(settings)? else { return Ok(None) };
    let budget = match settings.run.device_memory.as_str() {
        "auto" => None,
        typed => Some(size("run.device_memory", typed)?),
    };
    let options = Options { number, precision: precision(settings)?, budget };
    Ok(Some(Device::open(options)?))
}
