//! The names of tasks that others than themselves ask about.

/// The name of link prediction, which the default features depend on.
pub const LINK_PREDICTION: &str = "link-prediction";

/// The task whose data has names for what is told apart.
pub const NODE_CLASSIFICATION: &str = "node-classification";

/// The name of edge regression, which says nothing of steps whose edges are not known.
pub const EDGE_REGRESSION: &str = "edge-regression";

/// The name of edge classification, which does not, either.
pub const EDGE_CLASSIFICATION: &str = "edge-classification";
