//! The backends of this build, by device: the one place that names them.

use crate::{Error, LoadOptions};
use akunu_formats::Name;
#[cfg(feature = "metal")]
use akunu_metal::Chip;
use akunu_plan::Program;
use akunu_plan::backend::Backend;
use akunu_plan::reference::ReferenceBackend;
use std::fmt;
use std::str::FromStr;

/// The environment variable that [`Device::Auto`] looks at.
pub const DEVICE_VARIABLE: &str = "AKUNU_DEVICE";

/// Where a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// What `AKUNU_DEVICE` says, or else the processor: Metal is chosen by name, because nobody has run it on Apple's hardware
    /// yet.
    #[default]
    Auto,
    /// The processor: always there.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
    /// A GPU of Apple's.
    Metal,
    /// The reference executor: every op slowly in f32, to compare the others with.
    Reference,
}

/// Why a device cannot be used; every variant says it in one sentence.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum DeviceError {
    #[error("{0} is not a device; give auto, cpu, cuda, cuda:N, metal or reference")]
    Unknown(Name),
    #[error("the environment variable {DEVICE_VARIABLE}: {0}")]
    Variable(Box<DeviceError>),
    #[error("device {device}: {why}")]
    Unavailable { device: Device, why: &'static str },
    #[error("device {0} has no kernel levels to choose from")]
    NoLevels(Device),
    #[error("device {0} has no chips to choose from")]
    NoChips(Device),
    #[error("{name} is not a chip; give one of {known}")]
    UnknownChip { name: Name, known: String },
    #[cfg(feature = "metal")]
    #[error("device metal: {0}")]
    Metal(#[from] akunu_metal::GpuError),
    #[cfg(feature = "cpu")]
    #[error(transparent)]
    Cpu(#[from] akunu_cpu::Error),
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown(Name::new(name));
        Ok(match name {
            "auto" => Device::Auto,
            "cpu" => Device::Cpu,
            "cuda" => Device::Cuda(0),
            "metal" => Device::Metal,
            "reference" => Device::Reference,
            _ => Device::Cuda(name.strip_prefix("cuda:").and_then(|n| n.parse().ok()).ok_or_else(unknown)?),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
            Device::Metal => f.write_str("metal"),
            Device::Reference => f.write_str("reference"),
        }
    }
}

impl Device {
    /// Those that `akunu devices` speaks of.
    pub const ALL: [Device; 4] = [Device::Cpu, Device::Cuda(0), Device::Metal, Device::Reference];

    /// What `auto` means: the device that the environment names, where it names one.
    fn chosen(self) -> Result<Device, DeviceError> {
        match (self, std::env::var(DEVICE_VARIABLE)) {
            (Device::Auto, Ok(name)) if !name.is_empty() => {
                name.parse().map_err(|error| DeviceError::Variable(Box::new(error)))
            }
            _ => Ok(self),
        }
    }

    /// Why this device cannot be used; `None` where it can.
    pub fn unavailable(self) -> Option<&'static str> {
        match self {
            Device::Auto | Device::Cpu if cfg!(feature = "cpu") => None,
            Device::Auto => Some("this build has no backend for this machine; `reference` runs everywhere, slowly"),
            Device::Cpu => Some("it is not built in; build with the cargo feature `cpu`"),
            Device::Cuda(_) => Some("this build has no CUDA backend"),
            Device::Metal if cfg!(not(target_vendor = "apple")) => Some("Metal is there on Apple's systems only"),
            Device::Metal if cfg!(feature = "metal") => None,
            Device::Metal => Some("it is not built in; build with the cargo feature `metal`"),
            Device::Reference => None,
        }
    }

    /// The kernel levels that this machine can run on this device, the lowest first; one that has none has nothing to
    /// choose from.
    pub fn levels(self) -> Vec<&'static str> {
        match self.chosen().unwrap_or(self) {
            #[cfg(feature = "cpu")]
            Device::Auto | Device::Cpu => akunu_cpu::Level::available().map(akunu_cpu::Level::name).collect(),
            _ => Vec::new(),
        }
    }

    /// The backend, with nothing loaded on it.
    #[doc(hidden)]
    pub fn open(self, options: &LoadOptions) -> Result<Box<dyn Backend>, Error> {
        if let Some(own) = &options.backend {
            return Ok((own.0)());
        }
        let device = self.chosen()?;
        if let Some(why) = device.unavailable() {
            return Err(DeviceError::Unavailable { device, why }.into());
        }
        match device {
            #[cfg(feature = "cpu")]
            Device::Auto | Device::Cpu => {
                let level = options.level.as_deref().map(akunu_cpu::Level::parse).transpose();
                let level = level.map_err(akunu_cpu::Error::from).map_err(DeviceError::from)?;
                let options = akunu_cpu::Options { threads: options.threads, level, in_place: options.mapped };
                Ok(Box::new(akunu_cpu::Cpu::new(options).map_err(DeviceError::from)?))
            }
            _ if options.level.is_some() => Err(DeviceError::NoLevels(device).into()),
            #[cfg(feature = "metal")]
            Device::Metal => Ok(Box::new(akunu_metal::Metal::new(akunu_metal::open().map_err(DeviceError::from)?))),
            _ => Ok(Box::new(ReferenceBackend)),
        }
    }

    /// The backend to bind programs with, and look at them: as [`Device::open`] gives it, or for a chip that need not be there.
    #[doc(hidden)]
    pub fn open_to_bind(self, chip: Option<&str>, options: &LoadOptions) -> Result<Box<dyn Backend>, Error> {
        let device = self.chosen()?;
        #[cfg(feature = "metal")]
        if device == Device::Metal && (chip.is_some() || device.unavailable().is_some()) {
            let name = chip.unwrap_or(SHOWN_CHIP);
            let unknown = || DeviceError::UnknownChip { name: Name::new(name), known: Chip::names().join(", ") };
            return Ok(Box::new(akunu_metal::Metal::without_gpu(Chip::named(name).ok_or_else(unknown)?)));
        }
        match chip {
            Some(_) => Err(DeviceError::NoChips(device).into()),
            None => device.open(options),
        }
    }

    /// What a step of a program with one row would take on every chip that this device knows, by a model of bytes and waits.
    /// Empty where the device knows none.
    #[doc(hidden)]
    #[cfg_attr(not(feature = "metal"), allow(unused_variables))]
    pub fn estimates(self, program: &Program, bytes: u64) -> Vec<Estimate> {
        match self.chosen().unwrap_or(self) {
            #[cfg(feature = "metal")]
            Device::Metal => {
                akunu_metal::chip::CHIPS.iter().filter_map(|chip| estimate(chip, program, bytes)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What is shown where there is none and none was named.
#[cfg(feature = "metal")]
const SHOWN_CHIP: &str = "M4 Pro";

/// How fast a chip would be, estimated without it.
#[doc(hidden)]
pub struct Estimate {
    pub chip: String,
    /// In bytes a second, by its vendor.
    pub bandwidth: f64,
    pub dispatches: usize,
    /// Dispatches that wait for those before them.
    pub waits: usize,
    pub seconds: f64,
}

impl Estimate {
    /// What goes into it, in words.
    pub const MODEL: &str = {
        #[cfg(feature = "metal")]
        {
            akunu_metal::chip::MODEL
        }
        #[cfg(not(feature = "metal"))]
        ""
    };
}

/// `None` where the chip has no kernel for an op.
#[cfg(feature = "metal")]
fn estimate(chip: &Chip, program: &Program, bytes: u64) -> Option<Estimate> {
    let backend = akunu_metal::Metal::without_gpu(chip.clone());
    let bound = backend.bind(program).ok()?;
    let counts = bound.records.iter().map(|record| backend.dispatches(record, 1));
    let (dispatches, waits) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let seconds = chip.step_seconds(bytes, waits);
    Some(Estimate { chip: chip.label(), bandwidth: chip.bandwidth * 1e9, dispatches, waits, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_they_are_written() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(3), Device::Metal, Device::Reference] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        for name in ["", "CPU", "cuda:", "cuda:-1", "cuda:1x", "gpu", "cuda:99999999999999999999"] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("not a device"), "{error}");
        }
    }

    #[test]
    fn what_is_not_there_is_one_sentence() {
        let absent = |device: &Device| device.unavailable().is_some();
        for device in [Device::Cuda(0), Device::Metal].into_iter().filter(absent) {
            let error = device.open(&LoadOptions::default()).err().map(|e| e.to_string()).unwrap();
            assert!(error.starts_with(&format!("device {device}: ")), "{error}");
        }
        let options = LoadOptions { level: Some("avx9".into()), ..LoadOptions::default() };
        let error = Device::Reference.open(&options).err().map(|e| e.to_string()).unwrap();
        assert!(error.contains("reference"), "{error}");
    }

    #[test]
    #[cfg(feature = "metal")]
    fn programs_are_bound_for_chips_that_are_not_there() {
        let options = LoadOptions::default();
        let open = |device: Device, chip| device.open_to_bind(chip, &options);
        assert_eq!(open(Device::Metal, Some("m1 max")).unwrap().info().device, "M1 Max");
        if Device::Metal.unavailable().is_some() {
            assert_eq!(open(Device::Metal, None).unwrap().info().device, SHOWN_CHIP);
        }
        let error = open(Device::Metal, Some("M0")).err().unwrap().to_string();
        assert!(error.contains("M0") && error.contains("M4 Pro"), "{error}");
        let error = open(Device::Reference, Some("M4")).err().unwrap().to_string();
        assert!(error.contains("reference"), "{error}");
    }
}
