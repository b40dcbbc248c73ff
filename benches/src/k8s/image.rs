//! Spark and a JRE as an image, packed by `firesteel image` as our application is: bash is its program, and two scripts do what the
//! entry point of Spark's own image does.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use super::site::Site;
use crate::{
    cache, process,
    spark::{Spark, find_java},
};

pub(super) const IMAGE: &str = "localhost/spark:1";

/// Pods are asked for with the arguments `driver ...` or `executor`: bash runs the script of that name, in `/`.
const DRIVER: &str = r#"opens=(lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic)
options=(-XX:+IgnoreUnrecognizedVMOptions)
for package in "${opens[@]}"; do options+=("--add-opens=java.base/java.$package=ALL-UNNAMED"); done
for package in jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
    options+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
options+=(-Djdk.reflect.useDirectMethodHandle=false -Dio.netty.tryReflectionSetAccessible=true)
# There is no DNS: executors reach the driver by its address.
exec /opt/java/bin/java "${options[@]}" -Xmx512m -cp '/opt/spark/conf:/opt/spark/jars/*' org.apache.spark.deploy.SparkSubmit \
    --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.driver.host=$SPARK_DRIVER_BIND_ADDRESS" "$@"
"#;

const EXECUTOR: &str = r#"options=()
for name in "${!SPARK_JAVA_OPT_@}"; do options+=("${!name}"); done
exec /opt/java/bin/java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp '/opt/spark/conf:/opt/spark/jars/*' \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
"#;

const MINUTE: Duration = Duration::from_secs(60);

/// Has both nodes know it.
pub(super) fn load(site: &Site, spark: &Spark) -> Result<()> {
    let scripts = cache::directory("bench/spark-image")?;
    fs::write(scripts.join("driver"), DRIVER)?;
    fs::write(scripts.join("executor"), EXECUTOR)?;
    let java = java_home()?;
    let here = |path: &Path, there: &str| format!("{}:{there}", path.display());
    let mut files = vec![
        here(&scripts.join("driver"), "/driver"),
        here(&scripts.join("executor"), "/executor"),
        here(spark.jar(), "/opt/spark/lab.jar"),
        here(&spark.home().join("jars"), "/opt/spark/jars"),
        // Hadoop asks who it is.
        "/etc/passwd:/etc/passwd".to_owned(),
    ];
    files.extend(runtime(&java)?);
    files.extend(libraries(&java)?.iter().map(|path| here(path, &path.display().to_string())));
    site.pack(&files, Path::new("/bin/bash"), IMAGE)
}

/// The files of a JRE that there are: packages leave links to what other packages would bring.
fn runtime(java: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for part in ["bin", "conf", "lib"] {
        let found = fs::read_dir(java.join(part)).with_context(|| format!("{part} of the JRE"))?;
        for path in found.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.exists())
        {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(format!("{}:/opt/java/{part}/{name}", path.display()));
        }
    }
    Ok(files)
}

fn java_home() -> Result<PathBuf> {
    let mut java = Command::new(find_java()?);
    java.args(["-XshowSettings:properties", "-version"]);
    let told = process::end(&mut java, MINUTE)?.stderr;
    let home = told.lines().find_map(|line| line.trim().strip_prefix("java.home = "));
    Ok(PathBuf::from(home.context("java does not say where it is")?))
}

/// Shared libraries that a JRE needs from the system, where they are.
fn libraries(java: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut own = vec![java.join("bin/java"), java.join("lib/server/libjvm.so")];
    let found = fs::read_dir(java.join("lib")).context("the libraries of the JRE")?;
    let found = found.filter_map(|entry| Some(entry.ok()?.path()));
    own.extend(found.filter(|path| path.extension().is_some_and(|ending| ending == "so")));
    let mut ldd = Command::new("ldd");
    let listed = process::end(ldd.args(&own), MINUTE)?.finished.stdout;
    Ok(needed(&listed, java))
}

/// Paths behind the arrows of `ldd`, but for those of the JRE itself.
fn needed(listed: &str, java: &Path) -> BTreeSet<PathBuf> {
    let paths = listed.lines().filter_map(|line| line.split_once("=> "));
    let paths = paths.filter_map(|(_, rest)| rest.split_whitespace().next());
    let paths = paths.filter(|path| path.starts_with('/')).map(PathBuf::from);
    // A window needs more than there is in a container, and so does a sound.
    let plain = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        !["libX", "libasound", "libfreetype", "libcups"].iter().any(|start| name.starts_with(start))
    };
    paths.filter(|path| !path.starts_with(java)).filter(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_libraries_are_taken_and_those_of_the_jre_are_there_already() {
        let listed = "/j/bin/java:\n\tlinux-vdso.so.1 (0x1)\n\tlibz.so.1 => /lib/libz.so.1 (0x2)\n\
                      \tlibjli.so => /j/lib/libjli.so (0x3)\n\tlibX11.so.6 => /lib/libX11.so.6 (0x4)\n\
                      \tlibfoo.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x5)\n";
        let found: Vec<PathBuf> = needed(listed, Path::new("/j")).into_iter().collect();
        assert_eq!(found, [PathBuf::from("/lib/libz.so.1")]);
    }
}
