//! Fills a [`Conf`] from arguments, environment and files.
//!
//! | source | becomes |
//! |---|---|
//! | `--master X` | `spark.master` |
//! | `--conf k=v` | that setting |
//! | `FIRESTEEL_CONF` | properties text that `submit` hands to the program |
//! | `MASTER`, else `SPARK_MASTER` | `spark.master` |
//! | `SPARK_LOCAL_DIRS` | `spark.local.dir` |
//! | `SPARK_DRIVER_MEMORY`, `SPARK_EXECUTOR_MEMORY`, `SPARK_EXECUTOR_CORES` | `spark.driver.memory`, ... |
//! | `--properties-file F` | the settings of F, and none of `spark-defaults.conf` |
//! | `$SPARK_CONF_DIR`, else `$SPARK_HOME/conf` | where `spark-defaults.conf` is; it may be missing |
//!
//! Upper rows win. What the program sets itself wins over all of them. What `submit` starts does not read
//! `spark-defaults.conf` again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::ConfError;
use crate::arguments::Arguments;
use crate::conf::{Conf, Origin};
use crate::properties::{self, Property};

/// The variable in which `submit` hands settings to the program it starts.
const SUBMITTED: &str = "FIRESTEEL_CONF";

/// Variables that are settings; later ones win.
const VARIABLES: [(&str, &str); 6] = [
    ("SPARK_MASTER", "spark.master"),
    ("MASTER", "spark.master"),
    ("SPARK_LOCAL_DIRS", "spark.local.dir"),
    ("SPARK_DRIVER_MEMORY", "spark.driver.memory"),
    ("SPARK_EXECUTOR_MEMORY", "spark.executor.memory"),
    ("SPARK_EXECUTOR_CORES", "spark.executor.cores"),
];

/// Where settings are looked for. It starts with nothing and never looks at the process unless it
/// was made by [`Loader::from_process`].
#[derive(Clone, Debug, Default)]
pub struct Loader {
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// What a [`Loader`] found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings of all sources, merged: the highest source of a key wins.
    pub conf: Conf,
    /// The arguments that are the program's own, in order, without its name.
    pub arguments: Vec<String>,
}

impl Loader {
    /// No arguments, no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The arguments and variables of this process. Variables that are no text are left out.
    pub fn from_process() -> Result<Self, ConfError> {
        let not_unicode = |argument: OsString| ConfError::ArgumentNotUnicode {
            argument: argument.to_string_lossy().into_owned(),
        };
        let arguments: Vec<String> = std::env::args_os()
            .skip(1)
            .map(|argument| argument.into_string().map_err(not_unicode))
            .collect::<Result<_, _>>()?;
        let environment = std::env::vars_os().filter_map(|(variable, value)| {
            Some((variable.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(Self::new().arguments(arguments).environment(environment))
    }

    /// Uses these arguments (without the program's name).
    pub fn arguments<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Uses these variables; empty ones count as not there.
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = variables.filter(|(_, value): &(_, String)| !value.is_empty()).collect();
        self
    }

    /// Reads all sources. Values are not checked yet: [`Conf::validate`] does that, after the
    /// program made its own settings.
    pub fn load(self) -> Result<Loaded, ConfError> {
        let found = Arguments::scan(self.arguments.iter().cloned())?;
        let mut conf = Conf::new();
        match &found.properties_file {
            Some(path) => add_file(&mut conf, path, &read(path)?)?,
            None => self.add_defaults(&mut conf)?,
        }
        self.add_environment(&mut conf)?;
        for (key, value, origin) in found.settings {
            conf.insert(key, value, origin);
        }
        Ok(Loaded { conf, arguments: found.rest })
    }

    fn add_defaults(&self, conf: &mut Conf) -> Result<(), ConfError> {
        if self.environment.contains_key(SUBMITTED) {
            return Ok(()); // `submit` has read them, or was told not to
        }
        let Some(path) = self.defaults_path() else { return Ok(()) };
        match read(&path) {
            Ok(text) => add_file(conf, &path, &text),
            Err(ConfError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn defaults_path(&self) -> Option<PathBuf> {
        let directory = match self.environment.get("SPARK_CONF_DIR") {
            Some(directory) => PathBuf::from(directory),
            None => Path::new(self.environment.get("SPARK_HOME")?).join("conf"),
        };
        Some(directory.join("spark-defaults.conf"))
    }

    fn add_environment(&self, conf: &mut Conf) -> Result<(), ConfError> {
        for (variable, key) in VARIABLES {
            if let Some(value) = self.environment.get(variable) {
                conf.insert(key, value, Origin::Environment { variable: variable.to_owned() });
            }
        }
        let submitted = self.environment.get(SUBMITTED).map_or("", String::as_str);
        for Property { key, value, .. } in parse(SUBMITTED.to_owned(), submitted)? {
            conf.insert(key, value, Origin::Environment { variable: SUBMITTED.to_owned() });
        }
        Ok(())
    }
}

impl Conf {
    /// The settings of this process's arguments, variables and files. Programs that have arguments
    /// of their own use [`Loader::from_process`], which returns them.
    pub fn from_process() -> Result<Self, ConfError> {
        Ok(Loader::from_process()?.load()?.conf)
    }
}

fn add_file(conf: &mut Conf, path: &Path, text: &str) -> Result<(), ConfError> {
    for Property { key, value, line } in parse(path.display().to_string(), text)? {
        conf.insert(key, value, Origin::File { path: path.to_owned(), line });
    }
    Ok(())
}

fn parse(place: String, text: &str) -> Result<Vec<Property>, ConfError> {
    properties::parse(text).map_err(|source| ConfError::ParseProperties { place, source })
}

fn read(path: &Path) -> Result<String, ConfError> {
    std::fs::read_to_string(path)
        .map_err(|source| ConfError::ReadFile { path: path.to_owned(), source })
}
