//! Runs every example as its users do: the executable, on small input, through to what it prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// An example's executable. `cargo test` builds a package's examples with its tests, next to where it
/// puts the tests: `target/PROFILE/deps/examples-HASH` and `target/PROFILE/examples/NAME`. `cargo test
/// --test examples` does not: then an executable may be missing or stale.
fn executable(example: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own path");
    let profile = this.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let found = profile.join(format!("examples/{example}{}", std::env::consts::EXE_SUFFIX));
    let source = format!("{}/{example}.rs", env!("CARGO_MANIFEST_DIR"));
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    assert!(
        modified(&found).is_some_and(|built| Some(built) >= modified(source.as_ref())),
        "{found:?} is not built, or older than its source: run `cargo build -p firesteel-examples --examples`"
    );
    found
}

fn run(example: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(executable(example));
    command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for variable in ["MASTER", "SPARK_MASTER", "SPARK_HOME", "SPARK_CONF_DIR"] {
        command.env_remove(variable);
    }
    command.output().unwrap_or_else(|error| panic!("{example}: {error}"))
}

/// What a run that must succeed prints.
#[track_caller]
fn printed(example: &str, arguments: &[&str]) -> String {
    let output = run(example, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} {arguments:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("examples print UTF-8")
}

/// What a run that must fail with this status says on standard error.
#[track_caller]
fn refused(status: i32, example: &str, arguments: &[&str]) -> String {
    let output = run(example, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{example} {arguments:?}: {errors}");
    errors
}

/// A directory for one test, and paths in it. Made by hand: what only tests need would be compiled for the first example too.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("firesteel-examples-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        Scratch(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

fn lines_of_parts(directory: &str) -> Vec<String> {
    let mut parts: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("part-"));
    parts.sort();
    let texts = parts.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn pi_is_the_same_on_any_number_of_cores() {
    let one = printed("pi", &["200000", "--master", "local"]);
    assert!(one.starts_with("pi is roughly 3.14"), "{one}");
    assert_eq!(one, printed("pi", &["200000", "--master", "local[3]"]));
}

#[test]
fn wordcount_counts_without_regard_to_case_and_punctuation() {
    let scratch = Scratch::new();
    let input = scratch.file("a.txt", "The fox; the HEN.\nA fox!\n");
    assert_eq!(
        printed("wordcount", &[&input]),
        "       2 the\n       2 fox\n       1 hen\n       1 a\n"
    );
}

#[test]
fn wordcount_without_arguments_counts_the_documents_of_the_repository() {
    assert_eq!(printed("wordcount", &[]).lines().count(), 20);
}

#[test]
fn wordcount_writes_its_output_once_and_then_refuses() {
    let scratch = Scratch::new();
    let (input, output) = (scratch.file("a.txt", "b a b\n"), scratch.path("out"));
    printed("wordcount", &[&input, &output]);
    assert_eq!(lines_of_parts(&output), ["a 1", "b 2"]);
    assert!(Path::new(&output).join("_SUCCESS").exists());
    let errors = refused(1, "wordcount", &[&input, &output]);
    assert!(errors.contains("already exists; remove it or choose another"), "{errors}");
    assert_eq!(lines_of_parts(&output), ["a 1", "b 2"]);
}

#[test]
fn an_input_that_is_not_there_is_named() {
    let errors = refused(1, "wordcount", &["no/such/*.txt"]);
    let place = "Error: text_file (examples/wordcount.rs:";
    let reason = "input path \"no/such/*.txt\" does not exist or matches no file (looked for in ";
    assert!(errors.starts_with(place) && errors.contains(reason), "{errors}");
}

#[test]
fn terasort_sorts_what_it_generated_and_validates_it() {
    let scratch = Scratch::new();
    let (records, sorted) = (scratch.path("records"), scratch.path("sorted"));
    printed("terasort", &["gen", "5000", &records, "--master", "local[4]"]);
    let made = lines_of_parts(&records);
    assert_eq!((made.len(), made[0].len()), (5000, 99));

    printed("terasort", &["sort", &records, &sorted, "--master", "local[3]"]);
    let mut expected = made;
    expected.sort();
    assert_eq!(lines_of_parts(&sorted), expected);
    let verdict = printed("terasort", &["validate", &sorted, &records]);
    assert!(verdict.starts_with("5000 records, checksum "), "{verdict}");
    assert!(verdict.ends_with("\nsorted\n"), "{verdict}");

    for command in [&["gen", "10", &records][..], &["sort", &records, &sorted]] {
        let errors = refused(1, "terasort", command);
        assert!(errors.contains("already exists"), "{errors}");
    }
}

#[test]
fn terasort_finds_disorder_within_files_and_between_them_and_lost_records() {
    let scratch = Scratch::new();
    let record = |key: &str| format!("{key:x<10} rest\n");
    let good = scratch.file("good", &(record("a") + &record("b") + &record("c")));
    let bad = scratch.file("bad", &(record("a") + &record("c") + &record("b")));
    let high = scratch.file("1-high", &record("z"));
    let low = scratch.file("2-low", &record("a"));
    let lost = scratch.file("lost", &(record("a") + &record("b")));
    let verdict = |arguments: &[&str]| {
        let output = run("terasort", arguments);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (arguments, wanted, part) in [
        (&["validate", &good][..], 0, "3 records"),
        (&["validate", &bad], 1, "NOT SORTED: 1 record(s)"),
        (&["validate", &format!("{high},{low}")], 1, "NOT SORTED: 1 record(s)"),
        (&["validate", &lost, &good], 1, "NOT THE SAME RECORDS"),
    ] {
        let (status, text) = verdict(arguments);
        assert_eq!(status, Some(wanted), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn a_record_that_is_too_short_fails_the_job_with_its_text() {
    let scratch = Scratch::new();
    let (input, output) = (scratch.file("in", "short\n"), scratch.path("out"));
    let errors = refused(1, "terasort", &["sort", &input, &output]);
    assert!(errors.contains("a record of less than 10 bytes: \"short\""), "{errors}");
    assert!(errors.contains("sort_by at "), "{errors}");
    assert!(!Path::new(&output).exists());
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "only the input is left");
}

#[test]
fn pagerank_of_a_circle_gives_every_page_the_same() {
    let scratch = Scratch::new();
    let edges = scratch.file("edges", "# a circle\n1 2\n2 3\n3 1\n3 1\n");
    let found = printed("pagerank", &["20", &edges]);
    assert_eq!(
        found,
        "       3 1.000000\n       2 1.000000\n       1 1.000000\n3 pages, 20 iteration(s)\n"
    );
}

#[test]
fn pagerank_keeps_pages_without_links_in_or_out() {
    let scratch = Scratch::new();
    let edges = scratch.file("edges", "1 2\n3 2\n");
    let found = printed("pagerank", &["5", &edges]);
    assert_eq!(
        found,
        "       2 0.405000\n       3 0.150000\n       1 0.150000\n3 pages, 5 iteration(s)\n"
    );
}

#[test]
fn pagerank_makes_a_graph_up_and_ranks_it_the_same_on_any_number_of_cores() {
    let first_pages = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    let one = printed("pagerank", &["3", "--master", "local"]);
    assert!(one.ends_with("1000 pages, 3 iteration(s)\n"), "{one}");
    let three = printed("pagerank", &["3", "--master", "local[3]"]);
    assert_eq!(first_pages(&one), first_pages(&three));
}

#[test]
fn pagerank_names_the_line_it_cannot_read() {
    let scratch = Scratch::new();
    let edges = scratch.file("edges", "1 2\nhalf an edge\n");
    let errors = refused(1, "pagerank", &["1", &edges]);
    assert!(errors.contains("not an edge, which is two numbers: \"half an edge\""), "{errors}");
}

#[test]
fn kmeans_finds_the_centres_it_made_the_points_around() {
    let found = printed("kmeans", &[]);
    let centres: Vec<&str> = found.lines().filter(|line| !line.starts_with("iter")).collect();
    assert_eq!(
        centres,
        [
            "(1.0, 5.0) with 1000 points",
            "(3.0, 1.0) with 1000 points",
            "(7.0, 9.0) with 1000 points",
            "(9.0, 3.0) with 1000 points",
        ]
    );
}

#[test]
fn kmeans_reads_points_of_any_dimension() {
    let scratch = Scratch::new();
    let points = scratch.file("points.csv", "0,0,0\n0, 0, 3\n9,9,9\n9,9,6\n");
    let found = printed("kmeans", &["2", &points]);
    assert!(
        found.ends_with("(0.0, 0.0, 1.5) with 2 points\n(9.0, 9.0, 7.5) with 2 points\n"),
        "{found}"
    );
    let uneven = scratch.file("uneven.csv", "1,2\n1,2,3\n");
    refused(101, "kmeans", &["2", &uneven]);
}

#[test]
fn log_analytics_answers_every_question() {
    let scratch = Scratch::new();
    let logs = scratch.file(
        "access.log",
        "9.9.9.9 - - [31/Dec/2026:23:10:00 +0000] \"GET /a HTTP/1.1\" 200 100\n\
         9.9.9.9 - bob [31/Dec/2026:23:59:59 +0000] \"GET /b HTTP/1.1\" 503 -\n\
         8.8.8.8 - - [01/Jan/2027:00:00:01 +0000] \"POST /a HTTP/1.1\" 500 300 \"ref\" \"agent\"\n\
         what is this\n\
         8.8.8.8 - - [01/Foo/2027:00:00:01 +0000] \"GET /a HTTP/1.1\" 200 1\n\
         9.9.9.9 - - [01/Jan/2027:00:00:02 +0000] \"GET /a HTTP/1.1\" 200 200\n",
    );
    let expected = "\
requests by status:
       2 200
       1 500
       1 503
malformed lines: 2
bytes per answer: mean 150.0, stdev 111.8
                  min 0, max 300, sum 600
top URLs:
       3 /a
       1 /b
top clients:
       3 9.9.9.9
       1 8.8.8.8
server errors by hour:
       1 2026-12-31 23h
       1 2027-01-01 00h
";
    assert_eq!(printed("log_analytics", &[&logs]), expected);
}

#[test]
fn log_analytics_counts_each_malformed_line_once() {
    let found = printed("log_analytics", &["--master", "local[3]"]);
    assert!(found.contains("\nmalformed lines: 20\n"), "{found}");
}

#[test]
fn csv_join_handles_quotes_and_tells_where_a_row_is_wrong() {
    let output = run("csv_join", &[]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "revenue by country:\n    164.50 US\n     15.25 FR\n      9.99 DE\n\
         orders of unknown customers:\n         5 rocket (customer 12)\n"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("left out: "), "{errors}");
    assert!(errors.ends_with("orders.csv:8: field 3: invalid float literal\n"), "{errors}");
}

#[test]
fn csv_join_reads_columns_in_any_order_and_names_a_file_that_is_not_there() {
    let scratch = Scratch::new();
    let orders = scratch.file("o.csv", "amount,item,customer,order\n2.5,pen,1,10\n");
    let customers = scratch.file("c.csv", "country,customer,name\n\"Bonaire, NL\",1,Ann\n");
    let found = printed("csv_join", &[&orders, &customers]);
    assert!(found.starts_with("revenue by country:\n      2.50 Bonaire, NL\n"), "{found}");
    let errors = refused(1, "csv_join", &["no-orders.csv", &customers]);
    assert!(errors.contains("cannot read no-orders.csv: No such file"), "{errors}");
}

#[test]
fn wrong_arguments_give_the_usage() {
    for (example, arguments) in [
        ("pi", &["many"][..]),
        ("pi", &["0"]),
        ("pi", &["1", "2"]),
        ("wordcount", &["a", "b", "c"]),
        ("wordcount", &["--help"]),
        ("terasort", &[]),
        ("terasort", &["gen", "ten", "out"]),
        ("terasort", &["sort", "in"]),
        ("pagerank", &["-1"]),
        ("pagerank", &["1", "2", "3"]),
        ("kmeans", &["0"]),
        ("kmeans", &["--help"]),
        ("log_analytics", &["--help"]),
        ("log_analytics", &["a", "b"]),
        ("csv_join", &["orders.csv"]),
    ] {
        let errors = refused(2, example, arguments);
        assert!(
            errors.contains(&format!("usage: {example} ")),
            "{example} {arguments:?}: {errors}"
        );
    }
}

#[test]
fn settings_on_the_command_line_are_the_engines() {
    let errors = refused(1, "pi", &["1000", "--conf", "spark.task.cpus=none"]);
    assert!(errors.contains("spark.task.cpus = \"none\" (from --conf) is refused"), "{errors}");
    let errors = refused(1, "pi", &["1000", "--master", "local[0]"]);
    assert!(errors.contains("spark.master = \"local[0]\" (from --master) is refused"), "{errors}");
}

#[test]
fn examples_run_in_child_processes_too() {
    let process = ["--conf", "spark.firesteel.local.transport=process", "--master", "local[2]"];
    for example in ["pi", "pagerank", "kmeans", "log_analytics", "csv_join"] {
        assert_eq!(
            printed(example, &process),
            printed(example, &["--master", "local[2]"]),
            "{example}"
        );
    }
}
