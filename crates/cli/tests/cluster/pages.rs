//! Pages of masters and workers as a browser gets them: what they may do there, and that open ones are told of changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::application::{Application, script};
use crate::daemon::{Master, Worker};

fn send(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    stream
}

/// Head, in lower case, and body.
fn get(address: &str, path: &str) -> (String, String) {
    let mut answer = String::new();
    send(address, path).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn pages_of_daemons_run_our_script_only_and_their_lists_are_sorted_by_links() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    for (address, list) in [(&master.page, "workers"), (&worker.page, "processes")] {
        let (head, page) = get(address, "/");
        for wanted in ["script-src 'self'", "default-src 'none'", "frame-ancestors 'none'"] {
            assert!(head.contains(wanted), "{head}");
        }
        assert!(!head.contains("unsafe") && !page.contains(" style=") && !page.contains("<style"));
        assert!(head.contains("x-frame-options: deny"), "{head}");
        assert!(head.contains("referrer-policy: same-origin"), "{head}");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        let source = page.split("<script defer src=\"").nth(1).expect("ours").split('"').next();
        assert!(get(address, source.unwrap()).0.contains("text/javascript"));
        assert!(page.contains("data-events=\"/events\""), "{page}");
        // A worker that runs nothing has no headings.
        if list == "workers" {
            let link = format!("href=\"/?{list}-sort=cores&amp;{list}-order=asc\"");
            assert!(page.contains(&link), "{page}");
        }
    }
}

#[test]
fn open_pages_of_a_master_and_a_worker_are_told_of_an_application() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let mut open = [&master.page, &worker.page]
        .map(|address| BufReader::new(send(address, "/events")).lines().map_while(Result::ok));
    for lines in &mut open {
        assert!(lines.any(|line| line == "event: hello"));
    }
    let application = Application::register(&master, script("exec sleep 1000"));
    for lines in &mut open {
        assert!(lines.any(|line| line == "event: changed"), "of {}", application.id());
    }
}
