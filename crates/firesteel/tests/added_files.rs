//! Files by URL, and files that are added while the application runs: who finds them, when, and what is refused.

mod scratch;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use firesteel::prelude::*;
use scratch::{Scratch, TRANSPORTS, assert_usable, builder, fails_with, names_in};

const ONE_EXECUTOR: &str = "local-cluster[1,1,256]";

/// What four tasks find.
fn seen(ctx: &Context) -> BTreeSet<String> {
    let text = ctx
        .parallelize_in(4, 0..4u8)
        .map(|_| std::fs::read_to_string(SparkFiles::get("words.txt")).unwrap_or_default());
    text.collect().unwrap().into_iter().collect()
}

fn only(text: &str) -> BTreeSet<String> {
    BTreeSet::from([text.to_owned()])
}

/// A web server that has `/words.txt` and nothing else, for so many requests.
fn server(requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut line) = (String::new(), String::new());
            asked.read_line(&mut first).unwrap();
            while asked.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let (status, body) = match first.starts_with("GET /words.txt") {
                true => ("200 OK", "of the web"),
                false => ("404 Not Found", ""),
            };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_file_that_is_added_is_found_by_the_tasks_of_local_mode_as_it_was_then() {
    let scratch = Scratch::new();
    let tmp = scratch.path("tmp");
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport);
        let ctx = ctx.config("spark.local.dir", &tmp).build().unwrap();
        // Child processes are there before the file is.
        assert_usable(&ctx);
        let words = scratch.write("words.txt", transport);
        ctx.add_file(&words).unwrap();
        scratch.write("words.txt", "changed");
        assert_eq!(seen(&ctx), only(transport));
        let other = ["add_file", words.as_str(), "other content", "spark.files.overwrite=true"];
        fails_with(ctx.add_file(&words), &other);
        scratch.write("words.txt", transport);
        ctx.add_file(&format!("file://{words}")).unwrap();
        assert_eq!(ctx.list_files(), [words.as_str()]);
        assert_eq!(seen(&ctx), only(transport));
        ctx.stop();
        fails_with(ctx.add_file(&words), &["add_file (", "the context is stopped"]);
        drop(ctx);
        assert_eq!(names_in(&tmp), [""; 0], "the copies are gone");
    }
}

#[test]
fn what_cannot_be_added_is_refused_with_what_to_do_and_the_context_goes_on() {
    let scratch = Scratch::new();
    let ctx = builder().build().unwrap();
    let url = server(1);
    for (path, needle) in [
        (scratch.path("none"), "give the path of a file"),
        (scratch.path(""), "not a file"),
        (scratch.write("stdout", ""), "rename it"),
        ("https://host/".to_owned(), "no name for a file"),
        ("hdfs://host/words.txt".to_owned(), "hdfs:// is not supported"),
        (format!("{url}/none.txt"), "the server answers 404 (Not Found)"),
    ] {
        let error = fails_with(ctx.add_file(&path), &["add_file", "added_files.rs", needle]);
        assert!(error.to_string().contains(path.trim_end_matches('/')), "{error}");
    }
    assert_eq!(ctx.list_files(), [""; 0]);
    assert_usable(&ctx);
}

#[test]
fn executors_get_a_file_that_is_added_and_its_replacement_also_when_they_come_later() {
    let scratch = Scratch::new();
    let ctx = builder().master(ONE_EXECUTOR).config("spark.files.overwrite", true);
    let ctx = ctx.config("spark.files", scratch.write("words.txt", "at the start"));
    let ctx = ctx.build().unwrap();
    assert_eq!(seen(&ctx), only("at the start"));
    let words = scratch.write("words.txt", "added");
    ctx.add_file(&words).unwrap();
    std::fs::remove_file(&words).unwrap();
    assert_eq!(seen(&ctx), only("added"));
    // The next executor has never heard of it; its worker has given it the one of the start.
    let marker = scratch.path("marker");
    let later = ctx.parallelize_in(1, [marker.clone()]).map(|marker| {
        if !Path::new(&marker).exists() {
            std::fs::write(&marker, "").unwrap();
            std::process::exit(3);
        }
        std::fs::read_to_string(SparkFiles::get("words.txt")).unwrap()
    });
    assert_eq!(later.collect().unwrap(), ["added"]);
    assert!(Path::new(&marker).exists(), "the first executor has ended");
    scratch.write("words.txt", "replaced");
    ctx.add_file(&words).unwrap();
    assert_eq!(seen(&ctx), only("replaced"));
    assert_eq!(ctx.list_files(), [words]);
}

#[test]
fn a_file_behind_a_url_is_downloaded_by_the_driver_for_all() {
    let url = server(3);
    let by_setting = builder().config("spark.files", format!("{url}/words.txt?of=setting"));
    let ctx = by_setting.build().unwrap();
    assert_eq!(seen(&ctx), only("of the web"));
    assert_eq!(ctx.list_files(), [format!("{url}/words.txt")], "without its query");
    ctx.stop();
    let ctx = builder().master(ONE_EXECUTOR).build().unwrap();
    ctx.add_file(&format!("{url}/words.txt")).unwrap();
    assert_eq!(seen(&ctx), only("of the web"));
    ctx.stop();
    let small = builder().config("spark.firesteel.files.maxSize", "3b");
    let small = small.config("spark.files", format!("{url}/words.txt")).build();
    fails_with(small.map(drop), &["spark.files", "more than 3 bytes"]);
}
