//! Masters that a worker or a driver has heard lead. Terms decide which one it obeys; this only tells people that there are two.

use std::collections::BTreeMap;

/// Masters that took it in and whose connections have not broken since.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    /// By their indexes among the masters to dial.
    leading: BTreeMap<usize, Leader>,
    warned: bool,
}

#[derive(Debug)]
struct Leader {
    url: String,
    elected: bool,
}

impl Leaders {
    /// A master leads. The first time that another one does too: a warning. Of two that are elected, the one before may have been
    /// deposed without a word.
    pub(crate) fn hear(&mut self, master: usize, url: &str, elected: bool) -> Option<String> {
        let rival = self.leading.iter().find(|(index, other)| {
            **index != master && other.url != url && !(elected && other.elected)
        });
        let warning = rival.filter(|_| !self.warned).map(|(_, Leader { url: other, .. })| {
            format!(
                "the masters {other} and {url} both lead, and the cluster's workers and applications may be with either: set \
                 spark.deploy.recoveryMode to ZOOKEEPER or ETCD on both, so that they elect one, or name one of them only"
            )
        });
        self.warned |= warning.is_some();
        self.leading.insert(master, Leader { url: url.to_owned(), elected });
        warning
    }

    /// The connection to a master broke: another one may lead in its place.
    pub(crate) fn forget(&mut self, master: usize) {
        self.leading.remove(&master);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its index, its address, whether it was elected.
    type Heard = (usize, &'static str, bool);

    #[test]
    fn two_masters_that_lead_at_once_are_told_of_once_unless_both_were_elected() {
        let table: [(&str, &[Heard], usize); 6] = [
            ("one master, again and again", &[(0, "a", false), (0, "a", false)], 0),
            ("two that nobody elected", &[(0, "a", false), (1, "b", false), (0, "a", false)], 1),
            ("the second one is not in the election", &[(0, "a", true), (1, "b", false)], 1),
            ("one after the other", &[(0, "a", true), (1, "b", true), (0, "a", true)], 0),
            ("two names of one master", &[(0, "a", false), (1, "a", false)], 0),
            ("a master that has another name now", &[(0, "a", false), (0, "b", false)], 0),
        ];
        for (case, heard, warnings) in table {
            let mut leaders = Leaders::default();
            let hear = |(master, url, elected): &Heard| leaders.hear(*master, url, *elected);
            assert_eq!(heard.iter().filter_map(hear).count(), warnings, "{case}");
        }
    }

    #[test]
    fn a_master_whose_connection_broke_is_not_one_of_two() {
        let mut leaders = Leaders::default();
        assert_eq!(leaders.hear(0, "spark://a:7077", false), None);
        leaders.forget(0);
        assert_eq!(leaders.hear(1, "spark://b:7077", false), None);
        let warning = leaders.hear(0, "spark://a:7077", false).unwrap();
        for word in ["spark://a:7077", "spark://b:7077", "recoveryMode", "ZOOKEEPER", "ETCD"] {
            assert!(warning.contains(word), "{warning}");
        }
    }
}
