//! Graphite and StatsD: a line for each metric, over a connection or in packets.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use crate::{Distribution, MILLISECOND, Metrics, Rates, Value, figures};

/// How long another machine may take to answer, and to take what is sent.
const TIME: Duration = Duration::from_secs(2);
/// What fits into a packet wherever it goes.
const PACKET: usize = 1400;

fn full_name(prefix: &str, name: &str) -> String {
    let name: String =
        name.chars().map(|letter| if letter.is_whitespace() { '-' } else { letter }).collect();
    if prefix.is_empty() { name } else { format!("{prefix}.{name}") }
}

/// What both sinks tell of a histogram or a timer besides its count, by the ends of names: times are in milliseconds.
fn parts(of: &Distribution, unit: f64, rates: Option<&Rates>) -> Vec<(&'static str, String)> {
    let rates = rates.map(|rates| {
        let [one, five, fifteen] = rates.minutes;
        [("m1_rate", one), ("m5_rate", five), ("m15_rate", fifteen), ("mean_rate", rates.mean)]
    });
    let all = figures(of, unit).into_iter().chain(rates.into_iter().flatten());
    all.map(|(name, value)| (name, format!("{value:.2}"))).collect()
}

/// The count of a histogram or a timer, and its parts.
fn measured(value: &Value) -> Option<(u64, Vec<(&'static str, String)>)> {
    match value {
        Value::Histogram(of) => Some((of.count, parts(of, 1.0, None))),
        Value::Timer(timer) => {
            let of = &timer.nanoseconds;
            Some((of.count, parts(of, MILLISECOND, Some(&timer.rates))))
        }
        _ => None,
    }
}

/// `NAME VALUE SECONDS`; counters end with `.count`.
fn graphite_lines(prefix: &str, at: u64, metrics: &Metrics) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in metrics.iter() {
        let name = full_name(prefix, &metric.name);
        match &metric.value {
            Value::Gauge(value) => lines.push(format!("{name} {value} {at}\n")),
            Value::Counter(value) => lines.push(format!("{name}.count {value} {at}\n")),
            Value::Text(_) => {}
            other => {
                let (count, parts) = measured(other).unwrap_or_default();
                lines.push(format!("{name}.count {count} {at}\n"));
                let part = |(end, value): (&str, String)| format!("{name}.{end} {value} {at}\n");
                lines.extend(parts.into_iter().map(part));
            }
        }
    }
    lines
}

/// `NAME:VALUE|g`, `|c` for counters, and `|ms` for what histograms and timers tell besides their count.
fn statsd_lines(prefix: &str, metrics: &Metrics) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in metrics.iter() {
        let name = full_name(prefix, &metric.name).replace([':', '|', '@'], "-");
        match &metric.value {
            Value::Gauge(value) => lines.push(format!("{name}:{value}|g\n")),
            Value::Counter(value) => lines.push(format!("{name}:{value}|c\n")),
            Value::Text(_) => {}
            other => {
                let (count, parts) = measured(other).unwrap_or_default();
                lines.push(format!("{name}.count:{count}|g\n"));
                let part = |(end, value): (&str, String)| format!("{name}.{end}:{value}|ms\n");
                lines.extend(parts.into_iter().map(part));
            }
        }
    }
    lines
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
    use crate::Timer;

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
    fn timers_and_histograms_are_told_in_parts() {
        let timer = Timer::default();
        timer.update(Duration::from_micros(1500), 16);
        let mut metrics = Metrics::new("");
        metrics.timer("t", timer.snapshot());
        metrics.histogram("h", timer.snapshot().nanoseconds);
        let lines = graphite_lines("", 5, &metrics);
        assert_eq!(lines.len(), 15 + 11, "{lines:?}");
        let all = lines.concat();
        assert!(all.contains("t.count 16 5\nt.max 1.50 5\n") && all.contains("t.p999 1.50 5\n"));
        assert!(
            all.contains("t.m1_rate 0.00 5\n") && all.contains("h.p50 1500000.00 5\n"),
            "{all}"
        );
        let all = statsd_lines("", &metrics).concat();
        assert!(all.contains("t.count:16|g\nt.max:1.50|ms\n"), "{all}");
    }

    #[test]
    fn a_sink_that_is_not_there_is_an_error_and_nothing_else() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(graphite(("127.0.0.1", free), "", false, 5, &metrics()).is_err());
        assert!(graphite(("no such host", 1), "", false, 5, &metrics()).is_err());
    }
}
