//! Readers: one file a format, one line each in [`ALL`].
//!
//! A reader turns the text of one input into calls on an [`Intake`]. Everything after that (sorting, cutting
//! into steps, numbering the vertices, storing) is the same for all of them.

pub mod intake;
pub mod row;
pub mod side;
pub mod source;

mod adjacency;
mod carried;
mod column;
mod container;
mod csv;
mod deltas;
mod infer;
mod jodie;
mod json;
mod konect;
mod line;
mod matrix;
mod pygt;
mod roles;
mod sample;
mod separator;
mod signed;
mod snap;
mod table;
mod tgb;
mod unchanging;
mod unpack;
mod value;

pub use carried::EdgeFeatures;
pub use intake::{IdKind, Intake, Nature};
pub use source::Source;
pub use table::Meaning;

use std::path::Path;

use crate::error::{Error, Place, Result};
use crate::load::row::{Separator, Style};
use crate::progress::Progress;
use crate::time::TimeUnit;

/// What the user may tell a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The columns in order, for tables without a header.
    pub columns: Option<Vec<String>>,
    /// The byte between fields.
    pub delimiter: Option<u8>,
    /// What times count.
    pub time_unit: Option<TimeUnit>,
    /// Whether there are times: the user asks for steps to be cut from them.
    pub timed: bool,
    /// How vertices are written.
    pub ids: Option<IdKind>,
    /// How numbers and dates are written.
    pub style: Style,
    /// Whether columns of weights are left unread.
    pub no_weights: bool,
    /// Which columns are features of edges.
    pub edge_features: EdgeFeatures,
}

impl Hints {
    /// What is between fields, where the user said so; a blank stands for any run of blanks.
    pub fn separator(&self) -> Option<Separator> {
        self.delimiter.map(|byte| if byte == b' ' { Separator::Blank } else { Separator::Byte(byte) })
    }

    /// What is between the fields of a line: what the user said, or what `guess` says, to which decimal
    /// commas are not shown.
    pub fn separator_of(&self, line: &[u8], guess: impl Fn(&[u8]) -> Separator) -> Separator {
        let guess = || match self.style.decimal_comma {
            true => guess(&line.iter().copied().filter(|&byte| byte != b',').collect::<Vec<u8>>()),
            false => guess(line),
        };
        self.separator().unwrap_or_else(guess)
    }

    /// What times count, where the user said so: the order of dates says that they are dates.
    pub fn unit(&self) -> Option<TimeUnit> {
        self.time_unit.or(self.style.dates.map(|_| TimeUnit::Date))
    }
}

/// A format that can be read.
pub trait Format: Sync {
    /// Its name, as in `--format NAME`.
    fn name(&self) -> &'static str;

    /// One line about it.
    fn about(&self) -> &'static str;

    /// A small valid input: shown in the help, read in tests, mutated by fuzzing.
    fn example(&self) -> &'static str;

    /// What its rows mean, where the input itself does not decide it.
    fn nature(&self) -> Nature;

    /// Whether sources and targets are separate sets unless the user says otherwise.
    fn bipartite(&self) -> bool {
        false
    }

    /// How its vertices are written unless the user says otherwise.
    fn id_kind(&self) -> IdKind {
        IdKind::Number
    }

    /// Whether an input that begins with this text can only be of this format. Formats are asked in the order
    /// of [`ALL`]; what none of them recognises is taken for a table.
    fn recognises(&self, _head: &Head<'_>) -> bool {
        false
    }

    /// Reads one input to its end, and notes in the intake what its rows mean and what its times count.
    fn read(&self, source: &mut Source, hints: &Hints, intake: &mut Intake) -> Result<()>;
}

/// Every format. An input of unknown format is offered to each in this order, the more particular ones first.
pub const ALL: &[&dyn Format] = &[
    &pygt::Pygt,
    &jodie::Jodie,
    &tgb::Tgb,
    &csv::Csv,
    &deltas::Deltas,
    &konect::Konect,
    &snap::Snap,
    &signed::Signed,
    &unchanging::Static,
    &matrix::Matrix,
    &adjacency::Adjacency,
];

/// The format of this name.
pub fn find(name: &str) -> Result<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|format| format.name()).collect();
        Error::settings("--format", format!("there is no format '{name}'; known are {}", names.join(", ")))
    })
}

/// The format of an input: the one that recognises it, or that of a table with such columns.
pub fn detect(source: &mut Source, hints: &Hints) -> Result<&'static dyn Format> {
    let head = Head::new(source.head());
    if let Some(format) = ALL.iter().copied().find(|format| format.recognises(&head)) {
        return Ok(format);
    }
    let line = head.rows().next().or(head.lines.first().copied()).unwrap_or_default();
    let shown: String = line.chars().take(60).collect();
    let name = source.name().to_owned();
    let Some(sample) = sample::Sample::of(source, hints)? else {
        return Err(Error::input(
            Place::file(name),
            format!(
                "its format is not one Kymo recognises: a row is '{shown}'; say --format NAME (see `kymo \
                 list formats`), \
                 or for a table --format csv --columns source,target,time with a name for each column (_ \
                 skips one)"
            ),
        ));
    };
    let reading = csv::reading(&name, &sample, hints, false)?;
    let words = reading.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let comma = sample.separator == Separator::Byte(b',');
    let names = reading.ends().into_iter().any(|index| sample.columns[index].names);
    let plain = !names && !sample.headed;
    find(match words.as_slice() {
        ["source", "target", "time"] if plain && !comma => "snap",
        ["source", "target", "weight", "time"] if plain && comma => "signed",
        ["source", "target", "weight", "time"] if plain => "konect",
        ["source", "target"] | ["source", "target", "weight"] if !names => "static",
        ["time", "source", "target", ..] if sample.headed && names => "tgb",
        _ => "csv",
    })
}

/// Memory for one input in [`read_bytes`]; what does not fit goes into its folder.
const MEMORY: usize = 64 << 20;

/// Reads `bytes` as though they were a file called `name`, with the defaults of the format. Whatever the
/// bytes are, this ends with a result: it is where the readers are fuzzed.
pub fn read_bytes(
    format: &dyn Format,
    hints: &Hints,
    name: &str,
    bytes: Vec<u8>,
    folder: &Path,
) -> Result<Intake> {
    let mut source = Source::from_bytes(name, bytes)?;
    let mut intake = Intake::new(folder, MEMORY, &Progress::silent());
    intake.nature = format.nature();
    intake.bipartite = format.bipartite();
    intake.id_kind = format.id_kind();
    intake.style = hints.style;
    format.read(&mut source, hints, &mut intake)?;
    intake.finish_input()?;
    Ok(intake)
}

/// The first lines of an input, as far as they are complete and readable.
pub struct Head<'a> {
    /// The lines without their ends.
    pub lines: Vec<&'a str>,
    /// All of the text at hand.
    pub text: &'a str,
}

/// How many lines are looked at to recognise a format.
const LOOKED_AT: usize = 20;

impl<'a> Head<'a> {
    /// The lines of the first bytes of an input.
    pub fn new(bytes: &'a [u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        let complete = text.rfind('\n').map_or(text, |end| &text[..end]);
        Head { lines: complete.lines().take(LOOKED_AT).collect(), text }
    }

    /// The lines that are neither empty nor remarks.
    pub fn rows(&self) -> impl Iterator<Item = &'a str> + '_ {
        let remark = |line: &&str| line.trim().is_empty() || line.starts_with(['#', '%']);
        self.lines.iter().copied().filter(move |line| !remark(line))
    }

    /// Whether there are rows and all of them split into fields that `test` accepts.
    pub fn all_rows(&self, split: impl Fn(&'a str) -> Vec<&'a str>, test: impl Fn(&[&str]) -> bool) -> bool {
        let mut rows = self.rows().peekable();
        rows.peek().is_some() && rows.all(|row| test(&split(row)))
    }
}

/// Whether a field is a whole number from 0.
pub fn is_id(field: &str) -> bool {
    row::digits(field.as_bytes()).is_some()
}

/// Whether a field is a finite number.
pub fn is_number(field: &str) -> bool {
    field.parse::<f64>().is_ok_and(f64::is_finite)
}
