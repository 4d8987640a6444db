//! Rows as they were sent last, and which of them are sent again (DGC, section 5.2).
//!
//! Both ends keep them: the one to see how far its rows have moved since, the other to go on with them. A
//! message has a code for each row, two bits wide, and behind the codes the rows that are sent. Where that
//! would be no shorter, it has all rows and nothing else, so no message is longer than an exact one. Of every
//! list only the first `room` rows are kept; the others are always sent.

use std::collections::BTreeMap;

use kymo_graph::Step;

/// Which rows: those that go to one worker, or come from one, in one exchange at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowsKey {
    /// The other worker.
    pub other: usize,
    /// The step of the store.
    pub step: Step,
    /// The number of the exchange of neighbours' rows at that step.
    pub exchange: usize,
    /// Numbers in a row.
    pub columns: usize,
}

/// Rows as they were sent or received last, those of a list one after the other.
pub type LastRows = BTreeMap<RowsKey, Vec<f32>>;

/// Rows whose codes share a number of a message.
const CODES: usize = 16;

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays as it was sent last, which is near enough.
    Stays = 0,
    /// It is sent.
    Sent = 1,
    /// It is to the bit what was sent last: not stale, so its gradient comes back.
    Same = 2,
}

/// What was counted of rows, and how far they had moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Bytes sent: rows, codes, gradients.
    pub sent: u64,
    /// Bytes that would have been sent of exact rows.
    pub exact: u64,
    /// The largest distance of a row to what was sent of it last.
    pub largest: f64,
    /// The sum of squared distances of rows that were not sent.
    pub distances: f64,
    /// The sum of squares of these rows.
    pub squares: f64,
}

impl Tally {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Tally) {
        (self.sent, self.exact) = (self.sent + other.sent, self.exact + other.exact);
        self.largest = self.largest.max(other.largest);
        self.distances += other.distances;
        self.squares += other.squares;
    }

    /// The root mean square of the distances of rows that were not sent, over that of these rows.
    pub fn error(&self) -> f64 {
        if self.squares > 0.0 { (self.distances / self.squares).sqrt() } else { 0.0 }
    }

    /// Bytes that were not sent.
    pub fn saved(&self) -> u64 {
        self.exact.saturating_sub(self.sent)
    }

    /// Counts a message of this many numbers in the place of one of that many.
    pub(super) fn count(&mut self, sent: usize, exact: usize) {
        (self.sent, self.exact) = (self.sent + 4 * sent as u64, self.exact + 4 * exact as u64);
    }
}

/// The squared distance of two rows, and the square of the first.
fn squares(row: &[f32], last: &[f32]) -> [f64; 2] {
    row.iter().zip(last).fold([0.0; 2], |[distance, square], (&now, &then)| {
        let (now, then) = (f64::from(now), f64::from(then));
        [distance + (now - then) * (now - then), square + now * now]
    })
}

fn is_same(row: &[f32], last: &[f32]) -> bool {
    row.iter().zip(last).all(|(now, then)| now.to_bits() == then.to_bits())
}

/// The rows that go to a worker, of which `last` has the first `room` as they were sent last: those that have
/// moved further than the threshold are put into a message, and into `last`. The rows whose gradients come
/// back.
pub(super) fn compose(
    rows: &[u32],
    values: &[f32],
    columns: usize,
    (last, room): (&mut Vec<f32>, usize),
    threshold: f64,
    (tally, message): (&mut Tally, &mut Vec<f32>),
) -> Vec<u32> {
    let row = |number: u32| &values[number as usize * columns..][..columns];
    let mut fates = vec![Fate::Sent; rows.len()];
    let mut off = [0.0; 2];
    let is_known = last.len() == room * columns;
    for ((fate, &number), last) in fates.iter_mut().zip(rows).zip(last.chunks_exact(columns.max(1))) {
        if !is_known {
            break;
        }
        let [distance, square] = squares(row(number), last);
        let distance = distance.sqrt();
        if distance.is_finite() {
            tally.largest = tally.largest.max(distance);
        }
        if is_same(row(number), last) {
            *fate = Fate::Same;
        } else if threshold > 0.0 && distance <= threshold {
            *fate = Fate::Stays;
            off[0] += distance * distance;
        }
        if *fate != Fate::Sent && square.is_finite() {
            off[1] += square;
        }
    }
    let sent = fates.iter().filter(|&&fate| fate == Fate::Sent).count();
    let exact = rows.len() * columns;
    if rows.len().div_ceil(CODES) + sent * columns >= exact {
        fates.fill(Fate::Sent);
    } else {
        (tally.distances, tally.squares) = (tally.distances + off[0], tally.squares + off[1]);
        message.extend(fates.chunks(CODES).map(|fates| {
            let codes = fates.iter().rev().fold(0, |codes: u32, &fate| codes << 2 | fate as u32);
            f32::from_bits(codes)
        }));
    }
    if !is_known {
        last.clear();
        last.resize(room * columns, 0.0);
    }
    for (place, (&number, &fate)) in rows.iter().zip(&fates).enumerate() {
        if fate == Fate::Sent {
            message.extend_from_slice(row(number));
            if place < room {
                last[place * columns..][..columns].copy_from_slice(row(number));
            }
        }
    }
    tally.count(message.len(), exact);
    live(rows, &fates)
}

/// Takes a message that was made by [`compose`] for these rows: `each` gets every row, as it was sent or as
/// it is in `last`. The rows whose gradients go back, or what is wrong with the message.
pub(super) fn take(
    rows: &[u32],
    message: &[f32],
    columns: usize,
    (last, room): (&mut Vec<f32>, usize),
    each: &mut dyn FnMut(usize, &[f32]),
) -> Result<Vec<u32>, String> {
    let exact = rows.len() * columns;
    let is_known = last.len() == room * columns;
    let (fates, sent) = match message.len() == exact {
        true => (vec![Fate::Sent; rows.len()], message),
        false => {
            let wrong = || format!("sent {} numbers for {} rows of {columns}", message.len(), rows.len());
            let (codes, sent) = message.split_at_checked(rows.len().div_ceil(CODES)).ok_or_else(wrong)?;
            let fates = decoded(codes, rows.len()).ok_or("sent codes of rows that mean nothing")?;
            let count = fates.iter().filter(|&&fate| fate == Fate::Sent).count();
            if sent.len() != count * columns {
                return Err(wrong());
            }
            if fates[room.min(fates.len())..].iter().any(|&fate| fate != Fate::Sent) || !is_known {
                return Err("goes on with rows that it never sent".into());
            }
            (fates, sent)
        }
    };
    if !is_known {
        last.clear();
        last.resize(room * columns, 0.0);
    }
    let mut sent = sent.chunks_exact(columns.max(1));
    for (place, (&number, &fate)) in rows.iter().zip(&fates).enumerate() {
        let kept = last.get_mut(place * columns..(place + 1) * columns);
        match (fate, kept) {
            (Fate::Sent, kept) => {
                let row = sent.next().unwrap_or_default();
                if let Some(kept) = kept {
                    kept.copy_from_slice(row);
                }
                each(number as usize, row);
            }
            (_, Some(kept)) => each(number as usize, kept),
            (_, None) => {}
        }
    }
    Ok(live(rows, &fates))
}

fn decoded(codes: &[f32], count: usize) -> Option<Vec<Fate>> {
    let code =
        |place: usize| codes.get(place / CODES).map(|codes| codes.to_bits() >> (place % CODES * 2) & 3);
    let fate = |place: usize| match code(place)? {
        0 => Some(Fate::Stays),
        1 => Some(Fate::Sent),
        2 => Some(Fate::Same),
        _ => None,
    };
    (0..count).map(fate).collect()
}

/// The rows that are as they are now.
fn live(rows: &[u32], fates: &[Fate]) -> Vec<u32> {
    let fresh = rows.iter().zip(fates).filter(|(_, fate)| **fate != Fate::Stays);
    fresh.map(|(&row, _)| row).collect()
}

#[cfg(test)]
mod tests;
