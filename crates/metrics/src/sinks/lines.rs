//! Graphite and StatsD: a line for each metric, over a connection or in packets.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use crate::{Metrics, Value};

/// How long another machine may take to answer, and to take what is sent.
const TIME: Duration = Duration::from_secs(2);
/// What fits into a packet wherever it goes.
const PACKET: usize = 1400;

fn full_name(prefix: &str, name: &str) -> String {
    let name: String =
        name.chars().map(|letter| if letter.is_whitespace() { '-' } else { letter }).collect();
    if prefix.is_empty() { name } else { format!("{prefix}.{name}") }
}

/// `NAME VALUE SECONDS`; counters end with `.count`.
fn graphite_lines(prefix: &str, at: u64, metrics: &Metrics) -> Vec<String> {
    let line = |name: &str, value: &Value| match value {
        Value::Gauge(value) => Some(format!("{} {value} {at}\n", full_name(prefix, name))),
        Value::Counter(value) => Some(format!("{}.count {value} {at}\n", full_name(prefix, name))),
        Value::Text(_) => None,
    };
    metrics.iter().filter_map(|metric| line(&metric.name, &metric.value)).collect()
}

/// `NAME:VALUE|g`, and `|c` for counters.
fn statsd_lines(prefix: &str, metrics: &Metrics) -> Vec<String> {
    let line = |name: &str, value: &Value| {
        let name = full_name(prefix, name).replace([':', '|', '@'], "-");
        match value {
            Value::Gauge(value) => Some(format!("{name}:{value}|g\n")),
            Value::Counter(value) => Some(format!("{name}:{value}|c\n")),
            Value::Text(_) => None,
        }
    };
    metrics.iter().filter_map(|metric| line(&metric.name, &metric.value)).collect()
}

/// Lines in as few packets as may be, none of them cut.
fn packets(lines: &[String]) -> Vec<String> {
    let mut packets: Vec<String> = Vec::new();
    for line in lines {
        match packets.last_mut() {
            Some(packet) if packet.len() + line.len() <= PACKET => {
                packet.push_str(line);
            }
            _ => packets.push(line.clone()),
        }
    }
    packets
}

fn resolve((host, port): (&str, u16)) -> io::Result<std::net::SocketAddr> {
    let found = (host, port).to_socket_addrs()?.next();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
}

fn send_packets(to: (&str, u16), lines: &[String]) -> io::Result<()> {
    let address = resolve(to)?;
    let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own)?;
    for packet in packets(lines) {
        socket.send_to(packet.trim_end().as_bytes(), address)?;
    }
    Ok(())
}

pub(super) fn statsd(to: (&str, u16), prefix: &str, metrics: &Metrics) -> io::Result<()> {
    send_packets(to, &statsd_lines(prefix, metrics))
}

pub(super) fn graphite(
    to: (&str, u16),
    prefix: &str,
    udp: bool,
    at: u64,
    metrics: &Metrics,
) -> io::Result<()> {
    let lines = graphite_lines(prefix, at, metrics);
    if udp {
        return send_packets(to, &lines);
    }
    let mut stream = TcpStream::connect_timeout(&resolve(to)?, TIME)?;
    stream.set_write_timeout(Some(TIME))?;
    stream.write_all(lines.concat().as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    fn metrics() -> Metrics {
        let mut metrics = Metrics::new("app 1");
        metrics.gauge("memory", 7u64);
        metrics.counter("jobs", 3u64);
        metrics.text("state", "RUNNING");
        metrics
    }

    #[test]
    fn graphite_gets_lines_over_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        graphite(("127.0.0.1", port), "p", false, 5, &metrics()).unwrap();
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "p.app-1.memory 7 5\np.app-1.jobs.count 3 5\n");
    }

    #[test]
    fn statsd_gets_packets_and_none_is_cut() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let port = socket.local_addr().unwrap().port();
        statsd(("127.0.0.1", port), "", &metrics()).unwrap();
        let mut packet = [0; 2000];
        let count = socket.recv(&mut packet).unwrap();
        assert_eq!(&packet[..count], b"app-1.memory:7|g\napp-1.jobs:3|c");
        let lines = vec!["x".repeat(900); 3];
        assert_eq!(packets(&lines).iter().map(String::len).collect::<Vec<_>>(), [900; 3]);
    }

    #[test]
    fn a_sink_that_is_not_there_is_an_error_and_nothing_else() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(graphite(("127.0.0.1", free), "", false, 5, &metrics()).is_err());
        assert!(graphite(("no such host", 1), "", false, 5, &metrics()).is_err());
    }
}
