//! `metrics.properties`: which sinks a process has. Lines are `INSTANCE.sink.NAME.OPTION=VALUE`, where the instance is `driver`,
//! `master`, `worker`, `applications`, or `*` for all; settings `spark.metrics.conf.INSTANCE.sink...` say the same and win.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use firesteel_conf::{Conf, ConfError, entries, properties};

/// Why sinks cannot be had as they are asked for.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error(transparent)]
    Setting(#[from] ConfError),
    #[error("{sink}: {what}")]
    Option { sink: String, what: String },
}

/// A sink as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkOptions {
    /// The name that the file gives it.
    pub name: String,
    /// How often it is told.
    pub period: Duration,
    pub kind: SinkKind,
}

/// Where a sink puts what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// A file for each metric.
    Csv {
        directory: PathBuf,
    },
    /// Standard output.
    Console,
    Graphite {
        host: String,
        port: u16,
        prefix: String,
        udp: bool,
    },
    Statsd {
        host: String,
        port: u16,
        prefix: String,
    },
}

/// What a setting of a sink follows.
const PREFIX: &str = "spark.metrics.conf.";

/// The lines of the file, if there is one, and the settings that replace them.
fn gather(conf: &Conf) -> Result<BTreeMap<String, String>, MetricsError> {
    let mut all = BTreeMap::new();
    let path = conf.get(&entries::METRICS_CONF)?.map(PathBuf::from).or_else(default_file);
    if let Some(path) = path {
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfError::ReadFile { path: path.clone(), source })?;
        let lines = properties::parse(&text).map_err(|source| {
            let place = path.display().to_string();
            ConfError::ParseProperties { place, source }
        })?;
        all.extend(lines.into_iter().map(|line| (line.key, line.value)));
    }
    let set = conf.iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)));
    all.extend(set.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(all)
}

/// Where Spark looks for it.
fn default_file() -> Option<PathBuf> {
    let directory = std::env::var_os("SPARK_CONF_DIR").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("SPARK_HOME")?).join("conf"));
    let file = directory.or_else(home)?.join("metrics.properties");
    file.is_file().then_some(file)
}

/// What sinks of Spark's are called by their classes.
const PACKAGE: &str = "org.apache.spark.metrics.sink.";
/// The longest time between reports: clocks do not go on for ever.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// Answered by the port that a process has anyway.
const SERVED: [&str; 2] = ["MetricsServlet", "PrometheusServlet"];

impl SinkOptions {
    /// The sinks of an instance, by their names.
    pub fn from_conf(conf: &Conf, instance: &str) -> Result<Vec<Self>, MetricsError> {
        let all = gather(conf)?;
        for what in overlooked(&all, instance) {
            tracing::warn!(instance, "metrics: {what}");
        }
        let mut sinks: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        // What is said of all goes first: the instance's own words replace it.
        for whose in ["*", instance] {
            for (key, value) in &all {
                let rest = key.strip_prefix(whose).and_then(|rest| rest.strip_prefix(".sink."));
                if let Some((name, option)) = rest.and_then(|rest| rest.split_once('.')) {
                    let options = sinks.entry(name.to_owned()).or_default();
                    options.insert(option.to_owned(), value.clone());
                }
            }
        }
        let found =
            sinks.into_iter().map(|(name, options)| Asked { instance, name, options }.sink());
        found.filter_map(Result::transpose).collect()
    }
}

/// Where the ports of processes answer for the sinks of Spark's that do.
const PATHS: [&str; 8] = [
    "/metrics/json",
    "/metrics/prometheus",
    "/metrics/master/json",
    "/metrics/master/prometheus",
    "/metrics/applications/json",
    "/metrics/applications/prometheus",
    "/metrics/worker/json",
    "/metrics/worker/prometheus",
];

/// What an instance is asked for and does not do, in sentences.
fn overlooked(all: &BTreeMap<String, String>, instance: &str) -> Vec<String> {
    let is_served = |whose: &str, name: &str| {
        let of = |whose: &str| all.get(&format!("{whose}.sink.{name}.class"));
        let class = of(whose).or_else(|| of("*")).map_or("", |class| class.trim());
        name == "servlet" || SERVED.contains(&class.strip_prefix(PACKAGE).unwrap_or(class))
    };
    let sentence = |key: &String, value: &String| {
        let (whose, rest) = key.split_once('.')?;
        if whose == "applications" && instance == "master" && rest.starts_with("sink.") {
            return Some(format!("{key}: there are sinks of master, worker and driver only"));
        }
        if whose == "executor" && instance == "driver" && rest.starts_with("sink.") {
            return Some(format!(
                "{key}: there are no sinks of executors: those of the driver are told their sums"
            ));
        }
        if whose != "*" && whose != instance {
            return None;
        }
        if rest.starts_with("source.") {
            return Some(format!("{key}: there are no other sources than those of every process"));
        }
        let (name, option) = rest.strip_prefix("sink.")?.split_once('.')?;
        let value = value.trim();
        match option {
            "regex" => Some(format!("{key}={value}: a sink is told all metrics")),
            "path" if is_served(whose, name) && !PATHS.contains(&value.trim_end_matches('/')) => {
                Some(format!("{key}={value}: ask for /metrics/json or /metrics/prometheus"))
            }
            _ => None,
        }
    };
    all.iter().filter_map(|(key, value)| sentence(key, value)).collect()
}

/// The options of one sink.
struct Asked<'a> {
    instance: &'a str,
    name: String,
    options: BTreeMap<String, String>,
}

impl Asked<'_> {
    fn refused(&self, what: String) -> MetricsError {
        MetricsError::Option { sink: format!("{}.sink.{}", self.instance, self.name), what }
    }

    fn get(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(|value| value.trim())
    }

    /// `None`: a port answers for it.
    fn sink(self) -> Result<Option<SinkOptions>, MetricsError> {
        let class = self.get("class").unwrap_or_default();
        let class = class.strip_prefix(PACKAGE).unwrap_or(class);
        let kind = match class {
            served if SERVED.contains(&served) => return Ok(None),
            // An option of the default servlet, such as its path: there is none without a class but that one.
            "" if self.name == "servlet" => return Ok(None),
            "CsvSink" => {
                SinkKind::Csv { directory: self.get("directory").unwrap_or("/tmp/").into() }
            }
            "ConsoleSink" => SinkKind::Console,
            "GraphiteSink" => self.graphite()?,
            "StatsdSink" => SinkKind::Statsd {
                host: self.get("host").unwrap_or("127.0.0.1").to_owned(),
                port: self.port("8125")?,
                prefix: self.get("prefix").unwrap_or_default().to_owned(),
            },
            other => {
                let known = "CsvSink, ConsoleSink, GraphiteSink, StatsdSink, PrometheusServlet, MetricsServlet";
                return Err(self.refused(format!(
                    "there is no sink of the class {other:?}; there are {known}"
                )));
            }
        };
        Ok(Some(SinkOptions { period: self.period()?, name: self.name, kind }))
    }

    fn graphite(&self) -> Result<SinkKind, MetricsError> {
        let host = self.get("host").map(str::to_owned);
        let udp = match self.get("protocol").map(str::to_lowercase).as_deref() {
            None | Some("tcp") => false,
            Some("udp") => true,
            Some(other) => {
                return Err(self.refused(format!("protocol={other}: it is tcp or udp")));
            }
        };
        Ok(SinkKind::Graphite {
            host: host.ok_or_else(|| self.refused("Graphite needs a host".to_owned()))?,
            port: self.port("")?,
            prefix: self.get("prefix").unwrap_or_default().to_owned(),
            udp,
        })
    }

    fn port(&self, default: &str) -> Result<u16, MetricsError> {
        let text = self.get("port").unwrap_or(default);
        text.parse().map_err(|_| self.refused(format!("port={text}: it is a number up to 65535")))
    }

    fn period(&self) -> Result<Duration, MetricsError> {
        let text = self.get("period").unwrap_or("10");
        let period: u64 =
            text.parse().ok().filter(|period| *period > 0).ok_or_else(|| {
                self.refused(format!("period={text}: it is a whole number above 0"))
            })?;
        let unit = self.get("unit").unwrap_or("seconds").to_lowercase();
        let seconds = match unit.as_str() {
            "milliseconds" => return Ok(Duration::from_millis(period.max(1000)).min(LONGEST)),
            "seconds" => 1,
            "minutes" => 60,
            "hours" => 3600,
            "days" => 86_400,
            other => {
                let text = format!("unit={other}: it is seconds, minutes, hours or days");
                return Err(self.refused(text));
            }
        };
        let period = Duration::from_secs(period.saturating_mul(seconds));
        if period > LONGEST {
            return Err(self.refused(format!("period={text}: it is a year at most")));
        }
        Ok(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sinks(settings: &[(&str, &str)], instance: &str) -> Result<Vec<SinkOptions>, String> {
        let mut conf = Conf::default();
        for (key, value) in settings {
            conf.set(format!("spark.metrics.conf.{key}"), *value);
        }
        SinkOptions::from_conf(&conf, instance).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_and_settings_say_which_sinks_there_are_and_settings_win() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("metrics.properties");
        let text = "# all\n*.sink.csv.class=org.apache.spark.metrics.sink.CsvSink\n*.sink.csv.period=1\n\
                    *.sink.csv.unit=minutes\ndriver.sink.csv.directory=/var/m\n\
                    master.sink.c.class=org.apache.spark.metrics.sink.ConsoleSink\n\
                    *.sink.p.class=org.apache.spark.metrics.sink.PrometheusServlet\n*.sink.p.path=/metrics/prometheus\n";
        std::fs::write(&file, text).unwrap();
        let mut conf = Conf::default();
        conf.set("spark.metrics.conf", file.display());
        conf.set("spark.metrics.conf.driver.sink.csv.period", "7");
        let of = |instance| SinkOptions::from_conf(&conf, instance).unwrap();
        let kind = SinkKind::Csv { directory: "/var/m".into() };
        let csv = SinkOptions { name: "csv".into(), period: Duration::from_secs(420), kind };
        assert_eq!(of("driver"), [csv]);
        let names = |instance| of(instance).into_iter().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names("master"), ["c", "csv"]);
        assert_eq!(names("worker"), ["csv"]);
    }

    #[test]
    fn options_that_cannot_be_are_told_with_the_sink() {
        let table = [
            (
                vec![("*.sink.j.class", "org.apache.spark.metrics.sink.JmxSink")],
                "no sink of the class \"JmxSink\"",
            ),
            (vec![("*.sink.g.class", "GraphiteSink")], "needs a host"),
            (vec![("*.sink.g.class", "GraphiteSink"), ("*.sink.g.host", "h")], "port=:"),
            (vec![("*.sink.c.class", "ConsoleSink"), ("*.sink.c.period", "0")], "period=0"),
            (vec![("*.sink.c.class", "ConsoleSink"), ("*.sink.c.unit", "ages")], "unit=ages"),
            (
                vec![
                    ("*.sink.c.class", "ConsoleSink"),
                    ("*.sink.c.period", "18446744073709551615"),
                ],
                "it is a year at most",
            ),
            (vec![("*.sink.x.period", "1")], "no sink of the class \"\""),
        ];
        for (settings, text) in table {
            let refused = sinks(&settings, "driver").unwrap_err();
            assert!(refused.contains(text) && refused.starts_with("driver.sink."), "{refused}");
        }
        let servlet = [("*.sink.servlet.path", "/metrics/json"), ("driver.source.jvm.class", "x")];
        assert_eq!(sinks(&servlet, "driver"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_not_done_is_told_and_nothing_else_is() {
        let all: BTreeMap<String, String> = [
            ("*.sink.p.class", "org.apache.spark.metrics.sink.PrometheusServlet"),
            ("*.sink.p.path", "/metrics/prometheus"),
            ("driver.sink.p.path", "/elsewhere"),
            ("*.sink.servlet.path", "/metrics/json/"),
            ("*.sink.csv.class", "CsvSink"),
            ("*.sink.csv.path", "/x"),
            ("*.sink.csv.regex", "a.*"),
            ("worker.source.jvm.class", "org.apache.spark.metrics.source.JvmSource"),
            ("applications.sink.csv.period", "1"),
            ("executor.sink.graphite.class", "GraphiteSink"),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        let told = |instance| {
            let mut keys: Vec<String> = overlooked(&all, instance);
            keys.iter_mut().for_each(|it| it.truncate(it.find(['=', ':']).unwrap()));
            keys
        };
        let of_executors = "executor.sink.graphite.class";
        assert_eq!(told("driver"), ["*.sink.csv.regex", "driver.sink.p.path", of_executors]);
        assert_eq!(told("worker"), ["*.sink.csv.regex", "worker.source.jvm.class"]);
        assert_eq!(told("master"), ["*.sink.csv.regex", "applications.sink.csv.period"]);
    }
}
