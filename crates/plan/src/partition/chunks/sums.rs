//! What comes from each label around a cell, and the label to be taken (DGC section 4.1, equation 2).

/// Labels without room that a cell tries to adopt before it keeps its own.
const TRIES: usize = 8;

/// Sums of bytes by label: a table of hashes that is used again without being cleared.
#[derive(Default)]
pub(super) struct Sums {
    slots: Vec<Slot>,
    used: Vec<u32>,
    stamp: u32,
    shift: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    label: u32,
    stamp: u32,
    sum: u64,
}

impl Sums {
    /// Forgets everything; at most this many labels follow. A part of the table no larger than they need is
    /// used, so that it stays near.
    pub fn begin(&mut self, labels: usize) {
        let size = (2 * labels).next_power_of_two().max(16);
        if size > self.slots.len() || self.stamp == u32::MAX {
            self.slots = vec![Slot::default(); size.max(self.slots.len())];
            self.stamp = 0;
        }
        self.stamp += 1;
        self.shift = 32 - size.trailing_zeros();
        self.used.clear();
    }

    /// Adds bytes to what comes from a label.
    #[inline]
    pub fn add(&mut self, label: u32, bytes: u64) {
        let mask = (1usize << (32 - self.shift)) - 1;
        let mut place = (label.wrapping_mul(0x9e37_79b1) >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[place];
            if slot.stamp != self.stamp {
                *slot = Slot { label, stamp: self.stamp, sum: bytes };
                self.used.push(place as u32);
                return;
            }
            if slot.label == label {
                slot.sum += bytes;
                return;
            }
            place = (place + 1) & mask;
        }
    }

    /// The label with the largest sum of those with room: of equal ones the current, then the smallest. And
    /// whether no other one would be better if it had room.
    pub fn best(&mut self, current: u32, has_room: impl Fn(u32) -> bool) -> (u32, bool) {
        for tried in 0..TRIES {
            let mut best: Option<(u64, bool, u32, u32)> = None;
            for &place in &self.used {
                let slot = self.slots[place as usize];
                // Smaller labels are better.
                let rank = (slot.sum, slot.label == current, u32::MAX - slot.label, place);
                if slot.sum > 0 && best.is_none_or(|best| rank > best) {
                    best = Some(rank);
                }
            }
            let Some((_, is_current, label, place)) = best else { return (current, tried == 0) };
            let label = u32::MAX - label;
            if is_current || has_room(label) {
                return (label, tried == 0);
            }
            self.slots[place as usize].sum = 0;
        }
        (current, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sum_with_room_wins_then_the_current_label_then_the_smallest() {
        let mut sums = Sums::default();
        let mut fill = |list: &[(u32, u64)]| {
            sums.begin(list.len());
            list.iter().for_each(|&(label, bytes)| sums.add(label, bytes));
            [sums.best(9, |_| true).0, sums.best(9, |label| label != 40).0]
        };
        assert_eq!(fill(&[(40, 2), (7, 3), (40, 2), (9, 1)]), [40, 7]);
        assert_eq!(fill(&[(9, 3), (7, 3), (8, 2)]), [9, 9]);
        assert_eq!(fill(&[(8, 3), (7, 3), (9, 1)]), [7, 7]);
        assert_eq!(fill(&[(40, 5)]), [40, 9]);
        assert_eq!(fill(&[]), [9, 9]);
        // Labels that collide, beyond the end of the table.
        let many: Vec<(u32, u64)> = (0..1000u32).map(|label| (label << 16, u64::from(label))).collect();
        assert_eq!(fill(&many), [999 << 16; 2]);
    }
}
