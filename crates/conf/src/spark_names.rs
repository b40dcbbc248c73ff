//! The names of Spark's settings, so that one without effect here can be told from a mistake.
//!
//! They are text in the executable, a line for each beginning (`spark.deploy.zookeeper dir url`), and are looked
//! through only when a key is set that is not registered.

const NAMES: &str = include_str!("spark_names.txt");

/// How Spark knows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// By this very name.
    ByName,
    /// By its beginning: an area that is not here at all, or a name of the user's such as that of a resource.
    ByPrefix,
}

/// How Spark 4.3 knows this key, if it does.
pub(crate) fn look_up(key: &str) -> Option<Known> {
    NAMES.lines().find_map(|line| {
        let (prefix, endings) = line.split_once(' ')?;
        let ending = key.strip_prefix(prefix)?.strip_prefix('.')?;
        let mut endings = endings.split(' ');
        endings.find_map(|known| match known {
            "*" => Some(Known::ByPrefix),
            known => (known == ending).then_some(Known::ByName),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_spark_is_known_by_its_name_or_by_its_beginning() {
        for (key, known) in [
            ("spark.speculation", Some(Known::ByName)),
            ("spark.eventLog.enabled", Some(Known::ByName)),
            ("spark.sql.shuffle.partitions", Some(Known::ByPrefix)),
            ("spark.locality.wait.rack", Some(Known::ByName)),
            ("spark.kubernetes.driver.label.queue", Some(Known::ByPrefix)),
            ("spark.akka.heartbeat.pauses", Some(Known::ByPrefix)),
            ("spark.eventLog", None),
            ("spark.eventLog.enable", None),
            ("spark.kubernetes", None),
            ("spark.mine", None),
            ("spark", None),
            ("", None),
        ] {
            assert_eq!(look_up(key), known, "{key}");
        }
    }

    #[test]
    fn the_lines_are_in_order_and_say_nothing_twice() {
        let lines: Vec<&str> = NAMES.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 200);
        let prefixes = lines.iter().map(|line| line.split(' ').next().unwrap());
        assert!(prefixes.is_sorted_by(|one, next| one < next));
        for line in lines {
            let endings = line.split(' ').skip(1);
            assert!(line.starts_with("spark") && endings.clone().count() > 0, "{line}");
            assert!(endings.is_sorted_by(|one, next| one < next), "{line}");
        }
    }
}
