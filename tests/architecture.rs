//! Holds the shape of the crate: modules import downwards only, and no file grows past what a reader can keep in mind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// From the bottom to the top. A module may import those of the lines above it in this list, never its neighbours.
const LAYERS: &[&[&str]] = &[
    &["util"],
    &["error"],
    &["time", "log"],
    &["conf"],
    &["message", "codec"],
    &["flow"],
    &["source", "sink", "pipe", "handler", "policy"],
    &["booblik"],
    &["store"],
    &["topic", "proxy"],
    &["checkpoint", "window", "join"],
    &["app"],
    &["observe", "testing", "cli"],
    // Programs: each a crate of its own, of a few lines.
    &["bin"],
];

/// Modules that must stay usable on their own: all that they may import.
const NARROW: &[(&str, &[&str])] = &[("booblik", &["util", "error", "time"])];

/// Collections of re-exports for users and for the macro. They see everything, and nothing imports them.
const FACADES: &[&str] = &["lib", "prelude", "__private", "private"];

const MAX_LINES_PER_FILE: usize = 500;

#[test]
fn modules_import_downwards_only() -> Result<()> {
    let files = sources()?;
    let exports = root_exports(files.get(Path::new("lib.rs")).context("src/lib.rs is missing")?);
    let mut wrong = Vec::new();
    for (path, text) in &files {
        wrong.extend(check_file(path, text, &exports));
    }
    assert!(wrong.is_empty(), "imports against the layers of DESIGN:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn no_source_file_is_longer_than_500_lines() -> Result<()> {
    let long: Vec<String> = sources()?
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES_PER_FILE)
        .map(|(path, lines)| format!("src/{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "split by job:\n{}", long.join("\n"));
    Ok(())
}

#[test]
fn an_upward_a_sideways_and_a_facade_import_are_noticed() {
    let exports = root_exports("mod error;\npub use error::{Error, Result};\npub use app::run as start;\n");
    let found = |file: &str, text: &str| check_file(Path::new(file), text, &exports);

    assert!(found("flow/ring.rs", "use crate::error::Error;\nuse crate::{Result, util};").is_empty());
    assert!(found("flow/ring.rs", "use crate::flow::gate::Gate;").is_empty());
    assert!(found("flow/ring.rs", "/// like crate::app::App\nfn f() {}").is_empty());
    assert!(found("flow/ring.rs", "pub(crate) fn f() {}\n#[cfg(test)]\nmod tests { use crate::app::App; }").is_empty());
    assert!(found("prelude.rs", "pub use crate::app::App;").is_empty());

    assert_eq!(found("flow/ring.rs", "use crate::{\n    error::Error,\n    store::{Cache, keys},\n};").len(), 1);
    assert_eq!(found("flow/ring.rs", "fn f() { crate::app::run(); }").len(), 1);
    assert_eq!(found("flow/ring.rs", "use crate::start;").len(), 1);
    assert_eq!(found("topic/kafka.rs", "use crate::proxy::Proxy;").len(), 1);
    assert_eq!(found("booblik/wire.rs", "use crate::conf::Conf;").len(), 1);
    assert_eq!(found("app/run.rs", "use crate::prelude::*;").len(), 1);
    assert_eq!(found("flow/ring.rs", "use crate::nowhere::Thing;").len(), 1);
    assert_eq!(found("nowhere.rs", "fn f() {}").len(), 1);
}

// ---- reading --------------------------------------------------------------------------------------------------------

/// Every file of `src` with its text, by its path below `src`.
fn sources() -> Result<BTreeMap<PathBuf, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path.strip_prefix(&root)?.to_owned(), std::fs::read_to_string(&path)?);
            }
        }
    }
    if files.is_empty() {
        bail!("{} holds no source file", root.display());
    }
    Ok(files)
}

/// The code without its comments and without what follows the first inline test module.
fn code_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let starts_tests = |pair: &[&str]| matches!(pair, [first, second] if first.trim() == "#[cfg(test)]" && second.trim_start().starts_with("mod ") && second.contains('{'));
    let end = lines.windows(2).position(starts_tests).unwrap_or(lines.len());
    lines.iter().take(end).map(|line| without_comment(line)).collect::<Vec<_>>().join("\n")
}

/// Cuts at `//`, except in `://` of an address.
fn without_comment(line: &str) -> &str {
    let start = line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
    start.map_or(line, |at| &line[..at])
}

/// What `lib.rs` re-exports at the root, as name → module: `crate::Error` stands for the module `error`.
fn root_exports(lib: &str) -> BTreeMap<String, String> {
    let code = code_of(lib);
    let mut exports = BTreeMap::new();
    for item in code.split("pub use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        let Some((module, names)) = item.split_once("::") else { continue };
        for name in names.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty()) {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

// ---- deciding -------------------------------------------------------------------------------------------------------

fn check_file(path: &Path, text: &str, exports: &BTreeMap<String, String>) -> Vec<String> {
    let module = module_of(path);
    if FACADES.contains(&module.as_str()) {
        return Vec::new();
    }
    let refuse = |why: String| format!("src/{}: {why}", path.display());
    let Some(own) = layer(&module) else {
        return vec![refuse(format!("`{module}` is in no layer: give it a line in LAYERS"))];
    };
    let imports = imports_of(&code_of(text)).into_iter();
    let modules =
        imports.map(|name| if layer(&name).is_some() { name } else { exports.get(&name).cloned().unwrap_or(name) });
    modules.filter(|other| *other != module).filter_map(|other| objection(&module, own, &other)).map(refuse).collect()
}

fn objection(module: &str, own: usize, other: &str) -> Option<String> {
    let narrow = NARROW.iter().find(|(name, _)| *name == module);
    match layer(other) {
        None => Some(format!("`{module}` imports `{other}`, which is in no layer")),
        Some(theirs) if theirs >= own => Some(format!("`{module}` imports `{other}`, which is not below it")),
        Some(_) if narrow.is_some_and(|(_, allowed)| !allowed.contains(&other)) => {
            Some(format!("`{module}` must stay usable on its own, but imports `{other}`"))
        }
        Some(_) => None,
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// `topic/kafka/commit.rs` and `topic.rs` both belong to `topic`.
fn module_of(path: &Path) -> String {
    let first = path.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

/// The first name after every `crate::`, of each member for a group in braces. `$crate::` is written for other crates.
fn imports_of(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, marker) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + marker.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_members(group)),
            None => names.extend(leading_name(rest)),
        }
    }
    names
}

/// The first name of each member of `a::B, c::{D, E}, f}`, given what follows the opening brace.
fn group_members(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut at_start) = (Vec::new(), 0_u32, true);
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                names.extend(leading_name(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn leading_name(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}
