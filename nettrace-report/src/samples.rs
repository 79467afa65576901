//! Samples of what processors execute.

use nettrace_reader::Metadata;

/// Whether events of a type are samples: those of .NET's sampler, and those of the provider that
/// the format's authors reserve for all platforms.
pub(crate) fn is_sample(metadata: &Metadata) -> bool {
    match &*metadata.provider {
        // The only event of this provider. Versions 4 and 5 have no name for it.
        "Microsoft-DotNETCore-SampleProfiler" => metadata.event_id == 0,
        "Universal.Events" => metadata.name == "cpu",
        _ => false,
    }
}
