//! Loading from arguments, environment and real files, handed in: never those of the test process.

use std::path::{Path, PathBuf};

use firesteel_conf::{ConfError, Loader, Origin, entries};

/// A directory of one test with a file in it.
fn directory_with(test: &str, file: &str, text: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let path = directory.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    directory
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn arguments_win_over_the_environment_and_the_environment_over_the_defaults_file() {
    let directory = directory_with(
        "precedence",
        "spark-defaults.conf",
        "# defaults\nspark.master spark://file:7077\nspark.local.dir /file\nspark.task.cpus 2\n",
    );
    let loaded = Loader::new()
        .environment([
            ("SPARK_CONF_DIR", text(&directory).as_str()),
            ("SPARK_HOME", "/nowhere"),
            ("MASTER", "local[2]"),
            ("SPARK_MASTER", "local[3]"),
            ("SPARK_LOCAL_DIRS", "/environment"),
            ("SPARK_EXECUTOR_MEMORY", "2g"),
            ("SPARK_DRIVER_MEMORY", ""),
        ])
        .arguments(["--master=local[4]", "in", "--conf", "spark.master=local[5]", "out"])
        .load()
        .unwrap();
    let mut conf = loaded.conf;
    assert_eq!(loaded.arguments, ["in", "out"]);
    assert_eq!(conf.get(&entries::MASTER).unwrap().unwrap().to_string(), "local[4]");
    assert_eq!(conf.get(&entries::LOCAL_DIR).unwrap(), ["/environment"]);
    assert_eq!(conf.get(&entries::EXECUTOR_MEMORY).unwrap().to_string(), "2g");
    assert_eq!(conf.get_raw("spark.driver.memory"), None);
    let origin = Origin::File { path: directory.join("spark-defaults.conf"), line: 4 };
    assert_eq!(conf.setting("spark.task.cpus").unwrap().origin, origin);
    conf.set("spark.master", "local[6]");
    assert_eq!(conf.get_raw("spark.master"), Some("local[6]"));
    conf.validate().unwrap();
}

#[test]
fn the_master_variable_wins_over_the_spark_master_variable() {
    let loaded = Loader::new().environment([("MASTER", "local[2]"), ("SPARK_MASTER", "local[3]")]);
    assert_eq!(loaded.load().unwrap().conf.get_raw("spark.master"), Some("local[2]"));
}

#[test]
fn the_defaults_file_is_looked_for_in_the_home_directory_too() {
    let home = directory_with("home", "conf/spark-defaults.conf", "spark.task.cpus=3");
    let loaded = Loader::new().environment([("SPARK_HOME", text(&home))]).load().unwrap();
    assert_eq!(loaded.conf.get(&entries::TASK_CPUS).unwrap(), 3);
}

#[test]
fn a_missing_defaults_file_is_fine_and_a_missing_properties_file_is_not() {
    let environment = [("SPARK_CONF_DIR", "/does/not/exist")];
    assert!(Loader::new().environment(environment).load().is_ok());
    let error =
        Loader::new().arguments(["--properties-file", "/does/not/exist.conf"]).load().unwrap_err();
    assert!(matches!(&error, ConfError::ReadFile { path, .. } if path.ends_with("exist.conf")));
    assert!(error.to_string().starts_with("could not read the settings in /does/not/exist.conf: "));
}

#[test]
fn a_properties_file_replaces_the_defaults_file() {
    let directory = directory_with("replaces", "spark-defaults.conf", "spark.task.cpus 2");
    std::fs::write(directory.join("mine.conf"), "spark.cores.max: 7\nother.key 1").unwrap();
    let loaded = Loader::new()
        .environment([("SPARK_CONF_DIR", text(&directory))])
        .arguments([format!("--properties-file={}", text(&directory.join("mine.conf")))])
        .load()
        .unwrap();
    assert_eq!(loaded.conf.get(&entries::TASK_CPUS).unwrap(), 1);
    assert_eq!(loaded.conf.get(&entries::CORES_MAX).unwrap(), Some(7));
    let warning = loaded.conf.warnings()[0].to_string();
    assert!(warning.contains("ignoring \"other.key\" (from ") && warning.contains("mine.conf:2)"));
}

#[test]
fn a_broken_file_is_refused_with_its_path_and_line() {
    let directory = directory_with("broken", "spark-defaults.conf", "\nspark.a \\u00g0\n");
    let error =
        Loader::new().environment([("SPARK_CONF_DIR", text(&directory))]).load().unwrap_err();
    let place = text(&directory.join("spark-defaults.conf"));
    assert!(error.to_string().starts_with(&format!("{place}, line 2: \\u00g0 is not a character")));
}

#[test]
fn what_submit_hands_over_reads_back_and_wins_over_other_variables() {
    let mut submitted = firesteel_conf::Conf::new();
    submitted.set("spark.app.name", "a\nb = c\\d").set("spark.master", "local[8]");
    let environment = [("FIRESTEEL_CONF", submitted.to_properties()), ("MASTER", "x".to_owned())];
    let conf = Loader::new().environment(environment).load().unwrap().conf;
    let settings: Vec<(&str, &str)> = conf.iter().collect();
    assert_eq!(settings, [("spark.app.name", "a\nb = c\\d"), ("spark.master", "local[8]")]);
    let origin = Origin::Environment { variable: "FIRESTEEL_CONF".to_owned() };
    assert_eq!(conf.setting("spark.master").unwrap().origin, origin);
}

#[test]
fn the_process_can_be_read() {
    assert!(Loader::from_process().is_ok());
}
