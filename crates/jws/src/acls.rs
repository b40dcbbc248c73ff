//! Who may see something and who may change it, as Spark's `SecurityManager` decides: [`Acls::decide`] is a function of lists, a
//! name and its groups.
//!
//! One thing differs from Spark: where lists count, a request that names nobody is refused. Spark lets it through.

/// In a list: everybody.
const WILDCARD: &str = "*";

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    View,
    /// To kill, or otherwise change what runs.
    Modify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// The request names nobody, and has to.
    Unidentified,
    Denied,
}

/// The lists of users of one application or server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// `false`: everybody may do everything.
    pub enabled: bool,
    /// Who runs it, and has every right.
    pub owner: String,
    pub admins: Vec<String>,
    pub viewers: Vec<String>,
    pub modifiers: Vec<String>,
    /// The same of groups.
    pub admin_groups: Vec<String>,
    pub viewer_groups: Vec<String>,
    pub modifier_groups: Vec<String>,
}

impl Acls {
    /// Whether a user, or a request that names nobody, has a right. `groups` of a user are asked for where they matter.
    pub fn decide(
        &self,
        user: Option<&str>,
        groups: &dyn Fn(&str) -> Vec<String>,
        right: Right,
    ) -> Verdict {
        let (own, own_groups) = match right {
            Right::View => (&self.viewers, &self.viewer_groups),
            Right::Modify => (&self.modifiers, &self.modifier_groups),
        };
        let is_listed = |name: &str| self.admins.iter().chain(own).any(|listed| listed == name);
        let listed_groups = || self.admin_groups.iter().chain(own_groups);
        let is_group = |name: &str| listed_groups().any(|listed| listed == name);
        let is_member = |user: &str| {
            listed_groups().next().is_some() && groups(user).iter().any(|group| is_group(group))
        };
        match user.filter(|user| !user.is_empty()) {
            _ if !self.enabled || is_listed(WILDCARD) || is_group(WILDCARD) => Verdict::Allowed,
            None => Verdict::Unidentified,
            Some(user) if user == self.owner || is_listed(user) => Verdict::Allowed,
            Some(user) if is_member(user) => Verdict::Allowed,
            Some(_) => Verdict::Denied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &str) -> Vec<String> {
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn rights_follow_from_lists_as_spark_decides() {
        use Right::{Modify, View};
        use Verdict::{Allowed, Denied, Unidentified};
        // Enabled, admins, viewers, modifiers, who asks, what for.
        let table = [
            ((false, "", "", ""), None, View, Allowed),
            ((false, "", "", ""), Some("eve"), Modify, Allowed),
            ((true, "", "", ""), None, View, Unidentified),
            ((true, "", "", ""), Some(""), View, Unidentified),
            ((true, "", "", ""), Some("owner"), View, Allowed),
            ((true, "", "", ""), Some("owner"), Modify, Allowed),
            ((true, "", "", ""), Some("eve"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("ada"), View, Allowed),
            ((true, "ada", "vic", "mod"), Some("ada"), Modify, Allowed),
            ((true, "ada", "vic", "mod"), Some("vic"), View, Allowed),
            ((true, "ada", "vic", "mod"), Some("vic"), Modify, Denied),
            ((true, "ada", "vic", "mod"), Some("mod"), Modify, Allowed),
            ((true, "ada", "vic", "mod"), Some("mod"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("VIC"), View, Denied),
            ((true, "ada", "vic", "mod"), Some("*"), View, Denied),
            ((true, "", "*", ""), Some("eve"), View, Allowed),
            ((true, "", "*", ""), None, View, Allowed),
            ((true, "", "*", ""), Some("eve"), Modify, Denied),
            ((true, "", "", "*"), Some("eve"), Modify, Allowed),
            ((true, "*", "", ""), Some("eve"), Modify, Allowed),
            ((true, "*", "", ""), Some("eve"), View, Allowed),
        ];
        for ((enabled, admins, viewers, modifiers), user, right, verdict) in table {
            let owner = "owner".to_owned();
            let (admins, viewers, modifiers) = (list(admins), list(viewers), list(modifiers));
            let acls = Acls { enabled, owner, admins, viewers, modifiers, ..Acls::default() };
            let nobody_is_asked = |_: &str| -> Vec<String> { panic!("there is no list of groups") };
            let decided = acls.decide(user, &nobody_is_asked, right);
            assert_eq!(decided, verdict, "{acls:?} {user:?} {right:?}");
            // The same lists of groups, each user in a group of their name.
            let groups = Acls {
                owner: acls.owner,
                enabled,
                admin_groups: acls.admins,
                viewer_groups: acls.viewers,
                modifier_groups: acls.modifiers,
                ..Acls::default()
            };
            let own = |user: &str| vec!["users".to_owned(), user.to_owned()];
            if user != Some("*") {
                assert_eq!(groups.decide(user, &own, right), verdict, "{groups:?} {user:?}");
            }
            let nowhere = groups.decide(user, &|_| Vec::new(), right);
            assert!(nowhere == verdict || nowhere == Denied, "{groups:?} {user:?}");
        }
        let nobodys = Acls { enabled: true, ..Acls::default() };
        let decided = nobodys.decide(Some(""), &|_| Vec::new(), View);
        assert_eq!(decided, Unidentified, "no owner is nobody");
    }
}
