//! Pipelines: shaders that are compiled, for the values of their function constants, and kept between runs.

use super::device::{self, Device};
use crate::archive;
use crate::entry::{self, Entry, Kind};
use crate::gpu::{Function, GpuError, PipelineId};
use objc2::rc::Retained;
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::{NSArray, NSString, NSURL};
use objc2_metal::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::{fs, io};

/// A kernel that is ready.
pub(super) struct State {
    pub metal: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
    /// Most threads of a threadgroup.
    pub threads: usize,
    /// Bytes of threadgroup memory that the kernel declares itself.
    pub shared: usize,
}

/// A compiled source, and the function constants that it declares.
struct Library {
    metal: Retained<ProtocolObject<dyn MTLLibrary>>,
    constants: Vec<(u32, Kind)>,
}

pub(super) struct Pipelines {
    libraries: HashMap<Entry, Library>,
    /// By function and most threads.
    known: HashMap<(Function, usize), PipelineId>,
    states: Vec<State>,
    /// Pipelines of earlier runs and of this one.
    archive: Option<Retained<ProtocolObject<dyn MTLBinaryArchive>>>,
    path: Option<PathBuf>,
    /// Whether the archive has what its file has not.
    added: bool,
}

impl Pipelines {
    pub fn new(device: &Device) -> Self {
        let path = archive::folder().map(|folder| archive::path(&folder, &device.name(), &device::system()));
        let open = |path: Option<&PathBuf>| {
            let descriptor = MTLBinaryArchiveDescriptor::new();
            descriptor.setUrl(path.and_then(|path| NSURL::from_file_path(path)).as_deref());
            device.metal.newBinaryArchiveWithDescriptor_error(&descriptor).ok()
        };
        // One that is damaged, or not ours, is written anew.
        let kept = path.as_ref().filter(|path| path.is_file()).and_then(|path| open(Some(path)));
        let archive = kept.or_else(|| path.as_ref().and_then(|_| open(None)));
        Self { libraries: HashMap::new(), known: HashMap::new(), states: Vec::new(), archive, path, added: false }
    }

    pub fn state(&self, pipeline: PipelineId) -> &State {
        &self.states[pipeline.0]
    }

    pub fn get(&mut self, device: &Device, function: &Function, threads: usize) -> Result<PipelineId, GpuError> {
        let key = (function.clone(), threads);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let fail = |why: String| GpuError(format!("{}: {why}", function.name));
        let compiled = self.function(device, function).map_err(fail)?;
        let metal = self.compile(device, &compiled, threads).map_err(fail)?;
        let (threads, shared) = (metal.maxTotalThreadsPerThreadgroup(), metal.staticThreadgroupMemoryLength());
        let id = PipelineId(self.states.len());
        self.states.push(State { metal, threads, shared });
        self.known.insert(key, id);
        Ok(id)
    }

    /// A function with its constants.
    fn function(
        &mut self,
        device: &Device,
        function: &Function,
    ) -> Result<Retained<ProtocolObject<dyn MTLFunction>>, String> {
        let entry = entry::find(&function.name).ok_or("the shaders have no such kernel")?;
        if !self.libraries.contains_key(&entry) {
            self.libraries.insert(entry, library(device, &entry)?);
        }
        let library = &self.libraries[&entry];
        let values = MTLFunctionConstantValues::new();
        for (number, value) in &function.constants {
            let declared = library.constants.iter().find(|(declared, _)| declared == number);
            let (_, kind) = declared.ok_or_else(|| format!("{} declares no constant {number}", entry.source))?;
            let (kind, mut bytes) = match kind {
                Kind::Bool => (MTLDataType::Bool, u32::from(*value != 0)),
                Kind::Int => (MTLDataType::Int, *value),
                Kind::Uint => (MTLDataType::UInt, *value),
                Kind::Float => (MTLDataType::Float, *value),
            };
            let bytes = NonNull::from(&mut bytes).cast::<c_void>();
            // SAFETY: the value has at least the bytes of its type, and is copied; the number is one that the source declares.
            unsafe { values.setConstantValue_type_atIndex(bytes, kind, *number as usize) };
        }
        let name = NSString::from_str(&function.name);
        let function = library.metal.newFunctionWithName_constantValues_error(&name, &values);
        function.map_err(|error| GpuError::one_line(&error.localizedDescription().to_string()))
    }

    /// A pipeline out of the archive, or a new one, which goes there.
    fn compile(
        &mut self,
        device: &Device,
        function: &ProtocolObject<dyn MTLFunction>,
        threads: usize,
    ) -> Result<Retained<ProtocolObject<dyn MTLComputePipelineState>>, String> {
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(function));
        // Otherwise a kernel with many registers may come out for fewer.
        descriptor.setMaxTotalThreadsPerThreadgroup(threads);
        let make = |options| {
            device.metal.newComputePipelineStateWithDescriptor_options_reflection_error(&descriptor, options, None)
        };
        if let Some(archive) = &self.archive {
            descriptor.setBinaryArchives(Some(&NSArray::from_slice(&[&**archive])));
            if let Ok(kept) = make(MTLPipelineOption::FailOnBinaryArchiveMiss) {
                return Ok(kept);
            }
        }
        let made = make(MTLPipelineOption::None);
        let made = made.map_err(|error| GpuError::one_line(&error.localizedDescription().to_string()))?;
        // What the archive does not take is compiled again next time.
        let added =
            self.archive.as_ref().map(|archive| archive.addComputePipelineFunctionsWithDescriptor_error(&descriptor));
        self.added |= matches!(added, Some(Ok(())));
        Ok(made)
    }

    /// Writes the archive where something was added. A run goes on without it.
    pub fn keep(&mut self) {
        let (Some(archive), Some(path)) = (&self.archive, &self.path) else { return };
        if !std::mem::take(&mut self.added) {
            return;
        }
        let _ = archive::replace(path, |part| {
            let url = NSURL::from_file_path(part).ok_or(io::ErrorKind::InvalidFilename)?;
            let written = archive.serializeToURL_error(&url);
            written.map_err(|error| io::Error::other(error.localizedDescription().to_string()))?;
            // What is empty was not written.
            fs::metadata(part)
                .and_then(|file| if file.len() > 0 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) })
        });
    }
}

/// Compiles a source for one format.
fn library(device: &Device, entry: &Entry) -> Result<Library, String> {
    let text = entry.text()?;
    let constants = entry::constants(&text)?;
    let options = MTLCompileOptions::new();
    // The first with `bfloat`: macOS 14.
    options.setLanguageVersion(MTLLanguageVersion::Version3_1);
    // Sums are added as they are written, NaN and infinities are kept: kernels compare bits between programs.
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[allow(deprecated)]
        options.setFastMathEnabled(false);
    }
    let compiled = device.metal.newLibraryWithSource_options_error(&NSString::from_str(&text), Some(&options));
    let compiled = compiled.map_err(|error| {
        let told = error.localizedDescription().to_string();
        format!("{} does not compile: {}", entry.source, GpuError::one_line(&told))
    });
    Ok(Library { metal: compiled?, constants })
}
