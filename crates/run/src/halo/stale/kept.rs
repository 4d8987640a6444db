//! What is kept of rows that were sent (DGC, section 5.2), as bytes from worker to worker and put together
//! for a checkpoint. What workers received is not written: it is what the others sent.

use super::rows::{LastRows, RowsKey, Tally};

/// What all workers keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The loss of the first epoch, once it is over.
    pub first_loss: Option<f64>,
    /// How far a row may be from what was sent last.
    pub threshold: f64,
    /// What each worker counted in the epoch under way.
    pub tallies: Vec<Tally>,
    /// The rows that each worker sent last.
    pub sent: Vec<LastRows>,
}

impl Kept {
    /// The rows that a worker received last.
    pub fn received(&self, rank: usize) -> LastRows {
        let all =
            self.sent.iter().enumerate().flat_map(|(from, sent)| sent.iter().map(move |one| (from, one)));
        let mine = all.filter(|(_, (key, _))| key.other == rank);
        mine.map(|(from, (key, rows))| (RowsKey { other: from, ..*key }, rows.clone())).collect()
    }
}

impl Tally {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let floats = [self.largest, self.distances, self.squares].map(f64::to_bits);
        [self.sent, self.exact].into_iter().chain(floats).flat_map(u64::to_le_bytes).collect()
    }

    /// From its bytes; nothing where they are none of a tally.
    pub fn from_bytes(bytes: &[u8]) -> Option<Tally> {
        let mut numbers = Numbers(bytes);
        let tally = numbers.tally()?;
        numbers.0.is_empty().then_some(tally)
    }
}

/// A tally and the rows that were sent last, as bytes.
pub(super) fn written(tally: &Tally, sent: &LastRows) -> Vec<u8> {
    let mut bytes = tally.to_bytes();
    for (key, rows) in sent {
        let head = [key.other, key.step, key.exchange, key.columns, rows.len()];
        bytes.extend(head.iter().flat_map(|&number| (number as u64).to_le_bytes()));
        bytes.extend(rows.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

/// What [`written`] wrote; nothing where it is not whole.
pub(super) fn read(bytes: &[u8]) -> Option<(Tally, LastRows)> {
    let mut numbers = Numbers(bytes);
    let (tally, mut sent) = (numbers.tally()?, LastRows::new());
    while !numbers.0.is_empty() {
        let mut number = || usize::try_from(numbers.next()?).ok();
        let key = RowsKey { other: number()?, step: number()?, exchange: number()?, columns: number()? };
        let bytes = number()?.checked_mul(4)?;
        let (rows, rest) = numbers.0.split_at_checked(bytes)?;
        numbers.0 = rest;
        sent.insert(key, rows.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect());
    }
    Some((tally, sent))
}

/// Numbers, one after the other.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn tally(&mut self) -> Option<Tally> {
        Some(Tally {
            sent: self.next()?,
            exact: self.next()?,
            largest: f64::from_bits(self.next()?),
            distances: f64::from_bits(self.next()?),
            squares: f64::from_bits(self.next()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_survives_as_bytes_and_is_received_by_those_it_was_sent_to() {
        let tally = Tally { sent: 8, exact: 80, largest: 0.5, distances: 0.1, squares: 3.0 };
        assert_eq!(Tally::from_bytes(&tally.to_bytes()), Some(tally));
        let key = |other, step| RowsKey { other, step, exchange: 1, columns: 2 };
        let sent = LastRows::from([
            (key(1, 7), vec![1.0, -0.0, f32::NAN, 3.0]),
            (key(2, 7), vec![5.0, 6.0]),
            (key(2, 8), Vec::new()),
        ]);
        let bytes = written(&tally, &sent);
        let (found, rows) = read(&bytes).unwrap();
        let bits = |rows: &LastRows| -> Vec<Vec<u32>> {
            rows.values().map(|rows| rows.iter().map(|value| value.to_bits()).collect()).collect()
        };
        assert!(found == tally && bits(&rows) == bits(&sent) && rows.keys().eq(sent.keys()));
        assert!((0..bytes.len()).all(|end| read(&bytes[..end]).is_none_or(|(_, rows)| rows.len() < 3)));
        assert!(read(&bytes[..bytes.len() - 1]).is_none() && Tally::from_bytes(&bytes).is_none());
        let kept = Kept { sent: vec![sent.clone(), LastRows::new()], ..Kept::default() };
        assert!(kept.received(2).keys().eq([key(0, 7), key(0, 8)].iter()));
        assert_eq!(kept.received(2)[&key(0, 7)], sent[&key(2, 7)]);
        assert!(kept.received(0).is_empty());
    }
}
