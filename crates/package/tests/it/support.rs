//! Packages made of text, and what building them gives.

use slipway_package::{Build, Emit, Files, Inputs, LoadOptions, Package, SetValue, ValuesFile};
use slipway_problem::{ProblemSeverity, Problems};

pub(crate) const IDENTITY: &str = "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\n";

/// The Deployment and Service most tests work on: `apps/web` with containers `app` and `sidecar`.
pub(crate) const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: apps}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        image: app:1
        env:
        - name: PORT
          value: \"0\"
        ports: [{name: http, containerPort: 8080}]
      - name: sidecar
        image: side:1
";

pub(crate) const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
";

pub(crate) const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: apps}
";

/// A package under test.
#[derive(Clone, Default)]
pub(crate) struct Kit {
    files: Vec<(String, String)>,
    local: Vec<(String, String)>,
    pub(crate) inputs: Inputs,
}

impl Kit {
    /// Deployment, Service and Namespace, and these parameters.
    pub(crate) fn web(parameters: &str) -> Self {
        Self::bare(parameters)
            .file("resources/deployment.yaml", WEB)
            .file("resources/service.yaml", SERVICE)
            .file("resources/namespace.yaml", NAMESPACE)
    }

    /// Only these parameters.
    pub(crate) fn bare(parameters: &str) -> Self {
        Self::default().file("parameters.yaml", &format!("{IDENTITY}{parameters}"))
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.retain(|(known, _)| known != path);
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    pub(crate) fn patch(self, id: &str, text: &str) -> Self {
        self.file(&format!("patches/{id}.kpatch"), text)
    }

    pub(crate) fn sidecar(self, id: &str, text: &str) -> Self {
        self.file(&format!("patches/{id}.yaml"), text)
    }

    pub(crate) fn local(mut self, path: &str, text: &str) -> Self {
        self.local.push((path.to_owned(), text.to_owned()));
        self
    }

    pub(crate) fn values(mut self, name: &str, text: &str) -> Self {
        self.inputs.values.push(ValuesFile { name: name.to_owned(), text: text.to_owned() });
        self
    }

    pub(crate) fn set(mut self, text: &str) -> Self {
        self.inputs.sets.push(SetValue::yaml(text));
        self
    }

    pub(crate) fn strict(mut self) -> Self {
        self.inputs.strict = true;
        self
    }

    pub(crate) fn package(&self) -> Package {
        let local =
            (!self.local.is_empty()).then(|| ("p.local.kurel".to_owned(), Files::of(self.local.clone())));
        Package::from_files(Files::of(self.files.clone()), local, &LoadOptions::default())
    }

    pub(crate) fn build(&self) -> Result<Build, Problems> {
        self.package().build(&self.inputs)
    }

    /// A build that must work.
    #[track_caller]
    pub(crate) fn built(&self) -> Build {
        match self.build() {
            Ok(build) => build,
            Err(problems) => panic!("{problems}"),
        }
    }

    #[track_caller]
    pub(crate) fn stream(&self) -> String {
        self.built().stream(Emit::default())
    }

    /// A build that must fail.
    #[track_caller]
    pub(crate) fn fails(&self) -> Problems {
        match self.build() {
            Ok(build) => panic!("built:\n{}", build.stream(Emit::default())),
            Err(problems) => problems,
        }
    }

    /// One field of the result: `Deployment/web spec.replicas` as JSON pointers write it.
    #[track_caller]
    pub(crate) fn field(&self, kind: &str, pointer: &str) -> serde_json::Value {
        field(&self.built(), kind, pointer)
    }
}

#[track_caller]
pub(crate) fn field(build: &Build, kind: &str, pointer: &str) -> serde_json::Value {
    let object = build.objects.iter().find(|object| object.id.kind == kind).expect("an object of the kind");
    object.value.pointer(pointer).cloned().unwrap_or_default()
}

/// The codes of errors, in order and without repetition.
pub(crate) fn errors(problems: &Problems) -> Vec<&str> {
    codes(problems, ProblemSeverity::Error)
}

pub(crate) fn warnings(problems: &Problems) -> Vec<&str> {
    codes(problems, ProblemSeverity::Warning)
}

pub(crate) fn codes(problems: &Problems, severity: ProblemSeverity) -> Vec<&str> {
    let mut codes: Vec<&str> = problems
        .iter()
        .filter(|problem| problem.severity == severity)
        .filter_map(|problem| problem.code.as_deref())
        .collect();
    codes.dedup();
    codes
}

/// The text of the problem with a code.
#[track_caller]
pub(crate) fn said(problems: &Problems, code: &str) -> String {
    match problems.iter().find(|problem| problem.code.as_deref() == Some(code)) {
        Some(problem) => problem.to_string(),
        None => panic!("no {code} in:\n{problems}"),
    }
}
