//! Files of every format, read and written over every transport, and input that does not fit.

mod scratch;

use std::io::Write;

use firesteel::prelude::*;
use firesteel::types::{JobError, TaskFailure};
use scratch::{
    Scratch, TRANSPORTS, assert_usable, builder, context, fails_with, names_in, wait_for,
    wait_until,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    age: u32,
    city: Option<String>,
}

fn person(name: &str, age: u32, city: Option<&str>) -> Person {
    Person { name: name.to_owned(), age, city: city.map(str::to_owned) }
}

fn contexts() -> impl Iterator<Item = Context> {
    TRANSPORTS.into_iter().map(|transport| {
        builder().config("spark.firesteel.local.transport", transport).build().unwrap()
    })
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A failure that no further attempt was wasted on.
#[track_caller]
fn is_fatal(error: Error) {
    let Error::Job(JobError::TaskFailed { failure, attempts, .. }) = error else {
        panic!("{error:?}")
    };
    assert!(matches!(failure, TaskFailure::Fatal { .. }), "{failure:?}");
    assert_eq!(attempts, 1);
}

#[test]
fn text_is_saved_compressed_and_read_back_by_its_ending() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        for (compression, ending) in
            [(Compression::Gzip, "gz"), (Compression::Zstd, "zst"), (Compression::Bzip2, "bz2")]
        {
            let out = scratch.path(ending);
            let options = SaveOptions::new().compression(compression);
            ctx.range_in(2, 0..50_000u64, 1).save_as_text_file_with(&out, &options).unwrap();
            let names = [format!("part-00000.{ending}"), format!("part-00001.{ending}")];
            assert_eq!(names_in(&out), ["_SUCCESS", &names[0], &names[1]]);
            let size = std::fs::metadata(format!("{out}/{}", names[0])).unwrap().len();
            assert!(size < 100_000, "{ending}: {size} bytes are not compressed");
            let lines = ctx.text_file_with(&out, &TextOptions::new().max_split_bytes(100)).unwrap();
            assert_eq!(lines.partition_count(), 2, "a compressed file is not cut");
            let expected: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
            assert_eq!(lines.collect().unwrap(), expected);
        }
    }
}

#[test]
fn a_gzip_file_of_several_members_is_read_to_its_end_and_other_endings_are_plain() {
    let (ctx, scratch) = (context(), Scratch::new());
    let members = [gzip(b"a\nb\n"), gzip(b"c"), gzip(b"c\nd")].concat();
    let path = scratch.write("members.gz", members);
    assert_eq!(ctx.text_file(&path).unwrap().collect().unwrap(), ["a", "b", "cc", "d"]);
    let empty = scratch.write("empty.gz", "");
    assert_eq!(ctx.text_file(&empty).unwrap().count().unwrap(), 0);
    let plain = scratch.write("plain.lzo", "a\nb\n");
    assert_eq!(ctx.text_file(&plain).unwrap().collect().unwrap(), ["a", "b"]);
}

#[test]
fn damaged_compressed_files_are_named_and_end_the_job_at_once() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        let whole = gzip("some line\n".repeat(10_000).as_bytes());
        let mut corrupt = whole.clone();
        let middle = corrupt.len() / 2;
        corrupt[middle] ^= 0xff;
        for (name, bytes) in [
            ("corrupt.gz", &corrupt[..]),
            ("cut.gz", &whole[..whole.len() - 5]),
            ("no.gz", b"plain text".as_slice()),
            ("no.zst", b"plain text".as_slice()),
            ("no.bz2", b"plain text".as_slice()),
        ] {
            let path = scratch.write(name, bytes);
            let lines = ctx.text_file(&path).unwrap();
            is_fatal(fails_with(lines.count(), &[name, "is damaged", "restore the file"]));
            let out = scratch.path("out");
            fails_with(lines.save_as_text_file(&out), &[name, "is damaged"]);
            assert!(!std::path::Path::new(&out).exists());
            is_fatal(fails_with(
                ctx.whole_text_files(&path).unwrap().count(),
                &[name, "is damaged"],
            ));
        }
        assert_usable(&ctx);
    }
}

#[test]
fn whole_files_come_with_their_paths_and_share_partitions() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        for n in 0..10 {
            scratch.write(&format!("in/{n}.txt"), format!("text {n}\nmore\n"));
        }
        scratch.write("in/z.txt.gz", gzip(b"packed"));
        scratch.write("in/_SUCCESS", "");
        let files = ctx.whole_text_files(&scratch.path("in")).unwrap();
        assert_eq!(files.partition_count(), 3);
        let options = TextOptions::new().min_partitions(100);
        let apart = ctx.whole_text_files_with(&scratch.path("in"), &options).unwrap();
        assert_eq!(apart.partition_count(), 11);
        for files in [files, apart] {
            let files = files.collect().unwrap();
            assert_eq!(files.len(), 11);
            assert_eq!(files[3], (scratch.path("in/3.txt"), "text 3\nmore\n".to_owned()));
            assert_eq!(files[10].1, "packed");
        }
        let bytes = ctx.binary_files_in(4, &scratch.path("in")).unwrap();
        let read = bytes.map(|(path, file)| (path, file.len(), file.to_vec().unwrap()));
        let read = read.collect().unwrap();
        assert_eq!(read[10].2, gzip(b"packed"));
        assert_eq!(read[0].1, 12);
        // A file travels unread, and is opened where it is wanted.
        let streams = bytes.repartition(2).map(|(_, file)| {
            let mut text = String::new();
            if file.path().ends_with(".txt") {
                std::io::Read::read_to_string(&mut file.open().unwrap(), &mut text).unwrap();
            }
            text.len() as u64
        });
        assert_eq!(streams.sum().unwrap(), 120);
    }
}

#[test]
fn a_whole_file_that_is_no_text_vanished_or_shrank_is_named() {
    let (ctx, scratch) = (context(), Scratch::new());
    let path = scratch.write("bad.txt", b"abc\xff");
    let files = ctx.whole_text_files(&path).unwrap();
    fails_with(files.count(), &["bad.txt", "not valid UTF-8 at offset 3", "binary_files"]);
    let lossy = ctx.whole_text_files_with(&path, &TextOptions::new().lossy(true)).unwrap();
    assert_eq!(lossy.first().unwrap().1, "abc\u{fffd}");
    scratch.write("bad.txt", "a");
    fails_with(files.count(), &["bad.txt", "changed meanwhile"]);
    let listed = ctx.binary_files(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    fails_with(files.count(), &["could not open", "bad.txt", "No such file"]);
    let sizes = listed.map(|(_, file)| file.to_vec().unwrap().len());
    fails_with(sizes.collect(), &["No such file"]);
    fails_with(ctx.csv::<Person>(&path).map(drop), &["bad.txt", "does not exist"]);
    let options = TextOptions::new().min_partitions(0);
    fails_with(ctx.whole_text_files_with("src", &options).map(drop), &["must be positive"]);
    fails_with(ctx.binary_files_in(0, "src").map(drop), &["must be positive"]);
}

const PEOPLE: &str =
    "city,name,age\nBerlin,Ada,36\n\n,Bob,7\n\"Paris, France\",\"C \"\"x\"\" D\",99";

#[test]
fn csv_rows_become_values_by_the_names_in_the_header_in_any_split() {
    let expected = [
        person("Ada", 36, Some("Berlin")),
        person("Bob", 7, None),
        person("C \"x\" D", 99, Some("Paris, France")),
    ];
    for ctx in contexts() {
        let scratch = Scratch::new();
        let path = scratch.write("people.csv", PEOPLE);
        for bytes in [4, 13, 1000] {
            let options = CsvOptions::new().header(true).max_split_bytes(bytes);
            let people = ctx.csv_with::<Person>(&path, &options).unwrap();
            assert_eq!(people.partition_count() > 2, bytes < 20);
            assert_eq!(people.collect().unwrap(), expected, "{bytes}");
        }
        let zipped = scratch.write("people.csv.gz", gzip(PEOPLE.replace('\n', "\r\n").as_bytes()));
        let options = CsvOptions::new().header(true);
        assert_eq!(ctx.csv_with::<Person>(&zipped, &options).unwrap().collect().unwrap(), expected);
    }
}

#[test]
fn csv_has_sparks_options() {
    let (ctx, scratch) = (context(), Scratch::new());
    let tabs = scratch.write("a.tsv", "\u{feff}# a comment\nAda\t 36 \tNA\n'x\\'\ty'\t1\t\n");
    let options = CsvOptions::new().delimiter(b'\t').quote(b'\'').escape(b'\\').trim(true);
    // A comment behind a byte order mark is a row to the parser, so it is left out as one that does not fit.
    let options = options.comment(b'#').null_value("NA").mode(ParseMode::DropMalformed);
    let rows = ctx.csv_with::<(String, u32, Option<String>)>(&tabs, &options).unwrap();
    let expected = [("Ada".to_owned(), 36, None), ("x'\ty".to_owned(), 1, None)];
    assert_eq!(rows.collect().unwrap(), expected);
    // By order, without a header; a lone carriage return ends a row.
    let plain = scratch.write("b.csv", "1,2\r3,4\r\n5,6");
    let rows = ctx.csv::<(u8, u8)>(&plain).unwrap();
    assert_eq!(rows.collect().unwrap(), [(1, 2), (3, 4), (5, 6)]);
    let nothing = scratch.write("empty.csv", "");
    let options = CsvOptions::new().header(true);
    assert!(ctx.csv_with::<Person>(&nothing, &options).unwrap().is_empty().unwrap());
    let only = scratch.write("only.csv", "name,age,city\n");
    assert!(ctx.csv_with::<Person>(&only, &options).unwrap().is_empty().unwrap());
}

#[test]
fn quoted_newlines_are_an_error_with_advice_unless_they_are_declared() {
    let (ctx, scratch) = (context(), Scratch::new());
    let text = "1,\"a\r\nb\"\n2,\"c\n\n#d\"\n3,e";
    let path = scratch.write("lines.csv", text);
    let whole = CsvOptions::new().min_partitions(1);
    let lines = ctx.csv_with::<(u32, String)>(&path, &whole).unwrap();
    assert_eq!(lines.partition_count(), 1);
    let advice = ["lines.csv", "line 1:", "not closed on its line", "multi_line(true)"];
    is_fatal(fails_with(lines.collect(), &advice));
    // In parts, the first task to fail tells of its own line, with the same advice.
    let parts = ctx.csv_with::<(u32, String)>(&path, &whole.clone().max_split_bytes(4)).unwrap();
    assert!(parts.partition_count() > 4);
    is_fatal(fails_with(parts.collect(), &["lines.csv", "multi_line(true)"]));
    let rest = scratch.write("rest.csv", "1,a\nb\",x\n");
    let rest = ctx.csv_with::<(u32, String)>(&rest, &whole).unwrap();
    let advice =
        ["line 2, column 1", "invalid digit", "quote without a partner", "multi_line(true)"];
    is_fatal(fails_with(rest.collect(), &advice));
    let options = CsvOptions::new().multi_line(true).comment(b'#').max_split_bytes(4);
    let rows = ctx.csv_with::<(u32, String)>(&path, &options).unwrap();
    assert_eq!(rows.partition_count(), 1);
    let expected = [(1, "a\r\nb"), (2, "c\n\n#d"), (3, "e")];
    assert_eq!(rows.collect().unwrap(), expected.map(|(n, text)| (n, text.to_owned())));
    let open = scratch.write("open.csv", "1,a\n2,\"b\n3,c\n");
    let rows = ctx.csv_with::<(u32, String)>(&open, &options).unwrap();
    fails_with(rows.collect(), &["open.csv", "line 2", "before the end of the file"]);
}

#[test]
fn a_csv_row_that_does_not_fit_is_named_with_file_line_column_and_value() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        let rows: String = (0..500).map(|n| format!("name{n},{n},x\n")).collect();
        let text = format!("name,age,city\n{rows}Eve,old,x\n{rows}");
        for (name, bytes) in
            [("p.csv", text.as_bytes().to_vec()), ("p.csv.gz", gzip(text.as_bytes()))]
        {
            let path = scratch.write(name, bytes);
            for split in [100, 1 << 20] {
                let options = CsvOptions::new().header(true).max_split_bytes(split);
                let people = ctx.csv_with::<Person>(&path, &options).unwrap();
                let words = [name, "line 502", "column \"age\"", "\"old\"", "invalid digit"];
                is_fatal(fails_with(people.count(), &words));
                let dropping = options.mode(ParseMode::DropMalformed);
                let people = ctx.csv_with::<Person>(&path, &dropping).unwrap();
                assert_eq!(people.count().unwrap(), 1000);
            }
        }
        let short = scratch.write("short.csv", "name,age,city\na,1,b\nc,2\n");
        let options = CsvOptions::new().header(true);
        let people = ctx.csv_with::<Person>(&short, &options).unwrap();
        fails_with(people.count(), &["short.csv", "line 3", "2 field(s)", "header has 3", "c,2"]);
        let other = scratch.write("other.csv", "name,years,city\na,1,b\n");
        let people = ctx.csv_with::<Person>(&other, &options).unwrap();
        let words = ["other.csv", "line 2", "missing field `age`", "name,years,city"];
        fails_with(people.count(), &words);
        fails_with(
            ctx.csv::<(String, u8)>(&short).unwrap().count(),
            &["line 1", "column 2", "age"],
        );
        assert_usable(&ctx);
    }
}

#[test]
fn json_lines_become_values_and_a_line_that_does_not_fit_is_named() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        let line = |n: u32| format!("{{\"age\":{n},\"name\":\"n{n}\",\"other\":[1,2]}}\n");
        let mut text: String = (0..200).map(line).collect();
        text.push('\n');
        let path = scratch.write("p.json", &text);
        let options = JsonOptions::new().max_split_bytes(50);
        let people = ctx.json_lines_with::<Person>(&path, &options).unwrap();
        assert!(people.partition_count() > 50);
        let expected: Vec<Person> = (0..200).map(|n| person(&format!("n{n}"), n, None)).collect();
        assert_eq!(people.collect().unwrap(), expected);
        assert_eq!(ctx.json_lines::<Person>(&path).unwrap().count().unwrap(), 200);

        text.insert_str(0, "{\"age\": 1, \"name\": \"x\"}\n");
        text.push_str("{\"name\": \"Eve\", \"age\": \"old\"}\n");
        scratch.write("p.json", &text);
        let people = ctx.json_lines_with::<Person>(&path, &options).unwrap();
        let words = ["p.json", "line 203", "column 28", "string \\\"old\\\", expected u32", "Eve"];
        let error = people.count().unwrap_err().to_string();
        for word in words {
            let plain = word.replace("\\\"", "\"");
            assert!(error.contains(word) || error.contains(&plain), "{word}: {error}");
        }
        let dropping = JsonOptions::new().mode(ParseMode::DropMalformed);
        let people = ctx.json_lines_with::<Person>(&path, &dropping).unwrap();
        assert_eq!(people.count().unwrap(), 201);
        let cut = scratch.write("cut.json", "{\"name\": \"a\"");
        is_fatal(fails_with(
            ctx.json_lines::<Person>(&cut).unwrap().count(),
            &["cut.json", "line 1", "EOF"],
        ));
        assert_usable(&ctx);
    }
}

#[test]
fn rows_are_saved_as_json_and_csv_and_read_back() {
    for ctx in contexts() {
        let scratch = Scratch::new();
        let people: Vec<Person> = (0..100)
            .map(|n| person(&format!("a \"b\", {n}\n"), n, (n % 2 == 0).then_some("x")))
            .collect();
        let rdd = ctx.parallelize_in(3, people.clone());
        let (json, csv) = (scratch.path("json"), scratch.path("csv"));
        let zstd = SaveOptions::new().compression(Compression::Zstd);
        rdd.save_as_json_lines_with(&json, &zstd).unwrap();
        assert_eq!(names_in(&json)[1], "part-00000.json.zst");
        assert_eq!(ctx.json_lines::<Person>(&json).unwrap().collect().unwrap(), people);
        rdd.save_as_json_lines(scratch.path("plain")).unwrap();
        assert_eq!(names_in(&scratch.path("plain"))[1], "part-00000.json");
        let form = CsvOptions::new().header(true).delimiter(b';').multi_line(true);
        rdd.save_as_csv_with(&csv, &form, &SaveOptions::new()).unwrap();
        assert_eq!(names_in(&csv)[1], "part-00000.csv");
        let first = std::fs::read_to_string(format!("{csv}/part-00001.csv")).unwrap();
        assert!(first.starts_with("name;age;city\n"), "{first}");
        assert_eq!(ctx.csv_with::<Person>(&csv, &form).unwrap().collect().unwrap(), people);
        ctx.parallelize([(1, "a,b".to_owned())]).save_as_csv(scratch.path("tuples")).unwrap();
        let tuples = ctx.csv::<(u8, String)>(&scratch.path("tuples")).unwrap();
        assert_eq!(tuples.collect().unwrap(), [(1, "a,b".to_owned())]);
    }
}

#[test]
fn an_empty_text_in_csv_comes_back_as_one_and_nothing_as_none() {
    type Row = (Option<String>, String, Option<u32>, Option<String>);
    let text = |text: &str| Some(text.to_owned());
    let rows: [Row; 4] = [
        (text(""), String::new(), None, None),
        (None, "a".to_owned(), Some(1), text("")),
        (None, String::new(), None, None),
        (text("#c\n\"'\\"), "b".to_owned(), Some(21), text("")),
    ];
    let lines = CsvOptions::new().multi_line(true);
    let tabs = lines.clone().delimiter(b'\t').quote(b'\'').escape(b'\\').comment(b'#');
    for ctx in contexts() {
        let scratch = Scratch::new();
        for (n, form) in
            [lines.clone(), tabs.clone(), lines.clone().delimiter(b'1')].iter().enumerate()
        {
            let out = scratch.path(&n.to_string());
            let saved = ctx.parallelize_in(1, rows.clone());
            saved.save_as_csv_with(&out, form, &SaveOptions::new()).unwrap();
            assert_eq!(
                ctx.csv_with::<Row>(&out, form).unwrap().collect().unwrap(),
                rows,
                "{form:?}"
            );
        }
        let file = std::fs::read_to_string(scratch.path("0/part-00000.csv")).unwrap();
        assert!(file.starts_with("\"\",\"\",,\n,a,1,\"\"\n,\"\",,\n"), "{file}");

        let people = [person("Ada", 36, Some("")), person("", 7, None)];
        let (out, form) = (scratch.path("people"), CsvOptions::new().header(true));
        ctx.parallelize(people.clone()).save_as_csv_with(&out, &form, &SaveOptions::new()).unwrap();
        assert_eq!(ctx.csv_with::<Person>(&out, &form).unwrap().collect().unwrap(), people);
    }
}

#[test]
fn a_quoted_empty_field_is_none_where_it_can_be_no_text_and_where_it_is_asked_to_be() {
    let (ctx, scratch) = (context(), Scratch::new());
    type Row = (String, Option<u32>, Option<String>, Option<char>);
    let quoted = scratch
        .write("quoted.csv", "\"\",\"\",\"\",\"\"\r\n\"a\",\"1\",\"b\",\"c\"\r\n\"\",,,\"\"");
    let row = |third: Option<&str>| (String::new(), None, third.map(str::to_owned), None);
    let full = ("a".to_owned(), Some(1), Some("b".to_owned()), Some('c'));
    let rows = ctx.csv::<Row>(&quoted).unwrap();
    assert_eq!(rows.collect().unwrap(), [row(Some("")), full.clone(), row(None)]);
    let rows = ctx.csv_with::<Row>(&quoted, &CsvOptions::new().null_value("")).unwrap();
    assert_eq!(rows.collect().unwrap(), [row(None), full, row(None)]);
    let wrong = scratch.write("wrong.csv", "\"\",x,\"\",c\n");
    let words = ["wrong.csv", "line 1", "column 2", "invalid digit", "\"x\""];
    is_fatal(fails_with(ctx.csv::<Row>(&wrong).unwrap().count(), &words));

    // A line of nothing is no row: with one column, nothing is quoted, too.
    let (one, none) = (scratch.path("one"), [None, Some("a".to_owned())]);
    ctx.parallelize(none.clone()).save_as_csv(&one).unwrap();
    assert_eq!(ctx.csv::<Option<String>>(&one).unwrap().collect().unwrap(), none);
    let refused = ctx.parallelize([Some(String::new())]).save_as_csv(scratch.path("refused"));
    is_fatal(fails_with(refused, &["no CSV form", "only field", "come back as `None`"]));
    ctx.parallelize([String::new()]).save_as_csv(scratch.path("text")).unwrap();
    assert_eq!(ctx.csv::<String>(&scratch.path("text")).unwrap().collect().unwrap(), [""]);
}

#[test]
fn an_item_without_a_form_in_the_format_ends_the_job_and_leaves_nothing() {
    let (ctx, scratch) = (context(), Scratch::new());
    let nested = ctx.parallelize([((1, 2), std::collections::BTreeMap::from([((1, 2), 3)]))]);
    let words = ["no JSON form", "key must be a string"];
    is_fatal(fails_with(nested.save_as_json_lines(scratch.path("json")), &words));
    let maps = ctx.parallelize([std::collections::BTreeMap::from([(1, 2)])]);
    is_fatal(fails_with(
        maps.save_as_csv(scratch.path("csv")),
        &["no CSV form", "structs or tuples"],
    ));
    #[derive(Clone, Serialize, Deserialize)]
    struct Lists {
        of: Vec<u8>,
    }
    let form = CsvOptions::new().header(true);
    let lists = ctx.parallelize([Lists { of: vec![1, 2] }]);
    let saved = lists.save_as_csv_with(scratch.path("csv"), &form, &SaveOptions::new());
    is_fatal(fails_with(saved, &["no CSV form", "with a header", "`of` is not"]));
    let uneven = ctx.parallelize_in(1, [vec![1, 2], vec![3]]);
    let words = ["no CSV form", "has 1 field(s), but the row before has 2"];
    is_fatal(fails_with(uneven.save_as_csv(scratch.path("csv")), &words));
    assert!(scratch.names().is_empty());
    assert_usable(&ctx);
}

#[test]
fn object_files_are_read_back_and_know_their_type() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Circle(f64),
        Square { side: f64 },
    }
    for ctx in contexts() {
        let scratch = Scratch::new();
        let out = scratch.path("objects");
        let item = |n: u64| (n, vec![Shape::Circle(n as f64), Shape::Square { side: 1.0 }]);
        let items: Vec<_> = (0..10_000).map(item).collect();
        ctx.parallelize_in(3, items.clone()).save_as_object_file(&out).unwrap();
        assert_eq!(names_in(&out), ["_SUCCESS", "part-00000", "part-00001", "part-00002"]);
        let back = ctx.object_file::<(u64, Vec<Shape>)>(&out).unwrap();
        assert_eq!(back.partition_count(), 3);
        assert_eq!(back.collect().unwrap(), items);
        let other = ctx.object_file::<(u64, String)>(&out).unwrap();
        let words = ["part-0000", "another type", "[enum Shape {Circle, Square}", "2(u64, str, )"];
        is_fatal(fails_with(other.count(), &words));

        let part = format!("{out}/part-00001");
        let whole = std::fs::read(&part).unwrap();
        std::fs::write(&part, &whole[..whole.len() - 30]).unwrap();
        is_fatal(fails_with(back.count(), &["part-00001", "is damaged", "cut off"]));
        let mut rotten = whole.clone();
        rotten[whole.len() / 2] ^= 1;
        std::fs::write(&part, &rotten).unwrap();
        is_fatal(fails_with(back.count(), &["part-00001", "is damaged", "checksum"]));
        std::fs::write(&part, "just some text").unwrap();
        is_fatal(fails_with(back.count(), &["part-00001", "not an object file"]));
        std::fs::remove_file(&part).unwrap();
        fails_with(back.count(), &["could not open", "part-00001", "No such file"]);
        assert_usable(&ctx);
    }
}

#[test]
fn of_jobs_that_save_to_one_directory_at_once_exactly_one_wins() {
    let (ctx, scratch) = (builder().master("local[4]").build().unwrap(), Scratch::new());
    let out = scratch.path("out");
    let gate = scratch.path("go");
    let saving: Vec<_> = (0..4u64)
        .map(|job| {
            let rdd =
                ctx.range_in(1, 0..3u64, 1).with((gate.clone(), job)).map(|(gate, job), n| {
                    let task = TaskContext::current().unwrap();
                    while !std::path::Path::new(gate).exists() {
                        task.check_killed();
                        std::thread::yield_now();
                    }
                    job * 10 + n
                });
            let out = out.clone();
            rdd.boxed().in_background(move |rdd| rdd.save_as_text_file(&out))
        })
        .collect();
    // All have looked for the directory before the first of them makes it.
    wait_until("all jobs have started", || scratch.names().len() == 4);
    std::fs::write(&gate, "").unwrap();
    let results: Vec<Result<()>> = saving.into_iter().map(wait_for).collect();
    let winner = results.iter().position(Result::is_ok).expect("one must win") as u64;
    for (job, result) in results.into_iter().enumerate() {
        if job as u64 != winner {
            fails_with(result, &["out", "already exists"]);
        }
    }
    let lines = ctx.text_file(&out).unwrap().collect().unwrap();
    assert_eq!(lines, (0..3).map(|n| (winner * 10 + n).to_string()).collect::<Vec<_>>());
    assert_eq!(names_in(&out), ["_SUCCESS", "part-00000"]);
    assert_eq!(scratch.names(), ["go", "out"]);
}
