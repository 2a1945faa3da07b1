//! Why a graphics processor cannot be used, as far as the system shows.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Vendor;

/// Why a device cannot be used, or not by all providers. In JSON a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuProblem {
    /// It is set aside for virtual machines.
    SetAside,
    /// Its maker's driver is not loaded; another one may be in use.
    NoDriver(Vendor, Option<String>),
    /// The kernel has NVIDIA's driver and this file system lacks its libraries: a container, as a rule.
    NoLibraries,
    /// `CUDA_VISIBLE_DEVICES` hides it.
    Hidden,
    /// The device file that it is used through is missing.
    NoNode(String),
    /// This user may not open that file.
    NoAccess(String),
    /// Its driver cannot reach it, in the driver's words.
    OutOfReach(String),
}

impl fmt::Display for GpuProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAside => f.write_str("it is set aside for virtual machines (vfio-pci)"),
            Self::NoDriver(vendor, in_use) => {
                f.write_str(match (vendor, in_use) {
                    (Vendor::Nvidia, _) => "the NVIDIA driver is not installed",
                    (Vendor::Amd, None) => "the driver amdgpu is not loaded",
                    (Vendor::Amd, Some(_)) => "the driver amdgpu is needed",
                    _ => "no driver is loaded for it (i915 or xe)",
                })?;
                match in_use {
                    Some(other) => write!(f, " ({other} is in use)"),
                    None => Ok(()),
                }
            }
            Self::NoLibraries => f.write_str(
                "its driver is loaded, but the driver's libraries (libnvidia-ml.so.1, libcuda.so.1) are not here",
            ),
            Self::Hidden => f.write_str("hidden by CUDA_VISIBLE_DEVICES"),
            Self::NoNode(path) => write!(f, "{path} is missing"),
            Self::NoAccess(path) => write!(f, "this user may not open {path}"),
            Self::OutOfReach(words) => write!(f, "the driver cannot reach it: {words}"),
        }
    }
}

impl Serialize for GpuProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
