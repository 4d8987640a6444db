//! Published models as recipes: structure, time and weave, one entry each.

use kymo_tensor::{Error, Result};

use crate::Model;
use crate::graph::Normalisation;
use crate::structure::{Activation, Gat, Gather, Gcn, Layers, Mpnn, Polynomial, Sage, Structure};
use crate::time::{Attention, Convolution, Gru, Linear, Lstm, Time, Update};
use crate::weave::{Attended, Blocks, Convolved, Diffused, Evolution, Evolving, Gated, Sandwiched, Stacked};

/// Steps that a convolution over time looks at: those of STGCN's paper.
const KERNEL: usize = 3;

/// What a model is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Columns of the features.
    pub features: usize,
    /// Columns of the embeddings.
    pub hidden: usize,
    /// Layers of the structure encoder, 1 to 3; each block has as many.
    pub layers: usize,
    /// Blocks of structure and time above each other, 1 to 3.
    pub blocks: usize,
    /// Heads of attention; they share the hidden columns.
    pub heads: usize,
    /// The longest window, for models that have a parameter for each step of it.
    pub window: usize,
    /// How neighbours are weighed, where the recipe does not say.
    pub normalisation: Normalisation,
    /// How GraphSAGE and ROLAND summarise neighbours.
    pub gather: Gather,
    /// How ROLAND's states follow from those before.
    pub update: Update,
    /// Steps of each random walk of a diffusion convolution, and hops of convolutions that have several.
    pub walks: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            features: 1,
            hidden: 64,
            layers: 1,
            blocks: 1,
            heads: 1,
            window: 8,
            normalisation: Normalisation::Both,
            gather: Gather::Mean,
            update: Update::Gru,
            walks: 2,
        }
    }
}

impl Config {
    /// Fails where a size is 0: no model can be made for that.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("features", self.features),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("window", self.window),
            ("walks", self.walks),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((setting, _)) => Err(Error::settings(setting, "found 0, expected at least 1")),
            None => Ok(()),
        }
    }
}

/// A published model.
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// Its structure encoder, time encoder and weave.
    pub parts: [&'static str; 3],
    /// A block of it. What is given besides is done to what structure makes where no time encoder follows:
    /// nothing in the last block, as in the last layer.
    make: fn(&Config, Activation) -> Box<dyn Model>,
}

/// Every model.
pub const ALL: &[Recipe] = &[
    Recipe {
        name: "gcn",
        about: "the static control: every snapshot by itself",
        paper: "Kipf and Welling, ICLR 2017",
        parts: ["gcn", "none", "stacked"],
        make: |config, end| stacked(gcn_layers(config, config.layers, end), None),
    },
    Recipe {
        name: "t-gcn",
        about: "gates of a recurrent unit from a graph convolution",
        paper: "Zhao et al., T-ITS 2020",
        parts: ["gcn", "gru", "gated"],
        make: |config, _| gated(config),
    },
    Recipe {
        name: "a3t-gcn",
        about: "attention over the states of T-GCN",
        paper: "Bai et al., ISPRS International Journal of Geo-Information 2021",
        parts: ["gcn", "gru", "attended"],
        make: |config, _| Box::new(Attended(gated(config))),
    },
    Recipe {
        name: "wd-gcn",
        about: "a recurrent memory for every vertex above graph convolutions",
        paper: "Manessi et al., Pattern Recognition 2020",
        parts: ["gcn", "lstm", "stacked"],
        make: |config, _| {
            stacked(
                gcn_layers(config, config.layers, Activation::Relu),
                Some(lstm(config.hidden, config.hidden, 1)),
            )
        },
    },
    Recipe {
        name: "gcn-gru",
        about: "a gated memory for every vertex above graph convolutions, the baseline of EvolveGCN",
        paper: "Pareja et al., AAAI 2020",
        parts: ["gcn", "gru", "stacked"],
        make: |config, _| {
            let (input, hidden) = (config.hidden, config.hidden);
            let time = Gru { name: "time".into(), input, hidden };
            stacked(gcn_layers(config, config.layers, Activation::Relu), Some(Box::new(time)))
        },
    },
    Recipe {
        name: "gat-lstm",
        about: "a recurrent memory for every vertex above graph attention",
        paper: "Wu et al., ICISCE 2018",
        parts: ["gat", "lstm", "stacked"],
        make: |config, _| stacked(gat_layers(config), Some(lstm(config.hidden, config.hidden, 1))),
    },
    Recipe {
        name: "evolvegcn-o",
        about: "convolution weights that evolve by themselves",
        paper: "Pareja et al., AAAI 2020",
        parts: ["gcn", "lstm", "evolving"],
        make: |config, end| evolving(config, Evolution::Weights, end),
    },
    Recipe {
        name: "evolvegcn-h",
        about: "convolution weights driven by the highest-scoring vertices",
        paper: "Pareja et al., AAAI 2020",
        parts: ["gcn", "gru", "evolving"],
        make: |config, end| evolving(config, Evolution::Vertices, end),
    },
    Recipe {
        name: "dysat",
        about: "self-attention over time above graph attention",
        paper: "Sankar et al., WSDM 2020",
        parts: ["gat", "attention", "stacked"],
        make: |config, _| {
            let (width, heads, window) = (config.hidden, config.heads, config.window);
            stacked(
                gat_layers(config),
                Some(Box::new(Attention { name: "time".into(), width, heads, window })),
            )
        },
    },
    Recipe {
        name: "mpnn-lstm",
        about: "two recurrent layers above all layers of message passing",
        paper: "Panagopoulos et al., AAAI 2021",
        parts: ["mpnn", "lstm", "stacked"],
        make: |config, _| {
            let config = Config { normalisation: Normalisation::Right, ..*config };
            let structure = Mpnn(gcn_layers(&config, config.layers, Activation::Relu));
            let input = structure.width();
            stacked(structure, Some(lstm(input, config.hidden, 2)))
        },
    },
    Recipe {
        name: "gc-lstm",
        about: "gates of a recurrent memory that hear the states of neighbours",
        paper: "Chen et al., Applied Intelligence 2022 (arXiv 1812.04206)",
        parts: ["gcn", "lstm", "gated"],
        make: |config, _| {
            let Config { features: input, hidden, layers, walks: hops, normalisation, .. } = *config;
            Box::new(Convolved { input, hidden, layers, hops, normalisation })
        },
    },
    Recipe {
        name: "dcrnn",
        about: "gates of a recurrent unit from walks in both directions",
        paper: "Li et al., ICLR 2018",
        parts: ["diffusion", "gru", "gated"],
        make: |config, _| {
            let Config { features: input, hidden, layers, walks, .. } = *config;
            Box::new(Diffused { input, hidden, layers, walks })
        },
    },
    Recipe {
        name: "stgcn",
        about: "graph convolutions between two gated convolutions over time",
        paper: "Yu, Yin and Zhu, IJCAI 2018",
        parts: ["polynomial", "convolution", "sandwiched"],
        make: |config, _| {
            let Config { features, hidden, walks: hops, normalisation, .. } = *config;
            let convolution = |name: &str, input: usize| Convolution {
                name: name.into(),
                input,
                output: hidden,
                kernel: KERNEL,
            };
            let structure =
                layers(&Config { features: hidden, ..*config }, config.layers, |name, _, input| {
                    let activation = Activation::Relu;
                    Box::new(Polynomial { name, input, output: hidden, hops, normalisation, activation })
                });
            let (first, last) = (convolution("before", features), convolution("time", hidden));
            Box::new(Sandwiched { first, structure: Box::new(structure), last })
        },
    },
    Recipe {
        name: "graphsage-linear",
        about: "a linear function of the last steps above GraphSAGE",
        paper: "Hamilton et al., NeurIPS 2017",
        parts: ["sage", "linear", "stacked"],
        make: |config, _| {
            let (width, reach) = (config.hidden, config.window);
            let time = Linear { name: "time".into(), input: width, output: width, reach };
            stacked(sage_layers(config, false), Some(Box::new(time)))
        },
    },
    Recipe {
        name: "roland",
        about: "layers that each remember: what one makes of a step updates its state",
        paper: "You, Du and Leskovec, KDD 2022",
        parts: ["sage", "gru, mlp or average", "stacked"],
        make: |config, _| {
            let layer = |features: usize| {
                let structure = sage_layers(&Config { features, layers: 1, ..*config }, true);
                stacked(structure, Some(config.update.encoder("time", config.hidden)))
            };
            // A layer with a state is a block.
            let takes = |number: usize| if number == 0 { config.features } else { config.hidden };
            let last = config.layers - 1;
            above("layers", (0..last).map(|number| layer(takes(number))).collect(), layer(takes(last)))
        },
    },
];

/// The model of this name.
pub fn find(name: &str) -> Result<&'static Recipe> {
    ALL.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|recipe| recipe.name).collect();
        Error::settings("model.name", format!("there is no model '{name}'; known are {}", names.join(", ")))
    })
}

impl Recipe {
    /// The model, made for `config`.
    pub fn build(&self, config: &Config) -> Result<Box<dyn Model>> {
        config.check()?;
        if !(1..=3).contains(&config.layers) {
            return Err(Error::settings("layers", format!("found {}, expected 1 to 3", config.layers)));
        }
        if !config.hidden.is_multiple_of(config.heads) {
            let problem =
                format!("{} heads cannot share {} hidden columns equally", config.heads, config.hidden);
            return Err(Error::settings("heads", problem));
        }
        stack(config, |config, end| Ok((self.make)(config, end)))
    }
}

/// As many models above each other as `config` asks for; just the one where that is one. `make` gets what
/// each is made for, and what is to be done to its result where no time encoder follows.
pub fn stack(
    config: &Config,
    make: impl Fn(&Config, Activation) -> Result<Box<dyn Model>>,
) -> Result<Box<dyn Model>> {
    if !(1..=3).contains(&config.blocks) {
        return Err(Error::settings("blocks", format!("found {}, expected 1 to 3", config.blocks)));
    }
    let (mut below, mut block) = (Vec::new(), Config { blocks: 1, ..*config });
    for _ in 1..config.blocks {
        let model = make(&block, Activation::Relu)?;
        block.features = model.width();
        below.push(model);
    }
    let last = make(&block, Activation::None)?;
    Ok(above("blocks", below, last))
}

/// Models above each other, called by this name and their number where there are several.
fn above(name: &'static str, below: Vec<Box<dyn Model>>, last: Box<dyn Model>) -> Box<dyn Model> {
    if below.is_empty() { last } else { Box::new(Blocks { below, last, name }) }
}

fn stacked(structure: impl Structure + 'static, time: Option<Box<dyn Time>>) -> Box<dyn Model> {
    Box::new(Stacked { structure: Box::new(structure), time })
}

fn gated(config: &Config) -> Box<dyn Model> {
    let below = config.layers - 1;
    let before: Option<Box<dyn Structure>> =
        (below > 0).then(|| Box::new(gcn_layers(config, below, Activation::Relu)) as Box<dyn Structure>);
    let input = if below > 0 { config.hidden } else { config.features };
    let Config { hidden, normalisation, .. } = *config;
    Box::new(Gated { layers: below, before, input, hidden, normalisation })
}

/// Layers from the features to the hidden columns; `make` gets the name, the number and the input columns of
/// each.
fn layers(
    config: &Config,
    count: usize,
    make: impl Fn(String, usize, usize) -> Box<dyn Structure>,
) -> Layers {
    let layer = |number: usize| {
        let input = if number == 0 { config.features } else { config.hidden };
        make(format!("structure.{number}"), number, input)
    };
    Layers((0..count).map(layer).collect())
}

fn gcn_layers(config: &Config, count: usize, last: Activation) -> Layers {
    let (output, normalisation) = (config.hidden, config.normalisation);
    layers(config, count, |name, layer, input| {
        let activation = if layer + 1 == count { last } else { Activation::Relu };
        Box::new(Gcn { layer, name, input, output, normalisation, activation })
    })
}

fn gat_layers(config: &Config) -> Layers {
    let (heads, dimension) = (config.heads, config.hidden / config.heads);
    layers(config, config.layers, |name, _, input| {
        Box::new(Gat { name, input, heads, dimension, activation: Activation::Elu })
    })
}

fn sage_layers(config: &Config, skips: bool) -> Layers {
    let (output, gather) = (config.hidden, config.gather);
    layers(config, config.layers, |name, layer, input| {
        Box::new(Sage { layer, name, input, output, gather, skips, activation: Activation::Relu })
    })
}

fn lstm(input: usize, hidden: usize, count: usize) -> Box<dyn Time> {
    let names = if count == 1 {
        vec!["time".into()]
    } else {
        (0..count).map(|number| format!("time.{number}")).collect()
    };
    Box::new(Lstm { names, input, hidden })
}

fn evolving(config: &Config, evolution: Evolution, last: Activation) -> Box<dyn Model> {
    let widths =
        std::iter::once(config.features).chain(std::iter::repeat_n(config.hidden, config.layers)).collect();
    Box::new(Evolving { widths, evolution, normalisation: config.normalisation, last })
}
