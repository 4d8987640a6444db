//! Graphs like those of the papers, by name: DistDy's Table 2 and REAL's Table 3.
//!
//! REAL's Arxiv, Products and Reddit are real static graphs with random deletions, and its Stack Overflow
//! gains vertices over time; the presets have their sizes, change rates, widths and trend on power-law graphs
//! with a constant set of vertices. The change rate is the mean number of edges per difference map over that
//! per snapshot.

use super::hot::Hot;
use super::power_law::PowerLaw;
use super::trend::Trend;
use super::uniform::Uniform;
use super::{Generator, Params, Sampler};

/// A kind with the parameters of a published dataset.
pub struct Preset {
    name: &'static str,
    about: &'static str,
    kind: &'static dyn Generator,
    params: Params,
}

impl Generator for Preset {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn defaults(&self) -> Params {
        self.params.clone()
    }

    fn sampler(&self, params: &Params) -> Sampler {
        self.kind.sampler(params)
    }
}

/// What the synthetic graphs of DistDy share.
const DISTDY: Params = Params {
    vertices: 500_000,
    edges: 2_500_000,
    steps: 20,
    edge_change: 0.3,
    feature_change: 0.3,
    features: 128,
    binary: true,
    undirected: true,
    ..Params::GENERIC
};

/// What the graphs of REAL share; their features never change.
const REAL: Params =
    Params { steps: 100, feature_change: 0.0, trend: Trend::Stackoverflow, ..Params::GENERIC };

/// Uni500K of DistDy.
pub const UNI500K: Preset = Preset {
    name: "uni500k",
    about: "Uni500K of DistDy: 500k vertices, 2.5M undirected edges, 20 steps, 30 % change",
    kind: &Uniform,
    params: DISTDY,
};

/// Ex500K of DistDy.
pub const EX500K: Preset = Preset {
    name: "ex500k",
    about: "Ex500K of DistDy: as uni500k, with a tenth of the vertices hot",
    kind: &Hot,
    params: DISTDY,
};

/// Arxiv of REAL.
pub const ARXIV: Preset = Preset {
    name: "arxiv-like",
    about: "like Arxiv in REAL: 169k vertices, 1.8M edges, 100 steps, 13 % change",
    kind: &PowerLaw,
    params: Params {
        vertices: 169_300,
        edges: 1_800_000,
        edge_change: 242.6e3 / 1.8e6,
        features: 128,
        ..REAL
    },
};

/// Reddit of REAL.
pub const REDDIT: Preset = Preset {
    name: "reddit-like",
    about: "like Reddit in REAL: 233k vertices, 31.9M edges, 100 steps, 17 % change",
    kind: &PowerLaw,
    params: Params { vertices: 232_900, edges: 31_900_000, edge_change: 5.5 / 31.9, features: 602, ..REAL },
};

/// Products of REAL.
pub const PRODUCTS: Preset = Preset {
    name: "products-like",
    about: "like Products in REAL: 2.4M vertices, 36.7M edges, 100 steps, 16 % change",
    kind: &PowerLaw,
    params: Params { vertices: 2_400_000, edges: 36_700_000, edge_change: 5.9 / 36.7, features: 100, ..REAL },
};

/// Stack Overflow of REAL.
pub const STACKOVERFLOW: Preset = Preset {
    name: "stackoverflow-like",
    about: "like Stackoverflow in REAL: 2.6M vertices, 23.1M edges, 100 steps, 13 % change",
    kind: &PowerLaw,
    params: Params { vertices: 2_600_000, edges: 23_100_000, edge_change: 3.1 / 23.1, features: 128, ..REAL },
};
