//! The environment of expressions: variables, functions, libraries, limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::check;
use crate::error::{CelError, CelErrorKind};
use crate::library::{Functions, Library, Overload};
use crate::parse::parse;
use crate::program::Program;
use crate::types::Type;

/// The limits of an expression's size and computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text, in bytes.
    pub length: usize,
    /// The deepest nesting.
    pub depth: u32,
    /// The steps one evaluation may take; texts and lists cost by their length.
    pub cost: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { length: 64 << 10, depth: 200, cost: 10_000_000 }
    }
}

/// The environment expressions are compiled in; cheap to clone and to extend.
#[derive(Clone, Debug)]
pub struct Env {
    pub(crate) variables: BTreeMap<Arc<str>, Type>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) libraries: Vec<Library>,
    pub(crate) limits: Limits,
    pub(crate) homogeneous: bool,
    /// Paths of maps whose texts may stand for truth values.
    pub(crate) flags: Vec<Arc<str>>,
}

impl Default for Env {
    fn default() -> Self {
        Self::new()
    }
}

impl Env {
    /// The standard functions and macros, nothing else.
    pub fn new() -> Self {
        static STANDARD: OnceLock<Arc<Functions>> = OnceLock::new();
        let functions = STANDARD.get_or_init(|| Arc::new(Functions::standard())).clone();
        Self {
            variables: BTreeMap::new(),
            functions,
            libraries: Vec::new(),
            limits: Limits::default(),
            homogeneous: false,
            flags: Vec::new(),
        }
    }

    /// Everything there is: the standard functions and every library.
    pub fn with_all_libraries() -> Self {
        static ALL: OnceLock<Env> = OnceLock::new();
        ALL.get_or_init(|| Library::ALL.iter().fold(Self::new(), |env, library| env.library(*library)))
            .clone()
    }

    /// The environment of Kubernetes' validation rules: its libraries, and literals whose elements have one type.
    pub fn kubernetes() -> Self {
        static KUBERNETES: OnceLock<Env> = OnceLock::new();
        let make = || {
            let all = Library::ALL.iter().filter(|library| !Library::OWN.contains(library));
            all.fold(Self::new(), |env, library| env.library(*library)).homogeneous_literals()
        };
        KUBERNETES.get_or_init(make).clone()
    }

    /// Declares a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// Declares a function, or one more signature of it.
    #[must_use]
    pub fn function(mut self, overload: Overload) -> Self {
        Arc::make_mut(&mut self.functions).add(overload);
        self
    }

    /// Enables a library.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        if !self.libraries.contains(&library) {
            self.libraries.push(library);
            Arc::make_mut(&mut self.functions).enable(library);
        }
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Refuses list and map literals whose elements differ in type.
    #[must_use]
    pub fn homogeneous_literals(mut self) -> Self {
        self.homogeneous = true;
        self
    }

    /// Lets the texts of a map (`bundle.labels`) stand for truth values: `true` and `false` where truth is asked
    /// for, and in comparisons with the literals `true` and `false`.
    #[must_use]
    pub fn flags(mut self, path: &str) -> Self {
        self.flags.push(path.into());
        self
    }

    pub(crate) fn has(&self, library: Library) -> bool {
        self.libraries.contains(&library)
    }

    /// Compiles an expression of any type; gives every error there is.
    pub fn compile(&self, text: &str) -> Result<Program, Vec<CelError>> {
        self.build(text, None)
    }

    /// Compiles an expression that must have a type (or be `dyn`, which evaluation then decides).
    pub fn compile_as(&self, text: &str, ty: &Type) -> Result<Program, Vec<CelError>> {
        self.build(text, Some(ty))
    }

    fn build(&self, text: &str, wanted: Option<&Type>) -> Result<Program, Vec<CelError>> {
        if text.len() > self.limits.length {
            let message = format!(
                "expression code point size exceeds limit: size: {}, limit {}",
                text.len(),
                self.limits.length
            );
            let mut error = CelError::new(CelErrorKind::Limit, 0, message);
            error.locate(text);
            return Err(vec![error]);
        }
        let expr = parse(text, self.limits.depth).map_err(|error| vec![error])?;
        check::check(self, text, &expr, wanted)
    }
}
