//! The variables of the environment, and the session that they ask for.

use std::{fmt, path::PathBuf, process};

use nettrace_writer::{
    FilterError, ProviderFilter, Redact,
    companion::{nearest, restriction, variable},
};

use crate::rotation::Rotation;

/// The memory for events that are not yet written, in MB, unless a variable says otherwise.
const BUFFER_MB: usize = 256;
/// Where the trace goes if `DOTNET_EventPipeOutputPath` is absent.
const DOTNET_PATH: &str = "trace.nettrace";
/// The prefix of this project's variables.
const PREFIX: &str = "NETTRACE_";
/// The filters of the session.
pub(super) const PROVIDERS: &str = "NETTRACE_PROVIDERS";
/// Variables without effect unless `NETTRACE_OUTPUT` is set. [`PROVIDERS`] is not among them,
/// because an application may read it itself, and `NETTRACE_REDACT` is for all traces.
const OF_OUTPUT: [&str; 5] = [
    "NETTRACE_ROTATE",
    "NETTRACE_KEEP",
    "NETTRACE_KEY_VALUES",
    "NETTRACE_COMMAND_LINE",
    "NETTRACE_BUFFER_MB",
];

/// The session that the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnvironmentPlan {
    pub(super) path: OutputPath,
    /// `None`: one file.
    pub(super) rotation: Option<Rotation>,
    pub(super) providers: Vec<ProviderFilter>,
    pub(super) buffer_mb: usize,
    pub(super) key_values: Vec<(String, String)>,
    pub(super) redacted: Vec<(String, Redact)>,
    pub(super) command_line: bool,
    /// Whether events must stay in memory until the end.
    pub(super) keeps_in_memory: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutputPath {
    /// With the placeholders of `SessionBuilder::file`.
    Template(PathBuf),
    Literal(PathBuf),
}

/// A variable whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadVariable {
    variable: String,
    value: String,
    why: String,
}

impl EnvironmentPlan {
    /// The filters of which nothing is said if they select nothing: variables of .NET name what
    /// only a runtime of .NET has.
    pub(super) fn untold(&self) -> Vec<ProviderFilter> {
        match self.path {
            OutputPath::Template(_) => Vec::new(),
            OutputPath::Literal(_) => self.providers.clone(),
        }
    }
}

impl fmt::Display for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, value, why } = self;
        write!(f, "{variable}={value}: {why}; nothing is recorded for the environment")
    }
}

/// Reads variables. Those of .NET have an old name as well.
pub(super) struct Variables<'a>(pub(super) &'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// An empty variable counts as absent.
    fn own(&self, name: &str) -> Option<(String, String)> {
        let value = (self.0)(name).filter(|value| !value.trim().is_empty())?;
        Some((name.to_owned(), value.trim().to_owned()))
    }

    fn dotnet(&self, name: &str) -> Option<(String, String)> {
        ["DOTNET_", "COMPlus_"].iter().find_map(|prefix| self.own(&format!("{prefix}{name}")))
    }

    /// A number of .NET: hexadecimal.
    fn dotnet_number(&self, name: &str) -> Result<Option<usize>, BadVariable> {
        let Some((variable, value)) = self.dotnet(name) else { return Ok(None) };
        let digits = value.strip_prefix("0x").or(value.strip_prefix("0X")).unwrap_or(&value);
        match usize::from_str_radix(digits, 16) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(BadVariable {
                variable,
                value,
                why: "it is not a hexadecimal number".to_owned(),
            }),
        }
    }
}

pub(super) fn of_this_process(name: &str) -> Option<String> {
    Some(variable(name)?.to_string_lossy().into_owned())
}

/// Whether the environment forbids that tools attach.
pub(crate) fn forbids_to_listen() -> bool {
    forbidden(&Variables(&of_this_process))
}

/// Any of the variables is enough, and a value that is no number forbids nothing, as in .NET.
fn forbidden(variables: &Variables<'_>) -> bool {
    let own = variables.own("NETTRACE_LISTEN");
    own.is_some_and(|(_, value)| value == "0")
        || ["EnableDiagnostics", "EnableDiagnostics_IPC"]
            .iter()
            .any(|name| matches!(variables.dotnet_number(name), Ok(Some(0))))
}

/// The session that the environment asks for. `None`: nothing.
pub(super) fn plan(variables: &Variables<'_>) -> Result<Option<EnvironmentPlan>, BadVariable> {
    if let Some((_, path)) = variables.own("NETTRACE_OUTPUT") {
        return own_plan(variables, path.into()).map(Some);
    }
    match variables.dotnet_number("EnableEventPipe")? {
        None | Some(0) => Ok(None),
        Some(_) => dotnet_plan(variables).map(Some),
    }
}

fn own_plan(variables: &Variables<'_>, path: PathBuf) -> Result<EnvironmentPlan, BadVariable> {
    let providers = match variables.own(PROVIDERS) {
        Some((variable, value)) => ProviderFilter::parse_list(&value)
            .map_err(|error| BadVariable { variable, value, why: error.to_string() })?,
        None => vec![ProviderFilter::all()],
    };
    let buffer_mb = match variables.own("NETTRACE_BUFFER_MB") {
        Some((variable, value)) => match value.parse() {
            Ok(number @ 1..) => number,
            _ => {
                let why = "it is not a number of megabytes above 0".to_owned();
                return Err(BadVariable { variable, value, why });
            }
        },
        None => BUFFER_MB,
    };
    let key_values = match variables.own("NETTRACE_KEY_VALUES") {
        Some((variable, value)) => {
            key_values(&value).map_err(|why| BadVariable { variable, value, why })?
        }
        None => Vec::new(),
    };
    Ok(EnvironmentPlan {
        path: OutputPath::Template(path),
        rotation: rotation(variables)?,
        providers,
        buffer_mb,
        key_values,
        redacted: redacted(variables)?,
        command_line: variables.own("NETTRACE_COMMAND_LINE").is_some_and(|(_, on)| on != "0"),
        keeps_in_memory: false,
    })
}

/// Reads `KEY=VALUE,…`.
fn key_values(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("`{pair}` is not a key, `=` and a value")),
    };
    pairs.map(pair).collect()
}

/// Values that no session of this process may have that the environment or a client asks for:
/// `NAME[=mask|=hash|=keep],…`.
fn redacted(variables: &Variables<'_>) -> Result<Vec<(String, Redact)>, BadVariable> {
    let Some((variable, value)) = variables.own("NETTRACE_REDACT") else { return Ok(Vec::new()) };
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    let redacted = |given: &str| {
        let (name, how) = given.split_once('=').unwrap_or((given, "mask"));
        let name = name.trim();
        let is_name = !name.is_empty() && !name.starts_with(':') && !name.ends_with(':');
        let how = how.trim().parse().ok().filter(|_| is_name);
        how.map(|how| (name.to_owned(), how)).ok_or_else(|| {
            format!("`{given}` is no name, and no name with `=mask`, `=hash` or `=keep`")
        })
    };
    names.map(redacted).collect::<Result<_, _>>().map_err(|why| BadVariable {
        variable,
        value: value.clone(),
        why,
    })
}

/// [`redacted`] for a session that a client asks for.
pub(crate) fn redacted_for_client() -> Result<Vec<(String, Redact)>, String> {
    let restriction = |name: &str| Some(restriction(name)?.to_string_lossy().into_owned());
    redacted(&Variables(&restriction))
        .map_err(|BadVariable { variable, why, .. }| format!("{variable} of this process: {why}"))
}

fn rotation(variables: &Variables<'_>) -> Result<Option<Rotation>, BadVariable> {
    let bad = |(variable, value): &(String, String), why: &str| BadVariable {
        variable: variable.clone(),
        value: value.clone(),
        why: why.to_owned(),
    };
    // Without it there is one file, and nothing to keep.
    let Some(rotate) = variables.own("NETTRACE_ROTATE") else { return Ok(None) };
    let rotation = Rotation::parse(&rotate.1).map_err(|why| bad(&rotate, why))?;
    match variables.own("NETTRACE_KEEP") {
        None => Ok(Some(rotation)),
        Some(keep) => rotation.keep(&keep.1).map(Some).map_err(|why| bad(&keep, why)),
    }
}

fn dotnet_plan(variables: &Variables<'_>) -> Result<EnvironmentPlan, BadVariable> {
    let path = variables.dotnet("EventPipeOutputPath");
    let path = path.map_or_else(|| DOTNET_PATH.to_owned(), |(_, path)| path);
    let path = path.replace("{pid}", &process::id().to_string());
    let providers = match variables.dotnet("EventPipeConfig") {
        Some((variable, value)) => dotnet_providers(&value).map_err(|error| BadVariable {
            variable,
            value,
            why: error.to_string(),
        })?,
        None => vec![ProviderFilter::all()],
    };
    let buffer_mb = match variables.dotnet_number("EventPipeCircularMB")? {
        Some(0) | None => BUFFER_MB,
        Some(number) => number,
    };
    let keeps_in_memory = variables.dotnet_number("EventPipeOutputStreaming")? == Some(0);
    let path = OutputPath::Literal(path.into());
    Ok(EnvironmentPlan {
        path,
        rotation: None,
        providers,
        buffer_mb,
        key_values: Vec::new(),
        redacted: redacted(variables)?,
        command_line: false,
        keeps_in_memory,
    })
}

/// Reads `NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]],…`. Commas between quotes belong to arguments.
fn dotnet_providers(text: &str) -> Result<Vec<ProviderFilter>, FilterError> {
    let mut is_quoted = false;
    let pieces = text.split(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    let pieces = pieces.map(str::trim).filter(|piece| !piece.is_empty());
    let filter = |piece: &str| {
        let mut parts = piece.splitn(4, ':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let keywords = parts.next().unwrap_or_default();
        // 0 stands for all, as in a client's request.
        let digits = keywords.strip_prefix("0x").unwrap_or(keywords);
        let is_zero = u64::from_str_radix(digits, 16) == Ok(0);
        let keywords = if is_zero { "" } else { keywords };
        format!("{name}:{keywords}:{}", parts.next().unwrap_or_default()).parse()
    };
    let filters = pieces.map(filter).collect::<Result<Vec<_>, _>>()?;
    if filters.is_empty() { Err(FilterError::Empty) } else { Ok(filters) }
}

/// Checks the properties of any text as a list of providers.
#[cfg(feature = "__fuzzing")]
pub(crate) fn check(text: &str) {
    if let Ok(filters) = dotnet_providers(text) {
        assert!(!filters.is_empty() && filters.len() <= text.len());
    }
}

/// Variables that have no effect, and the one that they need.
pub(super) fn without_effect(
    variables: &Variables<'_>,
) -> Option<(Vec<&'static str>, &'static str)> {
    let is_set = |name: &&str| variables.own(name).is_some();
    let (of, needed) = match is_set(&"NETTRACE_OUTPUT") {
        false => (&OF_OUTPUT[..], "NETTRACE_OUTPUT"),
        true => (&["NETTRACE_KEEP"][..], "NETTRACE_ROTATE"),
    };
    let idle: Vec<_> = of.iter().copied().filter(is_set).collect();
    (!idle.is_empty() && !is_set(&needed)).then_some((idle, needed))
}

/// The variables that this crate reads.
const KNOWN: [&str; 10] = [
    "NETTRACE_OUTPUT",
    PROVIDERS,
    "NETTRACE_ROTATE",
    "NETTRACE_KEEP",
    "NETTRACE_KEY_VALUES",
    "NETTRACE_COMMAND_LINE",
    "NETTRACE_BUFFER_MB",
    "NETTRACE_REDACT",
    "NETTRACE_LISTEN",
    // A program's own, of tests.
    "NETTRACE_SCHEMA",
];

/// The variables of these that have nearly the name of one that is read, and that name.
pub(super) fn misspelt(names: impl Iterator<Item = String>) -> Vec<(String, &'static str)> {
    let meant = |name: String| {
        let rest = name.strip_prefix(PREFIX)?;
        if KNOWN.contains(&&*name) {
            return None;
        }
        let known = KNOWN.iter().filter_map(|known| known.strip_prefix(PREFIX));
        let meant = nearest(rest, known)?;
        let meant = KNOWN.iter().find(|known| known.strip_prefix(PREFIX) == Some(meant))?;
        Some((name, *meant))
    };
    names.filter_map(meant).collect()
}

/// Whether there are filters, but no session of the environment takes them.
pub(super) fn has_idle_filters(variables: &Variables<'_>) -> bool {
    variables.own(PROVIDERS).is_some() && variables.own("NETTRACE_OUTPUT").is_none()
}

#[cfg(test)]
mod tests {
    use nettrace_writer::Level;

    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<EnvironmentPlan>, String> {
        let get = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        plan(&Variables(&get)).map_err(|bad| bad.to_string())
    }

    #[test]
    fn an_environment_without_the_variables_asks_for_nothing() {
        for pairs in [
            &[][..],
            &[("NETTRACE_PROVIDERS", "A"), ("DOTNET_EventPipeConfig", "A")],
            &[("DOTNET_EnableEventPipe", "0"), ("COMPlus_EnableEventPipe", "1")],
            &[("NETTRACE_OUTPUT", " "), ("DOTNET_EnableEventPipe", "")],
        ] {
            assert_eq!(of(pairs), Ok(None), "{pairs:?}");
        }
    }

    #[test]
    fn variables_of_dotnet_are_read_as_dotnet_reads_them() {
        let enabled = ("DOTNET_EnableEventPipe", "1");
        let default = EnvironmentPlan {
            path: OutputPath::Literal(PathBuf::from("trace.nettrace")),
            rotation: None,
            providers: vec![ProviderFilter::all()],
            buffer_mb: 256,
            key_values: Vec::new(),
            redacted: Vec::new(),
            command_line: false,
            keeps_in_memory: false,
        };
        assert_eq!(of(&[enabled]), Ok(Some(default.clone())));
        assert_eq!(of(&[("COMPlus_EnableEventPipe", "0x1")]), Ok(Some(default.clone())));
        let set = [
            enabled,
            ("DOTNET_EventPipeConfig", "A:ff:4,B-*::Warning:k=\"1,2\";b,C:0:5, D"),
            ("DOTNET_EventPipeOutputPath", "/x/{pid}/{exe}-{pid}.nettrace"),
            ("DOTNET_EventPipeCircularMB", "40"),
            ("DOTNET_EventPipeOutputStreaming", "0"),
            ("NETTRACE_REDACT", "id=hash"),
        ];
        let pid = process::id();
        let expected = EnvironmentPlan {
            path: OutputPath::Literal(PathBuf::from(format!("/x/{pid}/{{exe}}-{pid}.nettrace"))),
            rotation: None,
            providers: vec![
                ProviderFilter::new("A").keywords(0xff).level(Level::Informational),
                ProviderFilter::new("B-*").level(Level::Warning),
                ProviderFilter::new("C").level(Level::Verbose),
                ProviderFilter::new("D"),
            ],
            buffer_mb: 0x40,
            key_values: Vec::new(),
            redacted: vec![("id".to_owned(), Redact::Hash)],
            command_line: false,
            keeps_in_memory: true,
        };
        assert_eq!(of(&set), Ok(Some(expected)));
    }

    #[test]
    fn variables_of_our_own_come_first() {
        let set = [
            ("DOTNET_EnableEventPipe", "nonsense"),
            ("NETTRACE_OUTPUT", "{exe}.nettrace"),
            ("NETTRACE_PROVIDERS", "Contoso-*=warn"),
            ("NETTRACE_BUFFER_MB", "40"),
            ("NETTRACE_ROTATE", "64MB"),
            ("NETTRACE_KEEP", "10"),
            ("NETTRACE_KEY_VALUES", "service.version = 1.2, team=shop,"),
            ("NETTRACE_REDACT", "customer, Sold:id = hash,Audit:customer=keep"),
            ("NETTRACE_COMMAND_LINE", "1"),
        ];
        let expected = EnvironmentPlan {
            path: OutputPath::Template(PathBuf::from("{exe}.nettrace")),
            rotation: Some(Rotation::parse("64MB").unwrap().keep("10").unwrap()),
            providers: vec![ProviderFilter::new("Contoso-*").level(Level::Warning)],
            buffer_mb: 40,
            key_values: [("service.version", "1.2"), ("team", "shop")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            redacted: vec![
                ("customer".to_owned(), Redact::Mask),
                ("Sold:id".to_owned(), Redact::Hash),
                ("Audit:customer".to_owned(), Redact::Keep),
            ],
            command_line: true,
            keeps_in_memory: false,
        };
        assert_eq!(of(&set), Ok(Some(expected)));
    }

    #[test]
    fn a_zero_forbids_to_listen() {
        let forbids = |set: &[(&str, &str)]| {
            forbidden(&Variables(&|name: &str| {
                Some(set.iter().find(|(known, _)| *known == name)?.1.to_owned())
            }))
        };
        // What a process of .NET 10 does with each of them, but for the first.
        for zero in [
            ("NETTRACE_LISTEN", " 0 "),
            ("DOTNET_EnableDiagnostics", "0"),
            ("DOTNET_EnableDiagnostics", "0x0"),
            ("DOTNET_EnableDiagnostics_IPC", "00"),
            ("COMPlus_EnableDiagnostics", "0"),
            ("COMPlus_EnableDiagnostics_IPC", "0"),
        ] {
            assert!(forbids(&[zero]), "{zero:?}");
        }
        let both = [("DOTNET_EnableDiagnostics", "1"), ("COMPlus_EnableDiagnostics", "0")];
        assert!(!forbids(&both), "the new name comes first");
        assert!(forbids(&[both[0], ("DOTNET_EnableDiagnostics_IPC", "0")]));
        for other in ["", "1", "false", "-0"] {
            assert!(!forbids(&[("DOTNET_EnableDiagnostics", other)]), "{other}");
            assert!(!forbids(&[("NETTRACE_LISTEN", other)]), "{other}");
        }
    }

    #[test]
    fn bad_values_are_named_with_their_variable() {
        let enabled = ("DOTNET_EnableEventPipe", "1");
        let own = ("NETTRACE_OUTPUT", "x");
        for (set, words) in [
            (&[("DOTNET_EnableEventPipe", "true")][..], "DOTNET_EnableEventPipe=true: it is not a"),
            (&[enabled, ("DOTNET_EventPipeConfig", "A:xyz")], "`xyz`"),
            (&[enabled, ("DOTNET_EventPipeConfig", "A:1:loud")], "`loud` is not a level"),
            (&[enabled, ("DOTNET_EventPipeConfig", ":1:5")], "DOTNET_EventPipeConfig=:1:5: "),
            (&[enabled, ("DOTNET_EventPipeConfig", ",,")], "DOTNET_EventPipeConfig=,,: "),
            (&[enabled, ("COMPlus_EventPipeCircularMB", "many")], "COMPlus_EventPipeCircularMB"),
            (&[enabled, ("DOTNET_EventPipeOutputStreaming", "no")], "not a hexadecimal number"),
            (&[own, ("NETTRACE_PROVIDERS", "A=off")], "NETTRACE_PROVIDERS=A=off: "),
            (&[own, ("NETTRACE_BUFFER_MB", "0")], "above 0"),
            (&[own, ("NETTRACE_BUFFER_MB", "1e3")], "above 0"),
            (&[own, ("NETTRACE_ROTATE", "64")], "NETTRACE_ROTATE=64: it is not a size"),
            (&[own, ("NETTRACE_REDACT", "a,b=drop")], "NETTRACE_REDACT=a,b=drop: `b=drop` is no"),
            (&[enabled, ("NETTRACE_REDACT", "=hash")], "`=hash` is no name"),
            (&[own, ("NETTRACE_KEY_VALUES", "a=b,c")], "`c` is not a key, `=` and a value"),
            (&[own, ("NETTRACE_ROTATE", "1h"), ("NETTRACE_KEEP", "1GB")], "NETTRACE_KEEP=1GB: "),
        ] {
            let said = of(set).unwrap_err();
            assert!(said.contains(words), "{set:?}: {said}");
        }
    }

    #[test]
    fn variables_without_a_trace_have_no_effect() {
        let idle = |set: &[(&str, &str)]| {
            let get = |name: &str| Some(set.iter().find(|(known, _)| *known == name)?.1.to_owned());
            let variables = Variables(&get);
            (without_effect(&variables), has_idle_filters(&variables))
        };
        let needs = |names: &[&'static str], needed| Some((names.to_vec(), needed));
        let rotation = [("NETTRACE_KEEP", "10"), ("NETTRACE_ROTATE", "1h")];
        let both = needs(&["NETTRACE_ROTATE", "NETTRACE_KEEP"], "NETTRACE_OUTPUT");
        assert_eq!(idle(&rotation), (both, false));
        let output = ("NETTRACE_OUTPUT", "x");
        assert_eq!(idle(&[rotation[0], rotation[1], output]), (None, false));
        let keep = needs(&["NETTRACE_KEEP"], "NETTRACE_ROTATE");
        assert_eq!(idle(&[rotation[0], output]), (keep, false));
        // An application may read the first. The second is for the traces of tools, too.
        let filters = [("NETTRACE_PROVIDERS", "A"), ("NETTRACE_REDACT", "a")];
        assert_eq!(idle(&filters), (None, true));
        assert_eq!(idle(&[filters[0], output]), (None, false));
        let keep = needs(&["NETTRACE_KEEP"], "NETTRACE_OUTPUT");
        let dotnet = ("DOTNET_EnableEventPipe", "1");
        assert_eq!(idle(&[rotation[0], filters[0], dotnet]), (keep, true));
        // There is one file, and it is recorded.
        assert_eq!(of(&[rotation[0], output]).unwrap().unwrap().rotation, None);
    }
}
