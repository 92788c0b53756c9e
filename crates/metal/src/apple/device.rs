//! The device: which GPU, of what family, with how many cores and how much memory.

use crate::gpu::GpuError;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice, MTLGPUFamily};

// `MTLCreateSystemDefaultDevice` finds nothing on macOS where this is not linked.
#[cfg_attr(target_vendor = "apple", link(name = "CoreGraphics", kind = "framework"))]
unsafe extern "C" {}

/// Families are numbered from here: Apple7 is 1007.
const FAMILIES: isize = 1000;

/// The first family whose SIMD groups add and compare across lanes, which all kernels do.
const OLDEST: u32 = 7;

/// The newest family that there is a number for.
const NEWEST: u32 = 10;

pub(super) struct Device {
    pub metal: Retained<ProtocolObject<dyn MTLDevice>>,
    /// Apple's number of the GPU's generation.
    pub family: u32,
}

impl Device {
    pub fn open() -> Result<Self, GpuError> {
        // Without a window server there is no default device, and still there are devices.
        let metal = MTLCreateSystemDefaultDevice().or_else(|| MTLCopyAllDevices().firstObject());
        let metal = metal.ok_or_else(|| GpuError("this system gives no GPU to Metal".into()))?;
        let has = |family: &u32| metal.supportsFamily(MTLGPUFamily(FAMILIES + *family as isize));
        let family = (1..=NEWEST).rev().find(has).unwrap_or(0);
        if family < OLDEST {
            let name = metal.name();
            return Err(GpuError(format!(
                "{name} is older than the GPU of an M1 (family Apple{OLDEST}), or a virtual one"
            )));
        }
        Ok(Self { metal, family })
    }

    pub fn name(&self) -> String {
        self.metal.name().to_string()
    }

    /// What the system wants to give to one process, without what it has.
    pub fn free_memory(&self) -> u64 {
        self.metal.recommendedMaxWorkingSetSize().saturating_sub(self.metal.currentAllocatedSize() as u64)
    }
}

/// The system's version in words.
pub(super) fn system() -> String {
    NSProcessInfo::processInfo().operatingSystemVersionString().to_string()
}

/// Cores of the GPU, as the system's registry of devices has them.
#[cfg(any(target_os = "macos", metal_check))]
pub(super) fn cores() -> Option<u32> {
    use objc2_foundation::{NSNumber, NSObject, NSString};
    use std::ffi::{c_char, c_void};

    #[cfg_attr(target_vendor = "apple", link(name = "IOKit", kind = "framework"))]
    unsafe extern "C" {
        fn IOServiceMatching(name: *const c_char) -> *mut c_void;
        fn IOServiceGetMatchingService(port: u32, matching: *mut c_void) -> u32;
        fn IORegistryEntryCreateCFProperty(
            entry: u32,
            key: *const NSString,
            allocator: *const c_void,
            options: u32,
        ) -> *mut NSObject;
        fn IOObjectRelease(object: u32) -> i32;
    }

    let key = NSString::from_str("gpu-core-count");
    // SAFETY: the name ends with a zero. A dictionary that is not null is consumed by the second call; port 0 is the default one,
    // and 0 as an allocator too. An `NSString` is what is called a `CFString` there. The property is ours, as `Create` says, and an
    // object of a class that `NSObject` is the base of; the entry is released once.
    let property = unsafe {
        let matching = IOServiceMatching(c"AGXAccelerator".as_ptr());
        if matching.is_null() {
            return None;
        }
        let entry = IOServiceGetMatchingService(0, matching);
        if entry == 0 {
            return None;
        }
        let property = IORegistryEntryCreateCFProperty(entry, &*key, std::ptr::null(), 0);
        IOObjectRelease(entry);
        Retained::from_raw(property)
    };
    Some(property?.downcast::<NSNumber>().ok()?.as_u32())
}

/// Other systems do not say.
#[cfg(not(any(target_os = "macos", metal_check)))]
pub(super) fn cores() -> Option<u32> {
    None
}
