//! The options `--providers` and `--profile`.

use std::str::FromStr;

use nettrace_diagnostics::client::Wanted;

use crate::spelling::read_level;

/// One provider of the list, and which of its events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provider(pub(crate) Wanted);

impl Provider {
    /// All events of a provider.
    pub(crate) fn all_of(name: &str) -> Self {
        Self(Wanted {
            name: name.to_owned(),
            keywords: u64::MAX,
            level: 5,
            arguments: String::new(),
        })
    }
}

impl FromStr for Provider {
    type Err = String;

    /// Reads `NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]]`, as in `dotnet-trace`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(4, ':').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty());
        let mut provider = Self::all_of(name.ok_or("a provider has no name")?);
        if let Some(keywords) = parts.next().filter(|part| !part.is_empty()) {
            let digits = keywords.strip_prefix("0x").unwrap_or(keywords);
            provider.0.keywords = u64::from_str_radix(digits, 16)
                .map_err(|_| format!("`{keywords}` is not a hexadecimal number of 64 bits"))?;
        }
        if let Some(level) = parts.next().filter(|part| !part.is_empty()) {
            let known = read_level(level);
            provider.0.level =
                known.map_err(|how| format!("`{level}` is not a level; {how}"))?.into();
        }
        provider.0.arguments = parts.next().unwrap_or_default().to_owned();
        Ok(provider)
    }
}

/// A choice of events of the .NET runtime, under the name that `dotnet-trace` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Garbage collections, loading, compilation, exceptions and threads
    #[value(name = "dotnet-common")]
    Common,
    /// The stacks of all threads, about a hundred times a second
    #[value(name = "dotnet-sampled-thread-time")]
    SampledThreadTime,
    /// Garbage collections
    GcCollect,
    /// Garbage collections, and samples of what is allocated
    GcVerbose,
}

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

impl Profile {
    /// Names, keywords and levels.
    pub(crate) fn providers(self) -> &'static [(&'static str, u64, u32)] {
        match self {
            Self::Common => &[(RUNTIME, 0x10_0003_801d, 4)],
            Self::SampledThreadTime => {
                &[("Microsoft-DotNETCore-SampleProfiler", 0xf000_0000_0000, 4)]
            }
            Self::GcCollect => &[(RUNTIME, 1, 4), ("Microsoft-Windows-DotNETRuntimePrivate", 1, 4)],
            Self::GcVerbose => &[(RUNTIME, 0x8003, 5)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_read_as_dotnet_trace_writes_them() {
        let read = |text: &str| text.parse::<Provider>().map(|provider| provider.0);
        let all = Provider::all_of("A-b").0;
        assert_eq!(read("A-b"), Ok(all.clone()));
        assert_eq!(read(" A-b:: "), Ok(all.clone()));
        assert_eq!(read("A-b:0x1F"), Ok(Wanted { keywords: 0x1f, ..all.clone() }));
        assert_eq!(read("A-b::warning"), Ok(Wanted { level: 3, ..all.clone() }));
        assert_eq!(read("A-b::17"), Ok(Wanted { level: 17, ..all.clone() }));
        let arguments = "Sec=1:2;b".to_owned();
        let expected = Wanted { keywords: 8, level: 4, arguments, ..all };
        assert_eq!(read("A-b:8:info:Sec=1:2;b"), Ok(expected));
        for (text, wrong) in [("", "no name"), ("A:xyz", "`xyz`"), ("A::loud", "`loud`")] {
            assert!(read(text).unwrap_err().contains(wrong), "{text}");
        }
    }
}
