//! What columns mean: their roles, and the names that tell.

use crate::time::{TimeUnit, UNITS};

/// What a column means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Where an edge starts.
    Source,
    /// Where it ends.
    Target,
    /// When it happens.
    Time,
    /// The number of the step in which it is there.
    Step,
    /// Whether it appears (1) or disappears (-1).
    Change,
    /// How much it counts.
    Weight,
    /// The class of its source.
    SourceLabel,
    /// The class of its target.
    TargetLabel,
}

/// The names columns go by. Names that are not here, `_` among them, say nothing.
const NAMES: &[(Role, &[&str])] = &[
    (
        Role::Source,
        &[
            "source",
            "src",
            "u",
            "user",
            "user_id",
            "userid",
            "from",
            "head",
            "from_id",
            "source_id",
            "sourceid",
            "src_id",
            "from_node",
            "fromnodeid",
            "sender",
            "sender_id",
            "payer",
            "caller",
            "origin",
            "orig",
            "follower",
            "citing",
            "buyer",
            "buyer_id",
            "customer",
            "customer_id",
            "start_station_id",
            "subject",
            "rater",
            "trustor",
            "from_address",
            "nameorig",
            "account_from",
        ],
    ),
    (
        Role::Target,
        &[
            "target",
            "dst",
            "destination",
            "v",
            "i",
            "item",
            "item_id",
            "itemid",
            "movieid",
            "movie_id",
            "to",
            "tail",
            "to_id",
            "target_id",
            "targetid",
            "dst_id",
            "to_node",
            "tonodeid",
            "receiver",
            "receiver_id",
            "recipient",
            "recipient_id",
            "payee",
            "callee",
            "dest",
            "followee",
            "cited",
            "seller",
            "seller_id",
            "product",
            "product_id",
            "end_station_id",
            "object",
            "ratee",
            "trustee",
            "to_address",
            "namedest",
            "account_to",
        ],
    ),
    (
        Role::Time,
        &[
            "time",
            "timestamp",
            "ts",
            "t",
            "date",
            "datetime",
            "day",
            "year",
            "when",
            "created_at",
            "unixtime",
            "epoch",
            "date_time",
            "event_time",
            "started_at",
            "start_time",
            "block_timestamp",
        ],
    ),
    (Role::Step, &["step", "snapshot", "timestep", "time_step"]),
    (Role::Change, &["op"]),
    (
        Role::Weight,
        &[
            "weight", "w", "rating", "value", "amount", "qty", "quantity", "count", "score", "strength",
            "stars", "volume", "price",
        ],
    ),
    (Role::SourceLabel, &["source_label"]),
    (Role::TargetLabel, &["target_label"]),
];

/// Names that mean source and target only where both are there.
const PAIRS: &[[&str; 2]] = &[
    ["i", "j"],
    ["a", "b"],
    ["id1", "id2"],
    ["id_1", "id_2"],
    ["node1", "node2"],
    ["node_1", "node_2"],
    ["user1", "user2"],
    ["person1", "person2"],
    ["nodea", "nodeb"],
    ["author1", "author2"],
];

impl Role {
    /// What a column of this name means, and the unit its name ends with if it is a time.
    fn of(name: &str) -> Option<(Role, Option<TimeUnit>)> {
        let find = |name: &str| NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(role, _)| role);
        if let Some(role) = find(name) {
            return Some((role, None));
        }
        let (stem, suffix) = name.rsplit_once('_')?;
        let &(_, unit) = UNITS.iter().find(|(name, _)| *name == suffix)?;
        (find(stem) == Some(Role::Time)).then_some((Role::Time, Some(unit)))
    }

    /// The names that mean this.
    pub fn names(self) -> String {
        NAMES.iter().find(|(role, _)| *role == self).map_or(String::new(), |(_, names)| names.join(", "))
    }

    /// The word for it, as `--columns` takes it.
    pub fn word(self) -> &'static str {
        NAMES.iter().find(|(role, _)| *role == self).map_or("_", |(_, names)| names[0])
    }
}

/// What each of these names means, and the unit it ends with. Of two columns with the same meaning the first
/// one counts.
pub fn roles<S: AsRef<str>>(names: &[S]) -> Vec<Option<(Role, Option<TimeUnit>)>> {
    let names: Vec<String> = names.iter().map(|name| tidied(name.as_ref())).collect();
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let pair = PAIRS.iter().find_map(|[source, target]| Some([place(source)?, place(target)?]));
    let mut roles: Vec<Option<(Role, Option<TimeUnit>)>> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let role = match pair {
            Some([source, _]) if index == source => Some((Role::Source, None)),
            Some([_, target]) if index == target => Some((Role::Target, None)),
            _ => Role::of(name),
        };
        let taken = |role: Role| roles.iter().flatten().any(|&(other, _)| other == role);
        roles.push(role.filter(|&(role, _)| !taken(role)));
    }
    roles
}

/// A name without what people vary: case, blanks, hyphens and camel humps' case.
pub fn tidied(name: &str) -> String {
    name.trim().trim_matches(['"', '\'']).to_ascii_lowercase().replace([' ', '-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(names: &str) -> Vec<&'static str> {
        let names: Vec<&str> = names.split(',').collect();
        roles(&names).into_iter().map(|role| role.map_or("_", |(role, _)| role.word())).collect()
    }

    #[test]
    fn names_are_known_however_they_are_written() {
        assert_eq!(words("userId,movieId,rating,timestamp"), ["source", "target", "weight", "time"]);
        assert_eq!(words("From Node,To-Node, \"Qty\""), ["source", "target", "weight"]);
        assert_eq!(words("payer,payee,when,memo"), ["source", "target", "time", "_"]);
        assert_eq!(roles(&["ts_ms"]), [Some((Role::Time, Some(TimeUnit::Ms)))]);
        assert_eq!(roles(&["weight_ms"]), [None]);
    }

    #[test]
    fn an_i_is_a_source_beside_a_j_and_an_item_elsewhere() {
        assert_eq!(words("t,i,j"), ["time", "source", "target"]);
        assert_eq!(words("u,i,ts"), ["source", "target", "time"]);
    }

    #[test]
    fn the_first_of_two_with_the_same_meaning_counts() {
        assert_eq!(words("src,dst,date,time,amount,value"), ["source", "target", "time", "_", "weight", "_"]);
    }
}
