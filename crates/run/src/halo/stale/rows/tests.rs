//! Tests of messages of some rows, against a sender and a receiver that go row by row.

use super::*;
use crate::random::Random;

const COLUMNS: usize = 3;

/// Both ends of an exchange.
struct Ends {
    room: usize,
    sent: Vec<f32>,
    received: Vec<f32>,
    tally: Tally,
}

/// What the receiver has, and the rows that are current by either end.
struct Passed {
    rows: Vec<Vec<f32>>,
    live: [Vec<u32>; 2],
    numbers: usize,
}

impl Ends {
    fn new(room: usize) -> Ends {
        Ends { room, sent: Vec::new(), received: Vec::new(), tally: Tally::default() }
    }

    fn pass(&mut self, rows: &[u32], values: &[f32], threshold: f64) -> Passed {
        let mut message = Vec::new();
        let last = (&mut self.sent, self.room);
        let sent = compose(rows, values, COLUMNS, last, threshold, (&mut self.tally, &mut message));
        let mut found = vec![Vec::new(); rows.len()];
        let numbers: Vec<u32> = (0..rows.len() as u32).collect();
        let mut each = |row: usize, values: &[f32]| found[row] = values.to_vec();
        let last = (&mut self.received, self.room);
        let received = take(&numbers, &message, COLUMNS, last, &mut each).unwrap();
        let bits = |rows: &[f32]| rows.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&self.sent), bits(&self.received), "both ends keep the same");
        Passed { rows: found, live: [sent, received], numbers: message.len() }
    }
}

/// Values that move a little from pass to pass, some of them not at all.
fn moved(values: &mut [f32], random: &Random, pass: u64) {
    for (place, value) in values.iter_mut().enumerate() {
        let draws = random.stream(pass);
        let row = (place / COLUMNS) as u64;
        let far = [0.0, 0.01, 0.1, 1.0][draws.stream(1).below(4, row)];
        *value += far * (draws.stream(2).share(place as u64) as f32 - 0.5);
    }
}

#[test]
fn messages_bring_what_a_loop_over_rows_would() {
    for (seed, room) in [(1, 40), (2, 40), (3, 25), (4, 0)] {
        let random = Random::new(seed);
        let rows: Vec<u32> = (0..40).map(|row| row * 2 % 41).collect();
        let mut values = vec![1.0; 41 * COLUMNS];
        let mut ends = Ends::new(room);
        // By hand: the rows that the receiver has, and what was counted.
        let mut kept: Vec<Option<Vec<f32>>> = vec![None; rows.len()];
        let (mut distances, mut squares, mut largest) = (0.0f64, 0.0f64, 0.0f64);
        let mut shorter = 0;
        for pass in 0..12 {
            moved(&mut values, &random, pass);
            let threshold = [0.0, 0.05, 0.3][(pass % 3) as usize];
            let passed = ends.pass(&rows, &values, threshold);
            let exact = rows.len() * COLUMNS;
            assert!(passed.numbers <= exact);
            shorter += usize::from(passed.numbers < exact);
            let mut live = Vec::new();
            for (place, &row) in rows.iter().enumerate() {
                let now = &values[row as usize * COLUMNS..][..COLUMNS];
                let far = kept[place].as_ref().filter(|_| place < room).map(|last| {
                    let each = now.iter().zip(last).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
                    each.sum::<f64>().sqrt()
                });
                largest = largest.max(far.unwrap_or(0.0));
                let square: f64 = now.iter().map(|&value| f64::from(value).powi(2)).sum();
                let stays = passed.numbers < exact && threshold > 0.0;
                let is_stale = far.is_some_and(|far| stays && far > 0.0 && far <= threshold);
                if is_stale || passed.numbers < exact && far == Some(0.0) {
                    (distances, squares) = (distances + far.unwrap_or(0.0).powi(2), squares + square);
                }
                if !is_stale {
                    kept[place] = Some(now.to_vec());
                    live.push(place as u32);
                }
                assert_eq!(Some(&passed.rows[place]), kept[place].as_ref(), "seed {seed}, pass {pass}");
            }
            assert_eq!(passed.live[1], live, "seed {seed}, pass {pass}");
            let sent: Vec<u32> = live.iter().map(|&place| rows[place as usize]).collect();
            assert_eq!(passed.live[0], sent, "seed {seed}, pass {pass}");
        }
        assert!((ends.tally.distances - distances).abs() <= 1e-12 * distances.max(1.0));
        assert!((ends.tally.squares - squares).abs() <= 1e-12 * squares.max(1.0));
        assert!((ends.tally.largest - largest).abs() < 1e-12);
        assert_eq!(shorter > 0, room > 0, "seed {seed}");
        if room > 0 {
            let expected = (distances / squares).sqrt();
            assert!(
                ends.tally.saved() > 0 && (ends.tally.error() - expected).abs() < 1e-12 && expected > 0.0
            );
        } else {
            assert_eq!((ends.tally.saved(), ends.tally.error(), ends.sent.len()), (0, 0.0, 0));
        }
    }
}

#[test]
fn distances_add_up_until_a_row_is_sent() {
    let (rows, mut ends) = ((0..20).collect::<Vec<u32>>(), Ends::new(20));
    let mut values = vec![0.0f32; 20 * COLUMNS];
    ends.pass(&rows, &values, 1.0);
    let mut sent = Vec::new();
    for _ in 0..10 {
        // One row moves by 0.3 in every pass, so the fourth is beyond 1.
        values[COLUMNS] += 0.3;
        sent.push(ends.pass(&rows, &values, 1.0).rows[1][0]);
    }
    let kept = |value: f32| sent.iter().filter(|&&found| (found - value).abs() < 1e-6).count();
    assert_eq!([kept(0.0), kept(1.2), kept(2.4)], [3, 4, 3], "{sent:?}");
}

#[test]
fn numbers_that_are_none_are_sent_and_zeros_of_another_sign_are_others() {
    let (rows, mut ends) = ((0..20).collect::<Vec<u32>>(), Ends::new(20));
    let mut values = vec![0.0f32; 20 * COLUMNS];
    ends.pass(&rows, &values, 0.0);
    (values[0], values[COLUMNS]) = (f32::NAN, -0.0);
    let passed = ends.pass(&rows, &values, 0.0);
    assert!(passed.rows[0][0].is_nan() && passed.rows[1][0].to_bits() == (-0.0f32).to_bits());
    assert_eq!((passed.live[0].len(), passed.numbers), (20, 2 + 2 * COLUMNS));
    values[2 * COLUMNS] = f32::INFINITY;
    assert!(ends.pass(&rows, &values, 10.0).rows[2][0].is_infinite() && ends.tally.largest == 0.0);
}

#[test]
fn messages_that_cannot_be_are_refused() {
    let rows: Vec<u32> = (0..20).collect();
    let codes = |codes: [u32; 2]| codes.map(f32::from_bits).to_vec();
    let refused = |message: &[f32], last: usize, room: usize| {
        let last = &mut vec![0.0; last * COLUMNS];
        take(&rows, message, COLUMNS, (last, room), &mut |_, _| {}).unwrap_err()
    };
    assert!(refused(&[], 20, 20).contains("sent 0 numbers for 20 rows of 3"));
    assert!(refused(&codes([3, 0]), 20, 20).contains("codes of rows that mean nothing"));
    assert!(refused(&codes([1, 0]), 20, 20).contains("sent 2 numbers"));
    assert!(refused(&codes([0, 0]), 0, 20).contains("never sent"));
    assert!(refused(&codes([0, 0]), 19, 19).contains("never sent"));
}
