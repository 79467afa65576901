//! Finds the paths in the tokens of a package's sources, and the imports between its top-level
//! modules.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use xtask::workspace::{Package, rust_files};

use super::Imports;

/// The module facts in the source files of a package.
pub(crate) fn sources(package: &Package) -> Result<Vec<ModuleImports>> {
    let folder = package.folder.join("src");
    let read = |path: &PathBuf| -> Result<ModuleImports> {
        let tokens = fs::read_to_string(path)?.parse();
        let tokens = tokens.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let below = path.strip_prefix(&folder).unwrap_or(path);
        Ok(ModuleImports::read(module_of(below), below.display().to_string(), tokens))
    };
    rust_files(&folder)?.iter().map(read).collect()
}

/// The path of the module in a file; none for the root.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    if module == ["lib"] || module == ["main"] {
        module.pop();
    }
    module
}

/// The module facts in a file.
#[derive(Debug, Default)]
pub(crate) struct ModuleImports {
    module: Vec<String>,
    /// Its path below `src`.
    pub(crate) name: String,
    /// Every path that leads through modules, from the root, without globs.
    paths: Vec<Vec<String>>,
    /// Every other path.
    pub(crate) others: Vec<Vec<String>>,
    /// The path that each name of a `use` stands for.
    names: Vec<(String, Vec<String>)>,
    /// The modules that it declares, and those that only tests have.
    declared: BTreeSet<String>,
    of_tests: BTreeSet<String>,
    /// The macros that it exports into the root.
    macros: Vec<String>,
    /// The types of its inherent `impl`s, as they are written.
    implemented: Vec<Vec<String>>,
}

/// The imports between the top-level modules of a package, whose files these are.
pub(super) fn between(files: &[ModuleImports]) -> Imports {
    let roots = || files.iter().filter(|file| file.module.is_empty());
    let declared: BTreeSet<&str> =
        roots().flat_map(|root| &root.declared).map(String::as_str).collect();
    let of_tests: BTreeSet<&str> =
        roots().flat_map(|root| &root.of_tests).map(String::as_str).collect();
    let defined_by = files.iter().flat_map(|file| {
        file.macros.iter().map(move |name| (name.as_str(), file.module.as_slice()))
    });
    let mut exported: BTreeMap<&str, &[String]> = defined_by.collect();
    for (name, path) in roots().flat_map(|root| &root.names) {
        // A name can be that of an item and of another package's macro.
        let is_ours = path.first().is_some_and(|first| declared.contains(first.as_str()));
        if is_ours || !exported.contains_key(name.as_str()) {
            exported.insert(name, path);
        }
    }

    // The node to which a path from the root leads. `None`: to another package, or to all nodes.
    let node_of = |path: &[String]| -> Option<String> {
        let first = path.first()?.as_str();
        if declared.contains(first) {
            return Some(first.to_owned());
        }
        match exported.get(first) {
            Some([module, ..]) => declared.contains(module.as_str()).then(|| module.clone()),
            Some([]) | None => Some("lib.rs".into()),
        }
    };

    let mut imports = Imports::new();
    for file in files {
        let from = file.module.first().map_or("lib.rs", String::as_str);
        if of_tests.contains(from) || file.is_test() {
            continue;
        }
        for path in &file.paths {
            if let Some(to) = node_of(path).filter(|to| to != from) {
                let import = format!("`{}` in {}", path.join("::"), file.name);
                imports.entry((from.to_owned(), to)).or_insert(import);
            }
        }
        for ty in &file.implemented {
            let named = file.names.iter().find(|(name, _)| *name == ty[0]);
            let whole = match named {
                Some((_, path)) => path,
                None if ty[0] == "crate" => &ty[1..].to_vec(),
                None => continue,
            };
            if let Some(of) = node_of(whole).filter(|of| of != from) {
                let import = format!("`impl {}` in {}", ty.join("::"), file.name);
                imports.entry((of, from.to_owned())).or_insert(import);
            }
        }
    }
    imports
}

impl ModuleImports {
    /// Whether its name says that only tests have it.
    pub(crate) fn is_test(&self) -> bool {
        self.module.iter().any(|name| name == "tests" || name.ends_with("_tests"))
    }

    pub(crate) fn read(module: Vec<String>, name: String, tokens: TokenStream) -> Self {
        let mut source = Self { module: module.clone(), name, ..Self::default() };
        source.walk(&tokens.into_iter().collect::<Vec<_>>(), &module);
        source
    }

    /// Notes what is in a group of tokens of a module.
    fn walk(&mut self, tokens: &[TokenTree], module: &[String]) {
        let mut at = 0;
        let mut aside = false;
        while let Some(token) = tokens.get(at) {
            let rest = &tokens[at..];
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    let group = group(rest.get(1), Delimiter::Bracket);
                    aside |= group.as_deref().is_some_and(is_aside);
                    if group.as_deref().is_some_and(|group| is_word(group.first(), "macro_export"))
                    {
                        let name = after(rest, "macro_rules").and_then(|rest| word(rest.first()));
                        self.macros.extend(name);
                    }
                    at += if group.is_some() { 2 } else { 1 };
                    continue;
                }
                _ if aside => {
                    // Whatever has the attribute ends with a `;` or a block.
                    let end = rest.iter().position(|token| match token {
                        TokenTree::Punct(sign) => sign.as_char() == ';',
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        _ => false,
                    });
                    let item = &rest[..end.map_or(rest.len(), |end| end + 1)];
                    if module.is_empty() {
                        self.of_tests
                            .extend(after(item, "mod").and_then(|rest| word(rest.first())));
                    }
                    at += item.len();
                }
                TokenTree::Ident(ident) if ident == "mod" => {
                    let Some(name) = word(rest.get(1)) else { break };
                    if module.is_empty() {
                        self.declared.insert(name.clone());
                    }
                    match group(rest.get(2), Delimiter::Brace) {
                        Some(inner) => {
                            let inside: Vec<_> = module.iter().cloned().chain([name]).collect();
                            self.walk(&inner, &inside);
                            at += 3;
                        }
                        None => at += 2,
                    }
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    let end = rest.iter().position(|token| is_sign(Some(token), ';'));
                    let is_public = match at.checked_sub(1).map(|before| &tokens[before]) {
                        Some(TokenTree::Group(group)) => {
                            group.delimiter() == Delimiter::Parenthesis
                        }
                        before => is_word(before, "pub"),
                    };
                    self.named(&rest[1..end.unwrap_or(rest.len())], module, is_public);
                    at += end.unwrap_or(rest.len());
                }
                TokenTree::Ident(ident) if ident == "impl" && begins_item(tokens, at) => {
                    self.implemented.extend(inherent(&rest[1..]));
                    at += 1;
                }
                TokenTree::Ident(_) if begins_path(tokens, at) => {
                    let (words, length) = path(rest);
                    match from_root(&words, module) {
                        Some(path) => self.paths.push(path),
                        None => self.others.push(words),
                    }
                    at += length;
                }
                TokenTree::Group(group) => {
                    self.walk(&group.stream().into_iter().collect::<Vec<_>>(), module);
                    at += 1;
                }
                _ => at += 1,
            }
            aside = false;
        }
    }

    /// Notes the paths of a `use`, and the names that it brings.
    fn named(&mut self, tree: &[TokenTree], module: &[String], is_public: bool) {
        for (words, alias) in leaves(tree, &[]) {
            let path = match from_root(&words, module) {
                Some(path) => path,
                // A module of the root, or another package.
                None => {
                    self.others.push(words.clone());
                    if !module.is_empty() {
                        continue;
                    }
                    words
                }
            };
            // What the root re-exports is not used by what it defines.
            if !(module.is_empty() && is_public) {
                self.paths.push(path.clone());
            }
            self.names.push((alias, path));
        }
    }
}

/// Each path in the tree of a `use`, with the name that it brings.
fn leaves(tree: &[TokenTree], before: &[String]) -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    for branch in tree.split(|token| is_sign(Some(token), ',')) {
        let (mut words, length) = path(branch);
        words.splice(..0, before.iter().cloned());
        if words.last().is_some_and(|word| word == "self") && words.len() > 1 {
            words.pop();
        }
        match branch.get(length) {
            Some(TokenTree::Group(inner)) => {
                all.extend(leaves(&inner.stream().into_iter().collect::<Vec<_>>(), &words));
            }
            next => {
                let alias = is_word(next, "as").then(|| word(branch.get(length + 1))).flatten();
                let Some(alias) = alias.or_else(|| words.last().cloned()) else { continue };
                all.push((words, alias));
            }
        }
    }
    all
}

/// The words of the path at the beginning, and how many tokens they take, with a `::` at the end.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut words = Vec::new();
    let mut at = if is_separator(tokens) { 2 } else { 0 };
    while let Some(next) = word(tokens.get(at)) {
        words.push(next);
        at += 1;
        if !is_separator(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    (words, at)
}

/// A path as it is from the root, if its first word says where it begins.
fn from_root(words: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = words.split_first()?;
    let mut base = match first.as_str() {
        "crate" => &[][..],
        "self" => module,
        "super" => &module[..module.len().saturating_sub(1)],
        _ => return None,
    };
    while rest.first().is_some_and(|word| word == "super") {
        base = &base[..base.len().saturating_sub(1)];
        rest = &rest[1..];
    }
    Some(base.iter().chain(rest).cloned().collect())
}

/// The type of an inherent `impl`, without the word itself. `None`: it is that of a trait.
fn inherent(tokens: &[TokenTree]) -> Option<Vec<String>> {
    let end = tokens.iter().position(|token| {
        matches!(token, TokenTree::Group(group)
        if group.delimiter() == Delimiter::Brace)
    })?;
    let head = &tokens[..end];
    if head.iter().any(|token| is_word(Some(token), "for")) {
        return None;
    }
    let mut depth = 0;
    let start = head.iter().position(|token| {
        let is_outside = depth == 0 && !is_sign(Some(token), '<');
        depth += i32::from(is_sign(Some(token), '<')) - i32::from(is_sign(Some(token), '>'));
        is_outside
    })?;
    let (words, _) = path(&head[start..]);
    (!words.is_empty()).then_some(words)
}

/// Whether an attribute is for tests or documentation alone.
fn is_aside(attribute: &[TokenTree]) -> bool {
    let Some(condition) = group(attribute.get(1), Delimiter::Parenthesis) else { return false };
    let is_cfg = is_word(attribute.first(), "cfg");
    let mut all = None;
    if is_word(condition.first(), "all") {
        all = group(condition.get(1), Delimiter::Parenthesis);
    }
    let parts = all.as_deref().unwrap_or(&condition);
    let is_either = |token| is_word(Some(token), "test") || is_word(Some(token), "doc");
    is_cfg && parts.iter().any(is_either)
}

/// Whether an item can begin here: not the type `impl Trait`.
fn begins_item(tokens: &[TokenTree], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before]) {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Parenthesis,
        Some(before) => is_sign(Some(before), ';') || is_word(Some(before), "unsafe"),
    }
}

/// Whether a path begins here, and not in its middle or in a visibility.
fn begins_path(tokens: &[TokenTree], at: usize) -> bool {
    let (before, here) = tokens.split_at(at);
    let is_middle = match before {
        // `pub(in path)`
        [only] => is_word(Some(only), "in"),
        // A path from the root has one more `::` in front.
        [.., name, _, _] if is_separator(&before[at - 2..]) => {
            word(Some(name)).is_some_and(|name| !KEYWORDS.contains(&&*name))
        }
        _ => false,
    };
    let begins = word(here.first()).is_some_and(|name| !KEYWORDS.contains(&&*name));
    begins && is_separator(&here[1..]) && !is_middle
}

/// Keywords that may precede a path from the root, such as `::std::sync`.
const KEYWORDS: [&str; 6] = ["as", "dyn", "impl", "in", "mut", "return"];

fn after<'a>(tokens: &'a [TokenTree], name: &str) -> Option<&'a [TokenTree]> {
    let at = tokens.iter().position(|token| is_word(Some(token), name))?;
    // The exclamation mark of a macro.
    let skipped = usize::from(is_sign(tokens.get(at + 1), '!'));
    Some(&tokens[at + 1 + skipped..])
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
            Some(group.stream().into_iter().collect())
        }
        _ => None,
    }
}

fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn is_separator(tokens: &[TokenTree]) -> bool {
    is_sign(tokens.first(), ':') && is_sign(tokens.get(1), ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports between nodes of a package with these files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let read = |&(name, text): &(&str, &str)| {
            let tokens = text.parse().expect("the text is Rust");
            ModuleImports::read(module_of(Path::new(name)), name.into(), tokens)
        };
        let files: Vec<_> = files.iter().map(read).collect();
        between(&files).into_keys().map(|(from, to)| format!("{from} -> {to}")).collect()
    }

    const ROOT: (&str, &str) = (
        "lib.rs",
        "cfg_if! { if #[cfg(unix)] { mod a; mod b; mod c; } }
         pub use crate::{a::One, c::{Three, Four as Other}};
         pub use another::{One, Five};
         pub struct Root;",
    );

    #[track_caller]
    fn check(file: &str, text: &str, imports: &[&str]) {
        assert_eq!(found(&[ROOT, (file, text)]), imports, "{text}");
    }

    #[test]
    fn paths_lead_to_nodes_wherever_they_are() {
        check("a.rs", "use crate::b::X;", &["a -> b"]);
        check("a/deep.rs", "use super::super::{b::{X, Y}, c};", &["a -> b", "a -> c"]);
        check("a/mod.rs", "use crate::{self as root, b::{self}};", &["a -> b"]);
        check("a.rs", "fn f() { vec![crate::b::X] }", &["a -> b"]);
        check(
            "a.rs",
            "fn f(x: crate::b::X) { for c in crate::c::all() {} }",
            &["a -> b", "a -> c"],
        );
        check("a.rs", "macro_rules! m { () => { $crate::c::f() } }", &["a -> c"]);
        check("a.rs", "pub(in crate::b) fn f(x: &crate::c::X) { g() }", &["a -> c"]);
        check("a.rs", "mod inner { use super::super::b::X; } use self::inner::X;", &["a -> b"]);
        check("a.rs", "use other::b::X; // crate::b\nfn f() -> ::b::X { \"crate::b::X\" }", &[]);
    }

    #[test]
    fn what_the_root_re_exports_leads_to_its_place_and_its_own_items_to_the_root() {
        check("b.rs", "use crate::{One, Other, Five};", &["b -> a", "b -> c"]);
        check("b.rs", "use crate::Root;", &["b -> lib.rs"]);
        let exports = ("a.rs", "#[macro_export] macro_rules! made { () => {} }");
        assert_eq!(found(&[ROOT, exports, ("b.rs", "crate::made!();")]), ["b -> a"]);
        let root = ("lib.rs", "mod a; use a::X; fn f() { crate::a::f() }");
        assert_eq!(found(&[root]), ["lib.rs -> a"]);
    }

    #[test]
    fn an_impl_elsewhere_counts_against_its_place() {
        check("a.rs", "use crate::b::X; impl<T: Into<u8>> X<T> { }", &["a -> b", "b -> a"]);
        check("a.rs", "use crate::b::X; impl From<X> for Y { }", &["a -> b"]);
        check("a.rs", "use crate::b::X; fn f() -> impl X { }", &["a -> b"]);
    }

    #[test]
    fn tests_and_links_in_documentation_count_nothing() {
        check("a.rs", "#[cfg(test)] mod tests { use crate::b::X; }", &[]);
        check("a.rs", "#[cfg(all(test, unix))] use crate::b::X; fn f() {}", &[]);
        check("a.rs", "#[cfg(doc)] use crate::b::X;\n/// [X](crate::b::X)\nfn f() {}", &[]);
        check("a/tests.rs", "use crate::b::X;", &[]);
        check("a.rs", "#[cfg(not(test))] use crate::b::X;", &["a -> b"]);
    }
}
