//! Strict reading of the two files: every mistake at once, each with its place.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_chart::UserValues;
use slipway_problem::{Problem, Problems, nearest_name};
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use crate::model::{Declaration, Located, Runner, Settings, StackFile};

const API_VERSION: &str = "ktl.dev/v1";
const DEEPEST: usize = 64;
const LARGEST: usize = 1 << 20;
/// Names that would stand beside the run records under the same directory.
const RESERVED: &[&str] = &["runs", "sealed", "exports", "keys", "locks", "cache"];
/// Keys only a release may have.
const RELEASE_ONLY: &[&str] = &["name", "chart", "chartVersion", "needs"];

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stack,
    Release,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Stack => "Stack",
            Self::Release => "Release",
        }
    }
}

/// The content of a file.
pub(crate) enum Read {
    Stack(Box<StackFile>),
    Release(Box<Declaration>),
    /// Somebody else's file of the same name, with what says so.
    Foreign(String),
    /// Nothing could be made of it; the problems say why.
    Unreadable,
}

/// The place of a file.
pub(crate) struct Place<'a> {
    pub dir: &'a str,
    pub path: &'a str,
    /// Its name in messages.
    pub shown: &'a str,
}

/// Reads one file. What can be read is given even if there are problems, so that others are found too.
pub(crate) fn read(kind: Kind, text: &str, place: &Place<'_>, problems: &mut Problems) -> Read {
    let reader = YamlReader::new().max_depth(DEEPEST).max_bytes(LARGEST);
    let mut documents = match reader.read(text, place.shown) {
        Ok(documents) => documents,
        Err(found) => {
            // A foreign file need not be one we can read.
            if let Some(api_version) = foreign_text(text) {
                return Read::Foreign(format!("apiVersion={api_version}"));
            }
            problems.extend(found);
            return Read::Unreadable;
        }
    };
    if let Some(reason) = documents.first().and_then(|root| foreign(kind, root, place)) {
        return Read::Foreign(reason);
    }
    if documents.len() > 1 {
        problems.push(documents[1].problem(format!("{} holds only one document", file_name(kind))));
    }
    if documents.is_empty() {
        return match kind {
            Kind::Stack => Read::Stack(Box::new(StackFile {
                dir: place.dir.to_owned(),
                path: place.path.to_owned(),
                ..StackFile::default()
            })),
            Kind::Release => {
                let at = slipway_problem::Location::file(place.shown);
                problems.push(Problem::error(format!("{}: the file is empty", file_name(kind))).at(at));
                Read::Unreadable
            }
        };
    }
    let root = documents.swap_remove(0);
    refuse_tags(&root, problems);
    let mut found = Problems::new();
    let read = match kind {
        Kind::Stack => Read::Stack(Box::new(stack(&root, place, &mut found))),
        Kind::Release => match release_file(&root, place, &mut found) {
            Some(declaration) => Read::Release(Box::new(declaration)),
            None => Read::Unreadable,
        },
    };
    problems.extend(found.into_iter().map(reword));
    read
}

fn file_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Stack => "stack.yaml",
        Kind::Release => "release.yaml",
    }
}

/// Tells that a file is not ours, and why: its `apiVersion` is of another group, or it has neither `apiVersion` nor `kind`
/// nor any key of ours, even misspelt. The root's own file is always taken for ours.
fn foreign(kind: Kind, root: &YamlNode, place: &Place<'_>) -> Option<String> {
    if let Some(api_version) = root.get("apiVersion") {
        let api_version = api_version.as_str()?;
        return (api_version.split('/').next() != Some("ktl.dev"))
            .then(|| format!("apiVersion={api_version}"));
    }
    let is_root = kind == Kind::Stack && place.dir.is_empty();
    let keys = root.as_map().filter(|keys| !keys.is_empty() && !is_root)?;
    let known = match kind {
        Kind::Stack => stack_schema(),
        Kind::Release => release_schema(),
    };
    let known: Vec<&str> = known["properties"].as_object()?.keys().map(String::as_str).collect();
    let is_ours = |key: &str| known.contains(&key) || nearest_name(key, known.iter().copied()).is_some();
    let mut names = keys.iter().map(|(key, _)| key.key_text());
    (!names.any(|key| is_ours(&key))).then(|| format!("it has no key of a {}", file_name(kind)))
}

/// The same by looking at the lines, for files that are not valid YAML to us.
fn foreign_text(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("apiVersion:"))?;
    let api_version = line.split('#').next()?.trim().trim_matches(['"', '\'']);
    let theirs = !api_version.is_empty() && api_version.split('/').next() != Some("ktl.dev");
    theirs.then(|| api_version.to_owned())
}

/// Custom tags say something only their program knows.
fn refuse_tags(root: &YamlNode, problems: &mut Problems) {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        if let Some(tag) = node.tag().filter(|tag| !tag.starts_with("tag:yaml.org,2002:") && *tag != "!") {
            problems.push(node.problem(format!("tag `{tag}` is not allowed here")));
        }
        open.extend(node.as_seq().into_iter().flatten());
        for (key, value) in node.as_map().into_iter().flat_map(slipway_yaml::Mapping::iter) {
            open.extend([key, value]);
        }
    }
}

/// Gives problems of unknown keys the wording and the code of the catalogue.
fn reword(problem: Problem) -> Problem {
    let Some(name) = problem.message.strip_prefix("unknown key `").and_then(|rest| rest.strip_suffix('`'))
    else {
        return problem;
    };
    let mut reworded = problem.clone();
    reworded.message = format!("unknown field \"{name}\"");
    reworded.code = Some("ST002".to_owned());
    let suggestion = problem.hint.as_deref().and_then(|hint| hint.strip_prefix("did you mean `"));
    if let Some(meant) = suggestion.and_then(|rest| rest.strip_suffix("`?")) {
        reworded.message += &format!(" (did you mean \"{meant}\"?)");
        reworded.hint = None;
    }
    reworded
}

fn heads(fields: &mut FieldReader<'_, '_>, kind: Kind) {
    fields.ignore_prefix("x-");
    if let Some(api_version) = fields.str("apiVersion").filter(|version| *version != API_VERSION) {
        let message = format!("expected apiVersion {API_VERSION}, found \"{api_version}\"");
        fields.report_problem("apiVersion", message);
    }
    if let Some(found) = fields.str("kind").filter(|found| *found != kind.name()) {
        let problem = fields
            .node_of("kind")
            .problem(format!("expected kind {}, found \"{found}\"", kind.name()))
            .code("ST003");
        fields.problems().push(problem);
    }
}

fn stack(root: &YamlNode, place: &Place<'_>, problems: &mut Problems) -> StackFile {
    let is_root = place.dir.is_empty();
    let mut fields = FieldReader::new(root, problems);
    heads(&mut fields, Kind::Stack);
    let mut file =
        StackFile { dir: place.dir.to_owned(), path: place.path.to_owned(), ..StackFile::default() };
    file.name = located(&mut fields, "name", FieldReader::string);
    file.default_profile = located(&mut fields, "defaultProfile", FieldReader::string);
    for (key, given) in [("name", &file.name), ("defaultProfile", &file.default_profile)] {
        if given.is_some() && !is_root {
            fields.report_problem(key, format!("{key} is only allowed in the root stack.yaml"));
        }
    }
    if let Some(name) = &file.name
        && let Some(wrong) = wrong_stack_name(&name.value)
    {
        fields.report_problem("name", wrong);
    }
    if let Some(profile) = &file.default_profile
        && let Some(wrong) = wrong_word("profile", &profile.value)
    {
        fields.report_problem("defaultProfile", wrong);
    }
    file.defaults = fields.fields("defaults", |fields| inherited(fields, "defaults")).unwrap_or_default();
    file.profiles = fields.entries("profiles", |name, node, problems| {
        let name_text = name.key_text().into_owned();
        if let Some(wrong) = wrong_word("profile", &name_text) {
            problems.push(name.problem(wrong));
        }
        let mut fields = FieldReader::new(node, problems);
        fields.ignore_prefix("x-");
        let what = "a profile's defaults";
        let settings = fields.fields("defaults", |fields| inherited(fields, what)).unwrap_or_default();
        fields.finish();
        Some((name_text, settings))
    });
    if let Some(runner) = fields.fields("runner", runner) {
        if !is_root {
            fields.report_problem("runner", "runner is only allowed in the root stack.yaml");
        }
        file.runner = runner;
    }
    let mut index = 0;
    file.releases = fields.seq("releases", |item, problems| {
        let mut fields = FieldReader::new(item, problems);
        let declaration = release(&mut fields, place, Some(index));
        fields.finish();
        index += 1;
        declaration
    });
    fields.finish();
    file
}

fn runner(fields: &mut FieldReader<'_, '_>) -> Runner {
    fields.ignore_prefix("x-");
    let positive = |fields: &mut FieldReader<'_, '_>, key: &'static str, value: Option<u64>| {
        if value == Some(0) {
            fields.report_problem(key, format!("`{key}` must be at least 1"));
        }
        value.filter(|value| *value > 0)
    };
    let concurrency = fields.u64("concurrency");
    let concurrency = positive(fields, "concurrency", concurrency);
    let mut per_cluster = Vec::new();
    let key = "concurrencyPerCluster";
    match fields.optional(key) {
        Some(node) if node.as_map().is_some() => {
            per_cluster = fields.entries(key, |name, value, problems| {
                let limit = value.as_u64().filter(|limit| *limit > 0);
                if limit.is_none() {
                    problems.push(value.problem("a limit must be a whole number from 1"));
                }
                Some((name.key_text().into_owned(), limit?))
            });
        }
        Some(_) => {
            let limit = fields.u64(key);
            per_cluster.extend(positive(fields, key, limit).map(|limit| (String::new(), limit)));
        }
        None => {}
    }
    Runner { concurrency, per_cluster }
}

fn release_file(root: &YamlNode, place: &Place<'_>, problems: &mut Problems) -> Option<Declaration> {
    let mut fields = FieldReader::new(root, problems);
    heads(&mut fields, Kind::Release);
    let declaration = release(&mut fields, place, None);
    fields.finish();
    declaration
}

fn release(fields: &mut FieldReader<'_, '_>, place: &Place<'_>, index: Option<usize>) -> Option<Declaration> {
    fields.ignore_prefix("x-");
    let name = located(fields, "name", FieldReader::text);
    let chart = located(fields, "chart", FieldReader::string);
    let what = index.map_or_else(|| "the release".to_owned(), |index| format!("releases[{index}]"));
    for (key, missing) in [("name", name.is_none()), ("chart", chart.is_none())] {
        if missing
            && (!fields.has_key(key) || fields.node_of(key).is_null())
            && fields.node().as_map().is_some()
        {
            let problem = fields.node().problem(format!("{what} has no {key}")).code("ST004");
            fields.problems().push(problem);
        }
    }
    if let Some(name) = &name
        && let Some(wrong) = wrong_label("release name", &name.value, 53)
    {
        fields.report_problem("name", wrong);
    }
    if chart.as_ref().is_some_and(|chart| chart.value.is_empty()) {
        fields.report_problem("chart", "`chart` is empty");
    }
    let chart_version = located(fields, "chartVersion", FieldReader::text);
    let needs = fields.seq("needs", |item, problems| {
        let need = text_item(item, "needs", problems)?;
        if need.value.is_empty() || need.value.matches('/').count() > 1 {
            problems
                .push(item.problem(format!("need \"{}\" is neither a name nor namespace/name", need.value)));
            return None;
        }
        Some(need)
    });
    let own = settings(fields);
    Some(Declaration {
        dir: place.dir.to_owned(),
        path: place.path.to_owned(),
        index,
        at: fields.node().location(),
        name: name?,
        chart: chart?,
        chart_version,
        needs,
        own,
    })
}

/// Settings under `defaults`, where a release's own keys are a mistake worth its own words.
fn inherited(fields: &mut FieldReader<'_, '_>, what: &str) -> Settings {
    fields.ignore_prefix("x-");
    for key in RELEASE_ONLY {
        if fields.has_key(key) {
            fields.ignore(key);
            let at = fields.node().as_map().and_then(|mapping| mapping.entry(key));
            let node = at.map_or(fields.node(), |(name, _)| name);
            let problem = node.problem(format!("\"{key}\" is not allowed under {what}"));
            fields.problems().push(problem.hint("it belongs to a single release"));
        }
    }
    settings(fields)
}

fn settings(fields: &mut FieldReader<'_, '_>) -> Settings {
    let mut settings = Settings::default();
    fields.fields("cluster", |cluster| {
        cluster.ignore_prefix("x-");
        settings.cluster = located(cluster, "name", FieldReader::string);
        settings.kubeconfig = located(cluster, "kubeconfig", FieldReader::string);
        settings.context = located(cluster, "context", FieldReader::string);
        if let Some(name) = &settings.cluster
            && let Some(wrong) = wrong_word("cluster name", &name.value)
        {
            cluster.report_problem("name", wrong);
        }
    });
    settings.namespace = located(fields, "namespace", FieldReader::text);
    if let Some(namespace) = &settings.namespace
        && let Some(wrong) = wrong_label("namespace", &namespace.value, 63)
    {
        fields.report_problem("namespace", wrong);
    }
    settings.values = fields.seq("values", |item, problems| {
        let value = text_item(item, "values", problems)?;
        if value.value.is_empty() {
            problems.push(item.problem("a values file needs a name"));
            return None;
        }
        Some(value)
    });
    settings.set = fields.entries("set", |name, value, problems| {
        let key = name.key_text().into_owned();
        if let Some(wrong) = wrong_set_key(&key) {
            problems.push(name.problem(wrong));
            return None;
        }
        if value.as_map().is_some() || value.as_seq().is_some() {
            let problem = value.problem(format!("`set` takes plain values, not {}", value.kind_name()));
            problems.push(problem.hint("put structures into a values file, or set their leaves: `a.b: 1`"));
            return None;
        }
        Some((key, Located { value: value.to_json(), at: name.location() }))
    });
    settings.tags = fields.seq("tags", |item, problems| {
        let tag = text_item(item, "tags", problems)?;
        if !is_tag(&tag.value) {
            let message =
                format!("tag \"{}\" may hold only letters, digits, `.`, `_`, `/` and `-`", tag.value);
            problems.push(item.problem(message));
            return None;
        }
        Some(tag)
    });
    fields.fields("apply", |apply| {
        apply.ignore_prefix("x-");
        settings.atomic = located(apply, "atomic", FieldReader::bool);
        settings.wait = located(apply, "wait", FieldReader::bool);
        settings.create_namespace = located(apply, "createNamespace", FieldReader::bool);
        settings.apply_timeout = timeout(apply);
    });
    fields.fields("delete", |delete| {
        delete.ignore_prefix("x-");
        settings.delete_timeout = timeout(delete);
    });
    settings.reset_values = fields.bool("resetValues").unwrap_or(false);
    settings.reset_tags = fields.bool("resetTags").unwrap_or(false);
    settings
}

fn timeout(fields: &mut FieldReader<'_, '_>) -> Option<Located<Duration>> {
    let text = located(fields, "timeout", FieldReader::text)?;
    let parsed =
        slipway_go::time::Duration::parse_unsigned(&text.value).filter(|duration| !duration.is_zero());
    if parsed.is_none() {
        let problem = fields.node_of("timeout").problem(format!("`{}` is not a duration", text.value));
        fields.problems().push(problem.hint("write a number with a unit: `90s`, `10m`, `1h30m`"));
    }
    Some(Located { value: parsed?, at: text.at })
}

fn located<'n, 'p, T>(
    fields: &mut FieldReader<'n, 'p>,
    key: &'static str,
    read: impl Fn(&mut FieldReader<'n, 'p>, &'static str) -> Option<T>,
) -> Option<Located<T>> {
    let value = read(fields, key)?;
    Some(Located { value, at: fields.node_of(key).location() })
}

fn text_item(item: &YamlNode, key: &str, problems: &mut Problems) -> Option<Located<String>> {
    let text = item.scalar_text().filter(|_| !item.is_null());
    if text.is_none() {
        problems.push(item.problem(format!("`{key}` must hold strings, not {}", item.kind_name())));
    }
    Some(Located { value: text?.into_owned(), at: item.location() })
}

fn wrong_stack_name(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("a stack cannot be called \"{name}\": the run records use that name"));
    }
    wrong_word("stack name", name)
}

/// Names that become parts of paths and ids.
fn wrong_word(what: &str, word: &str) -> Option<String> {
    let plain = word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && word.len() <= 63
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    (!plain).then(|| {
        format!(
            "{what} \"{word}\" must be 1 to 63 letters, digits, `.`, `_` or `-`, starting with a letter or \
             digit"
        )
    })
}

fn wrong_label(what: &str, text: &str, longest: usize) -> Option<String> {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let valid = text.starts_with(edge)
        && text.ends_with(edge)
        && text.len() <= longest
        && text.chars().all(|c| edge(c) || c == '-');
    (!valid).then(|| {
        format!(
            "{what} \"{text}\" must be 1 to {longest} lower-case letters, digits or `-`, starting and ending \
             with a letter or digit"
        )
    })
}

/// Tells that a text can be a tag.
pub(crate) fn is_tag(tag: &str) -> bool {
    tag.starts_with(|first: char| first.is_ascii_alphanumeric())
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte))
}

/// Keys follow Helm's `--set` grammar; their values stand beside them, so `=` and `,` have no place.
fn wrong_set_key(key: &str) -> Option<String> {
    let mut escaped = false;
    let bare = |c: char, escaped: bool| !escaped && (c == '=' || c == ',');
    for c in key.chars() {
        if bare(c, escaped) {
            return Some(format!("set key \"{key}\" holds `{c}`; write `\\{c}` if it is part of the name"));
        }
        escaped = c == '\\' && !escaped;
    }
    let empty = key.is_empty() || key.starts_with('.') || key.ends_with('.') && !key.ends_with("\\.");
    if empty {
        return Some(format!("set key \"{key}\" has an empty part"));
    }
    // What Helm's own grammar makes of it has the last word.
    let probe = UserValues { set_json: vec![format!("{key}=null")], ..UserValues::default() };
    let wrong = probe.build_map().is_err();
    wrong.then(|| format!("set key \"{key}\" is not a path such as `a.b` or `list[0].name`"))
}

/// Up to three known names near a wrong one.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut left: Vec<&str> = known.into_iter().collect();
    let mut found = Vec::new();
    while found.len() < 3
        && let Some(next) = nearest_name(name, left.iter().copied())
    {
        found.push(next);
        left.retain(|known| *known != next);
    }
    found
}

/// Checks one `stack.yaml` by itself, as that of a root.
pub fn check_stack_file(text: &str, name: &str) -> Result<(), Problems> {
    check_file(Kind::Stack, text, name)
}

/// Checks one `release.yaml` by itself.
pub fn check_release_file(text: &str, name: &str) -> Result<(), Problems> {
    check_file(Kind::Release, text, name)
}

fn check_file(kind: Kind, text: &str, name: &str) -> Result<(), Problems> {
    let mut problems = Problems::new();
    let place = Place { dir: "", path: name, shown: name };
    if let Read::Foreign(reason) = read(kind, text, &place, &mut problems) {
        problems.push(Problem::error(format!("this is no {}: {reason}", file_name(kind))));
    }
    problems.into_result(())
}

/// Names that become parts of paths and ids.
const WORD: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";
/// Go's notation of durations.
const DURATION: &str = "^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";
const TAG: &str = "^[A-Za-z0-9][A-Za-z0-9._/-]*$";
/// A name, or a namespace and a name.
const NEED: &str = "^([^/]+|[^/]*/[^/]*)$";

/// The JSON Schema of `stack.yaml`, for editors.
pub fn stack_schema() -> Value {
    let settings = object(settings_properties());
    let mut release = settings_properties();
    release.extend(release_properties());
    let word = |about: &str| json!({"type": "string", "pattern": WORD, "description": about});
    let mut name = word("Name of the stack; the root file alone");
    name["not"] = json!({"enum": RESERVED});
    let limit = json!({"type": "integer", "minimum": 1});
    let root = object(vec![
        ("apiVersion", json!({"const": API_VERSION})),
        ("kind", json!({"const": "Stack"})),
        ("name", name),
        ("defaultProfile", word("Profile used unless --profile names one; the root file alone")),
        ("defaults", settings.clone()),
        (
            "profiles",
            json!({
                "type": "object",
                "propertyNames": {"pattern": WORD},
                "additionalProperties": object(vec![("defaults", settings)]),
            }),
        ),
        (
            "runner",
            object(vec![
                ("concurrency", limit.clone()),
                (
                    "concurrencyPerCluster",
                    json!({"oneOf": [limit, {"type": "object", "additionalProperties": limit}]}),
                ),
            ]),
        ),
        ("releases", json!({"type": "array", "items": required(object(release))})),
    ]);
    title(root, "Slipway stack file")
}

/// The JSON Schema of `release.yaml`, for editors.
pub fn release_schema() -> Value {
    let mut properties =
        vec![("apiVersion", json!({"const": API_VERSION})), ("kind", json!({"const": "Release"}))];
    properties.extend(release_properties());
    properties.extend(settings_properties());
    title(required(object(properties)), "Slipway release file")
}

fn title(mut schema: Value, title: &str) -> Value {
    let mut titled = json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": title});
    if let (Some(titled), Some(schema)) = (titled.as_object_mut(), schema.as_object_mut()) {
        titled.append(schema);
    }
    titled
}

fn required(mut schema: Value) -> Value {
    schema["required"] = json!(["name", "chart"]);
    schema
}

fn object(properties: Vec<(&'static str, Value)>) -> Value {
    let properties: serde_json::Map<String, Value> =
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "patternProperties": {"^x-": {}},
        "properties": properties,
    })
}

/// A DNS label.
fn label(longest: u32, about: &str) -> Value {
    json!({
        "type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": longest, "description": about,
    })
}

fn release_properties() -> Vec<(&'static str, Value)> {
    vec![
        ("name", label(53, "Release name")),
        (
            "chart",
            json!({"type": "string", "minLength": 1, "description": "Chart, package or kustomization: a path, repo/name or oci://…"}),
        ),
        (
            "chartVersion",
            json!({"type": ["string", "number"], "description": "Version, or range of versions, of a chart that is not a path"}),
        ),
        (
            "needs",
            json!({
                "type": "array",
                "items": {"type": "string", "pattern": NEED},
                "description": "Releases that come first: a name, or a namespace and a name",
            }),
        ),
    ]
}

fn settings_properties() -> Vec<(&'static str, Value)> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let flag = |about: &str| json!({"type": "boolean", "description": about});
    // Zero is no limit of time.
    let timeout = json!({
        "type": "string", "pattern": DURATION, "not": {"pattern": "^[^1-9]*$"}, "description": "90s, 10m, 1h30m",
    });
    vec![
        (
            "cluster",
            object(vec![
                (
                    "name",
                    json!({"type": "string", "pattern": WORD, "description": "Name of the cluster in plans and records"}),
                ),
                ("kubeconfig", text("Kubeconfig file of the cluster")),
                ("context", text("Context of the kubeconfig")),
            ]),
        ),
        ("namespace", label(63, "Namespace of the release")),
        (
            "values",
            json!({"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "description": "Values files"}),
        ),
        (
            "set",
            json!({
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                "description": "Single values by their path: `image.tag: 1.2.3`",
            }),
        ),
        (
            "tags",
            json!({"type": ["array", "null"], "items": {"type": "string", "pattern": TAG}, "description": "Words to select releases by"}),
        ),
        (
            "apply",
            object(vec![
                ("atomic", flag("Go back to the last good revision when it fails")),
                ("timeout", timeout.clone()),
                ("wait", flag("Wait until every object is ready")),
                ("createNamespace", flag("Create the namespace if it is missing")),
            ]),
        ),
        ("delete", object(vec![("timeout", timeout)])),
        ("resetValues", flag("Leave out the values files of the layers above")),
        ("resetTags", flag("Leave out the tags of the layers above")),
    ]
}
