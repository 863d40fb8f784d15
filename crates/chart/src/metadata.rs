//! Chart.yaml and Chart.lock: their fields, checks and written forms.

use serde_json::{Map, Value, json};

use crate::decode::{self, StructFields};
use crate::version;
use slipway_go::GoError;
use slipway_go::filepath;

/// A chart's own description of itself (Chart.yaml).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartMetadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    /// In the order of the file.
    pub annotations: Vec<(String, String)>,
    pub kube_version: String,
    pub dependencies: Vec<Dependency>,
    /// `application`, `library` or empty.
    pub chart_type: String,
    /// Something the file said that only shows when the chart is checked.
    pub(crate) null_maintainer: bool,
    pub(crate) null_dependency: bool,
}

/// The reason a Chart.yaml cannot be used, in Helm's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error("validation: {0}")]
    Invalid(String),
    /// Helm accepts this one in the index of a repository.
    #[error("validation: more than one dependency with name or alias {0:?}")]
    DuplicateDependency(String),
}

/// Someone who looks after a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// A chart another chart is built from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    /// Each a string or a `{child, parent}` map.
    pub import_values: Vec<Value>,
    pub alias: String,
}

/// The versions the dependencies resolved to (Chart.lock).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartLock {
    pub generated: String,
    pub digest: String,
    pub dependencies: Vec<Dependency>,
}

impl ChartMetadata {
    /// Reads the fields of Chart.yaml over what is there already (requirements.yaml comes second).
    pub(crate) fn read_fields(&mut self, value: &Value) -> Result<(), GoError> {
        let Some(map) = decode::expect_object(value, "chart.Metadata")? else { return Ok(()) };
        let fields = StructFields::new(map, "Metadata");
        for (name, field) in [
            ("name", &mut self.name),
            ("home", &mut self.home),
            ("version", &mut self.version),
            ("description", &mut self.description),
            ("icon", &mut self.icon),
            ("apiVersion", &mut self.api_version),
            ("condition", &mut self.condition),
            ("tags", &mut self.tags),
            ("appVersion", &mut self.app_version),
            ("kubeVersion", &mut self.kube_version),
            ("type", &mut self.chart_type),
        ] {
            if fields.get(name).is_some() {
                *field = fields.string_field(name)?;
            }
        }
        if fields.get("sources").is_some() {
            self.sources = fields.string_list("sources")?;
        }
        if fields.get("keywords").is_some() {
            self.keywords = fields.string_list("keywords")?;
        }
        if fields.get("deprecated").is_some() {
            self.deprecated = fields.bool_field("deprecated")?;
        }
        if let Some(annotations) = fields.string_map("annotations")? {
            self.annotations = annotations;
        }
        if fields.get("maintainers").is_some() {
            self.maintainers.clear();
            for item in fields.object_list("maintainers", "[]*chart.Maintainer", "chart.Maintainer")? {
                let Some(map) = item else {
                    self.null_maintainer = true;
                    continue;
                };
                let fields = StructFields::new(map, "Maintainer.maintainers");
                self.maintainers.push(Maintainer {
                    name: fields.string_field("name")?,
                    email: fields.string_field("email")?,
                    url: fields.string_field("url")?,
                });
            }
        }
        if fields.get("dependencies").is_some() {
            let items = fields.object_list("dependencies", "[]*chart.Dependency", "chart.Dependency")?;
            self.null_dependency = items.iter().any(Option::is_none);
            self.dependencies =
                items.into_iter().flatten().map(Dependency::from_fields).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Cleans the text fields and checks what every chart must have; the text is Helm's.
    pub(crate) fn validate(&mut self) -> Result<(), MetadataError> {
        for field in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ]
        .into_iter()
        .chain(&mut self.sources)
        .chain(&mut self.keywords)
        {
            sanitize_text(field);
        }
        let fail = |text: String| Err(MetadataError::Invalid(text));
        if self.api_version.is_empty() {
            return fail("chart.metadata.apiVersion is required".into());
        }
        if self.name.is_empty() {
            return fail("chart.metadata.name is required".into());
        }
        if filepath::base(&self.name) != self.name {
            return fail(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return fail("chart.metadata.version is required".into());
        }
        if !version::is_loose(&self.version) {
            return fail(format!("chart.metadata.version {:?} is invalid", self.version));
        }
        if !matches!(self.chart_type.as_str(), "" | "application" | "library") {
            return fail("chart.metadata.type must be application or library".into());
        }
        if self.null_maintainer {
            return fail("maintainers must not contain empty or null nodes".into());
        }
        for maintainer in &mut self.maintainers {
            for field in [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url] {
                sanitize_text(field);
            }
        }
        let mut seen: Vec<String> = Vec::new();
        if self.null_dependency {
            return fail("dependencies must not contain empty or null nodes".into());
        }
        for dependency in &mut self.dependencies {
            dependency.validate()?;
            let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if seen.contains(key) {
                return Err(MetadataError::DuplicateDependency(key.clone()));
            }
            seen.push(key.clone());
        }
        Ok(())
    }

    /// Returns true if this is a library chart, of which others use only the partials.
    pub fn is_library(&self) -> bool {
        self.chart_type.eq_ignore_ascii_case("library")
    }

    /// The JSON form, fields in the order of Helm's struct, empty ones left out.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let text = |map: &mut Map<String, Value>, key: &str, value: &str| {
            if !value.is_empty() {
                map.insert(key.into(), json!(value));
            }
        };
        text(&mut map, "name", &self.name);
        text(&mut map, "home", &self.home);
        if !self.sources.is_empty() {
            map.insert("sources".into(), json!(self.sources));
        }
        text(&mut map, "version", &self.version);
        text(&mut map, "description", &self.description);
        if !self.keywords.is_empty() {
            map.insert("keywords".into(), json!(self.keywords));
        }
        if !self.maintainers.is_empty() {
            let maintainers = self.maintainers.iter().map(|maintainer| {
                let mut map = Map::new();
                text(&mut map, "name", &maintainer.name);
                text(&mut map, "email", &maintainer.email);
                text(&mut map, "url", &maintainer.url);
                Value::Object(map)
            });
            map.insert("maintainers".into(), maintainers.collect());
        }
        text(&mut map, "icon", &self.icon);
        text(&mut map, "apiVersion", &self.api_version);
        text(&mut map, "condition", &self.condition);
        text(&mut map, "tags", &self.tags);
        text(&mut map, "appVersion", &self.app_version);
        if self.deprecated {
            map.insert("deprecated".into(), json!(true));
        }
        if !self.annotations.is_empty() {
            let mut annotations = self.annotations.clone();
            annotations.sort();
            map.insert("annotations".into(), annotations.into_iter().map(|(k, v)| (k, json!(v))).collect());
        }
        text(&mut map, "kubeVersion", &self.kube_version);
        if !self.dependencies.is_empty() {
            map.insert("dependencies".into(), self.dependencies.iter().map(Dependency::to_json).collect());
        }
        text(&mut map, "type", &self.chart_type);
        Value::Object(map)
    }
}

impl Dependency {
    pub(crate) fn from_fields(map: &Map<String, Value>) -> Result<Self, GoError> {
        let fields = StructFields::new(map, "Dependency.dependencies");
        Ok(Self {
            name: fields.string_field("name")?,
            version: fields.string_field("version")?,
            repository: fields.string_field("repository")?,
            condition: fields.string_field("condition")?,
            tags: fields.string_list("tags")?,
            enabled: fields.bool_field("enabled")?,
            import_values: fields.list_field("import-values", "[]interface {}")?.cloned().unwrap_or_default(),
            alias: fields.string_field("alias")?,
        })
    }

    fn validate(&mut self) -> Result<(), MetadataError> {
        for field in [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition]
            .into_iter()
            .chain(&mut self.tags)
        {
            sanitize_text(field);
        }
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if !self.alias.chars().all(allowed) {
            let text = format!("dependency {:?} has disallowed characters in the alias", self.name);
            return Err(MetadataError::Invalid(text));
        }
        Ok(())
    }

    /// The JSON form, fields in the order of Helm's struct.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".into(), json!(self.name));
        let mut put = |key: &str, value: Value, empty: bool| {
            if !empty {
                map.insert(key.into(), value);
            }
        };
        put("version", json!(self.version), self.version.is_empty());
        put("repository", json!(self.repository), false);
        put("condition", json!(self.condition), self.condition.is_empty());
        put("tags", json!(self.tags), self.tags.is_empty());
        put("enabled", json!(self.enabled), !self.enabled);
        put("import-values", json!(self.import_values), self.import_values.is_empty());
        put("alias", json!(self.alias), self.alias.is_empty());
        Value::Object(map)
    }
}

impl ChartLock {
    pub(crate) fn from_value(value: &Value) -> Result<Self, GoError> {
        let Some(map) = decode::expect_object(value, "chart.Lock")? else { return Ok(Self::default()) };
        let fields = StructFields::new(map, "Lock");
        let items = fields.object_list("dependencies", "[]*chart.Dependency", "chart.Dependency")?;
        Ok(Self {
            generated: fields.string_field("generated")?,
            digest: fields.string_field("digest")?,
            dependencies: items
                .into_iter()
                .flatten()
                .map(Dependency::from_fields)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The JSON form Chart.lock is written from.
    pub fn to_json(&self) -> Value {
        json!({
            "generated": self.generated,
            "digest": self.digest,
            "dependencies": self.dependencies.iter().map(Dependency::to_json).collect::<Vec<_>>(),
        })
    }
}

/// Unicode spaces become plain ones, what cannot be printed goes.
fn sanitize_text(text: &mut String) {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|letter| match letter {
            letter if letter.is_whitespace() => Some(' '),
            letter if letter.is_control() || is_unprintable(letter) => None,
            letter => Some(letter),
        })
        .collect();
}

/// Format characters, private use and unassigned planes, as far as they occur in text.
fn is_unprintable(letter: char) -> bool {
    matches!(
        u32::from(letter),
        0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E
            | 0x2060..=0x206F | 0xE000..=0xF8FF | 0xFEFF | 0xFFF0..=0xFFFB | 0xFFFE..=0xFFFF
            | 0xE0000..=0x10FFFF
    )
}
