//! Apache Spark from PyPI: found or installed, its jobs compiled, its commands put together.
//!
//! PyPI's `pyspark` carries a whole Spark with a Scala compiler, so Java and python3 are all the machine has to have.
//! Everything lives in the cache: the installation in `spark/`, the jar of `spark/Lab.scala` in `bench/`.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{cache, process};

/// The release the bars speak of.
pub(crate) const VERSION: &str = "4.3.0";

/// The oldest Java that runs it.
const JAVA: u32 = 17;

const PROGRAM: &str = include_str!("../spark/Lab.scala");

const MINUTE: Duration = Duration::from_secs(60);

/// An installed Spark and the jar with our jobs for it.
#[derive(Debug)]
pub(crate) struct Spark {
    home: PathBuf,
    jar: PathBuf,
    scratch: PathBuf,
}

impl Spark {
    /// Finds Spark in the cache or installs it there; compiles the jobs unless that was done before.
    pub(crate) fn prepare() -> Result<Self> {
        let java = find_java()?;
        let home = install()?;
        let scratch = cache::directory("bench")?;
        let jar = scratch.join(format!("lab-{}.jar", cache::fingerprint(&(VERSION, PROGRAM))));
        cache::file(&jar, |path| compile(&java, &home, path))?;
        Ok(Self { home, jar, scratch })
    }

    /// `spark-submit` of the class `class` with `arguments`, on two cores of this machine.
    pub(crate) fn submit(&self, class: &str, arguments: &[OsString]) -> Command {
        let mut command = Command::new(self.program("spark-submit"));
        remove_settings(&mut command);
        self.prepare_command(&mut command);
        command
            .env("SPARK_LOCAL_IP", "127.0.0.1")
            .current_dir(&self.scratch)
            .args(["--master", "local[2]", "--driver-memory", "4g"])
            // By default it logs every task, which would slow it down where we do not log either.
            .args(["--conf", "spark.log.level=WARN"])
            .args(["--class", class])
            .arg(&self.jar)
            .args(arguments);
        command
    }

    /// One of its commands, such as `spark-class`.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }

    /// What each of its commands has to know.
    pub(crate) fn prepare_command(&self, command: &mut Command) {
        command.env("SPARK_HOME", &self.home);
    }

    /// Where it is installed.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Our jobs for it.
    pub(crate) fn jar(&self) -> &Path {
        &self.jar
    }
}

/// Settings in the environment that are meant for other applications must not change what is measured.
pub(crate) fn remove_settings(command: &mut Command) {
    let is_setting = |name: &OsString| name.to_string_lossy().starts_with("SPARK_");
    for name in env::vars_os().map(|(name, _)| name).filter(is_setting) {
        command.env_remove(name);
    }
}

/// The `java` that runs it.
pub(crate) fn find_java() -> Result<PathBuf> {
    let java = match env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin/java"),
        None => PathBuf::from("java"),
    };
    let wanted = format!(
        "Spark {VERSION} needs Java {JAVA} or newer: install a JRE (Debian, Ubuntu: `apt-get install \
         openjdk-{JAVA}-jre-headless`) and put `java` on the PATH or set JAVA_HOME"
    );
    let version = Command::new(&java)
        .arg("-version")
        .output()
        .with_context(|| format!("no java found ({}). {wanted}", java.display()))?;
    let version = String::from_utf8_lossy(&version.stderr).into_owned();
    match java_release(&version) {
        Some(release) if release >= JAVA => Ok(java),
        _ => bail!("{} is too old ({}). {wanted}", java.display(), version.trim()),
    }
}

/// 17 out of `openjdk version "17.0.15" 2025-04-15`; 1 out of the old style `"1.8.0_402"`.
fn java_release(version: &str) -> Option<u32> {
    let quoted = version.split('"').nth(1)?;
    quoted.split(['.', '-', '+']).next()?.parse().ok()
}

/// The Spark home in the cache, after installing it there if need be.
fn install() -> Result<PathBuf> {
    let environment = cache::directory("spark")?;
    let installed = environment.join(format!("pyspark-{VERSION}.installed"));
    cache::file(&installed, |path| {
        eprintln!("installing pyspark {VERSION} (once, about 500 MB)");
        install_into(&environment).with_context(|| {
            format!(
                "cannot install pyspark {VERSION} (python3 with venv and access to PyPI are needed)"
            )
        })?;
        Ok(fs::write(path, "")?)
    })?;
    find_home(&environment)
}

fn install_into(environment: &Path) -> Result<()> {
    let mut make = Command::new("python3");
    process::run(make.args(["-m", "venv"]).arg(environment), 5 * MINUTE)?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", &format!("pyspark=={VERSION}")]);
    process::run(&mut pip, 15 * MINUTE)?;
    Ok(())
}

/// `lib/pythonX.Y/site-packages/pyspark`: the version of Python is the machine's.
fn find_home(environment: &Path) -> Result<PathBuf> {
    let libraries = environment.join("lib");
    let home = fs::read_dir(&libraries)
        .with_context(|| format!("cannot list {}", libraries.display()))?
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/pyspark")))
        .find(|home| home.join("bin/spark-submit").is_file());
    let home = home.with_context(|| {
        format!("no Spark in {}: delete that directory to install it again", environment.display())
    })?;
    let core = home.join(format!("jars/spark-core_2.13-{VERSION}.jar"));
    ensure!(core.is_file(), "{} is not Spark {VERSION}: delete it", home.display());
    Ok(home)
}

fn compile(java: &Path, home: &Path, jar: &Path) -> Result<()> {
    eprintln!("compiling the jobs for Spark (once per version of Lab.scala)");
    let source = jar.with_extension("scala");
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new(java);
    compiler
        .arg("-cp")
        .arg(home.join("jars/*"))
        .args(["scala.tools.nsc.Main", "-usejavacp", "-nobootcp", "-deprecation", "-d"])
        .arg(jar)
        .arg(&source);
    let compiled = process::run(&mut compiler, 5 * MINUTE).context("cannot compile Lab.scala");
    fs::remove_file(&source)?;
    compiled.map(drop)
}

#[cfg(test)]
mod tests {
    use super::java_release;

    #[test]
    fn the_release_of_java_is_the_first_number_of_its_version() {
        for (printed, release) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("openjdk version \"22-ea\" 2024-03-19", Some(22)),
            ("java version \"1.8.0_402\"", Some(1)),
            ("command not found", None),
        ] {
            assert_eq!(java_release(printed), release, "{printed}");
        }
    }
}
