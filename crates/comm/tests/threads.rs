//! Workers that are threads: every operation against its definition, and what happens when a worker goes.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use kymo_comm::{Bytes, Comm, Error, Tag, Threads, Traffic, all_reduce_bytes, threads};
use proptest::prelude::*;

/// What `work` gives; a test that hangs fails.
fn within_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let _ = done.send(work());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("no result"),
        },
    }
}

/// Runs `work` on every worker and gives the results in the order of ranks.
fn on_all<T, W>(size: usize, work: W) -> Vec<T>
where
    T: Send + 'static,
    W: Fn(Threads) -> T + Clone + Send + 'static,
{
    within_time(move || {
        let start = |endpoint| {
            let work = work.clone();
            std::thread::spawn(move || work(endpoint))
        };
        let workers: Vec<_> = threads(size).into_iter().map(start).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Numbers whose sums depend on their order.
fn number(rank: usize, index: usize) -> f32 {
    let hash = (rank * 7919 + index * 104_729 + 13) as u32;
    let hash = hash.wrapping_mul(2_654_435_761) >> 8;
    (hash as f32 / 1e6 - 8.0) * 10f32.powi((hash % 7) as i32 - 3)
}

fn numbers(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|index| number(rank, index)).collect()
}

/// The definition: one number after the other, in the order of ranks.
fn summed(size: usize, count: usize) -> Vec<u32> {
    (0..count)
        .map(|index| (1..size).fold(number(0, index), |sum, rank| sum + number(rank, index)).to_bits())
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn bytes(rank: usize, lengths: &[usize]) -> Vec<u8> {
    vec![rank as u8 + 1; lengths[rank]]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_in_order_and_are_counted(
        size in 1usize..6,
        pattern in prop::collection::vec((0usize..5, 0usize..5, 0u32..3, 0usize..4), 0..80),
        patient in any::<bool>(),
    ) {
        let pattern: Vec<(usize, usize, Tag, usize)> =
            pattern
                .into_iter()
                .map(|(from, to, tag, count)| (from % size, to % size, Tag(tag.into()), count))
                .collect();
        let expected = pattern.clone();
        let results = on_all(size, move |endpoint| {
            let me = endpoint.rank();
            for (index, &(from, to, tag, count)) in pattern.iter().enumerate() {
                if from == me {
                    endpoint.send(to, tag, vec![index as f32; count]).unwrap();
                }
            }
            // Queues are emptied backwards: only the order within one of them is promised.
            let mut counts: HashMap<(usize, Tag), usize> = HashMap::new();
            for &(from, _, tag, _) in pattern.iter().filter(|message| message.1 == me) {
                *counts.entry((from, tag)).or_default() += 1;
            }
            let mut queues: Vec<_> = counts.into_iter().collect();
            queues.sort_by(|a, b| b.cmp(a));
            let mut received = HashMap::new();
            for ((from, tag), count) in queues {
                let next = |_| {
                    if patient {
                        return endpoint.receive(from, tag).unwrap();
                    }
                    loop {
                        if let Some(message) = endpoint.try_receive(from, tag).unwrap() {
                            return message;
                        }
                        std::thread::yield_now();
                    }
                };
                received.insert((from, tag), (0..count).map(next).collect::<Vec<_>>());
            }
            // Nobody leaves before all have what they came for; then nothing is left over.
            endpoint.barrier().unwrap();
            for from in 0..endpoint.size() {
                for tag in 0..3 {
                    assert!(matches!(
                        endpoint.try_receive(from, Tag(tag)),
                        Ok(None) | Err(Error::Peer { .. })
                    ));
                }
            }
            (received, endpoint.traffic())
        });
        for (me, (received, traffic)) in results.into_iter().enumerate() {
            let mut wanted: HashMap<(usize, Tag), Vec<Vec<f32>>> = HashMap::new();
            let (mut sent, mut got) = (0, 0);
            for (index, &(from, to, tag, count)) in expected.iter().enumerate() {
                if to == me {
                    wanted.entry((from, tag)).or_default().push(vec![index as f32; count]);
                }
                if from != to {
                    sent += if from == me { 4 * count as u64 } else { 0 };
                    got += if to == me { 4 * count as u64 } else { 0 };
                }
            }
            prop_assert_eq!(received, wanted);
            let count = |messages| Bytes { messages, ..Bytes::default() };
            prop_assert_eq!(traffic, Traffic { sent: count(sent), received: count(got) });
        }
    }

    /// Fewer numbers than workers, small and large: both ways to sum give the sum in the order of ranks.
    #[test]
    fn all_reduce_is_the_sum_in_the_order_of_ranks(
        size in 1usize..6,
        counts in prop::collection::vec(prop_oneof![0usize..12, 0usize..20_000], 1..5),
    ) {
        let wanted = counts.clone();
        let results = on_all(size, move |endpoint| {
            let rank = endpoint.rank();
            let sums: Vec<Vec<u32>> = counts
                .iter()
                .map(|&count| {
                    let mut values = numbers(rank, count);
                    endpoint.all_reduce(&mut values).unwrap();
                    bits(&values)
                })
                .collect();
            (sums, endpoint.traffic())
        });
        for (rank, (sums, traffic)) in results.into_iter().enumerate() {
            let (mut sent, mut received) = (0, 0);
            for (&count, sums) in wanted.iter().zip(&sums) {
                prop_assert_eq!(sums, &summed(size, count));
                let counted = all_reduce_bytes(count, size, rank);
                sent += counted.0;
                received += counted.1;
            }
            let count = |all_reduce| Bytes { all_reduce, ..Bytes::default() };
            prop_assert_eq!(traffic, Traffic { sent: count(sent), received: count(received) });
        }
    }

    #[test]
    fn gathers_and_broadcasts_are_what_they_say(
        size in 1usize..6,
        lengths in prop::collection::vec(0usize..50, 5),
        root in 0usize..5,
        rounds in 1usize..4,
    ) {
        let root = root % size;
        let given = lengths.clone();
        let results = on_all(size, move |endpoint| {
            let rank = endpoint.rank();
            for _ in 0..rounds {
                let all = endpoint.all_gather(&bytes(rank, &given)).unwrap();
                assert_eq!(all, (0..endpoint.size()).map(|rank| bytes(rank, &given)).collect::<Vec<_>>());
                assert_eq!(endpoint.broadcast(root, bytes(rank, &given)).unwrap(), bytes(root, &given));
            }
            endpoint.traffic()
        });
        let all: usize = lengths[..size].iter().sum();
        for (rank, traffic) in results.into_iter().enumerate() {
            let own = lengths[rank] * (size - 1);
            let sent = if rank == root { 2 * own } else { own };
            let received = all - lengths[rank] + if rank == root { 0 } else { lengths[root] };
            let count = |collectives| Bytes {
                collectives: (rounds * collectives) as u64,
                ..Bytes::default()
            };
            prop_assert_eq!(traffic, Traffic { sent: count(sent), received: count(received) });
        }
    }

    #[test]
    fn all_to_all_is_a_transposition(
        size in 1usize..6,
        lengths in prop::collection::vec(0usize..9, 25),
        rounds in 1usize..4,
    ) {
        let given = lengths.clone();
        let part = move |from: usize, to: usize| vec![(10 * from + to) as f32; given[5 * from + to]];
        let results = on_all(size, move |endpoint| {
            let rank = endpoint.rank();
            for _ in 0..rounds {
                let mine = (0..endpoint.size()).map(|to| part(rank, to)).collect();
                let theirs: Vec<Vec<f32>> = (0..endpoint.size()).map(|from| part(from, rank)).collect();
                assert_eq!(endpoint.all_to_all(mine).unwrap(), theirs);
            }
            endpoint.traffic()
        });
        for (rank, traffic) in results.into_iter().enumerate() {
            let others = || (0..size).filter(|other| *other != rank);
            let sent: usize = others().map(|to| lengths[5 * rank + to]).sum();
            let received: usize = others().map(|from| lengths[5 * from + rank]).sum();
            let count = |numbers| Bytes { messages: (4 * rounds * numbers) as u64, ..Bytes::default() };
            prop_assert_eq!(traffic, Traffic { sent: count(sent), received: count(received) });
        }
    }
}

#[test]
fn minus_zero_stays_what_it_is() {
    let results = on_all(2, |endpoint| {
        let mut values = [-0.0];
        endpoint.all_reduce(&mut values).unwrap();
        values[0].to_bits()
    });
    assert_eq!(results, [(-0.0f32).to_bits(); 2]);
}

#[test]
fn no_worker_and_one_worker() {
    assert!(threads(0).is_empty());
    let endpoint = threads(1).remove(0);
    endpoint.send(0, Tag(3), vec![1.0]).unwrap();
    assert_eq!(endpoint.try_receive(0, Tag(4)), Ok(None));
    assert_eq!(endpoint.receive(0, Tag(3)), Ok(vec![1.0]));
    endpoint.barrier().unwrap();
    assert_eq!(endpoint.traffic(), Traffic::default());
}

/// Every worker gets the error that names the lengths, and the group can go on.
#[test]
fn lengths_that_do_not_agree_are_named_to_all() {
    let results = on_all(3, |endpoint| {
        let error = endpoint.all_reduce(&mut vec![1.0; 5 + endpoint.rank() / 2]).unwrap_err();
        let mut values = [1.0];
        endpoint.all_reduce(&mut values).unwrap();
        (error, values[0], endpoint.traffic().sent.all_reduce)
    });
    for (rank, (error, sum, sent)) in results.into_iter().enumerate() {
        let text = "workers do not agree: worker 0 calls all_reduce of 5 numbers, worker 1 calls all_reduce \
                    of 5 numbers, \
                    worker 2 calls all_reduce of 6 numbers; all must make the same calls in the same order";
        assert_eq!(error, Error::usage(text));
        assert_eq!((sum, sent), (3.0, all_reduce_bytes(1, 3, rank).0));
    }
}

#[test]
fn different_collectives_are_not_taken_for_each_other() {
    let results = on_all(2, |endpoint| {
        let first = endpoint.rank() == 0;
        let errors = [
            if first { endpoint.barrier() } else { endpoint.all_reduce(&mut [1.0]) },
            if first { endpoint.barrier() } else { endpoint.all_gather(&[1]).map(drop) },
            if first { endpoint.barrier() } else { endpoint.all_to_all(vec![vec![1.0]; 2]).map(drop) },
            endpoint.broadcast(endpoint.rank(), vec![1]).map(drop),
            endpoint.all_to_all(vec![Vec::new(); 3]).map(drop),
            endpoint.broadcast(2, Vec::new()).map(drop),
        ];
        let errors: Vec<String> = errors
            .into_iter()
            .map(|result| match result {
                Err(Error::Usage(problem)) => problem,
                other => panic!("{other:?}"),
            })
            .collect();
        // What was given to a call that failed is not handed out by a later one.
        let mine = vec![vec![endpoint.rank() as f32]; 2];
        assert_eq!(endpoint.all_to_all(mine).unwrap(), [[0.0], [1.0]]);
        let mut values = numbers(endpoint.rank(), 9);
        endpoint.all_reduce(&mut values).unwrap();
        assert_eq!(bits(&values), summed(2, 9));
        errors
    });
    assert_eq!(results[0], results[1]);
    assert!(results[0][0].contains("worker 0 calls barrier, worker 1 calls all_reduce of 1 numbers"));
    assert!(results[0][4].starts_with("all_to_all of 3 parts between 2 workers; give one part"));
    assert!(results[0][5].starts_with("broadcast from worker 2 where the last worker is 1"));
}

#[test]
fn workers_that_are_not_there_are_refused() {
    let endpoint = threads(2).remove(0);
    let text = "there is no worker 2: worker 1 is the last; name one that is there";
    assert_eq!(endpoint.send(2, Tag(0), vec![]), Err(Error::usage(text)));
    assert_eq!(endpoint.receive(2, Tag(0)), Err(Error::usage(text)));
    assert_eq!(endpoint.try_receive(2, Tag(0)), Err(Error::usage(text)));
}

fn gone<T: std::fmt::Debug>(result: Result<T, Error>, how: &str) {
    match result {
        Err(Error::Peer { rank: 1, what }) => assert!(what.starts_with(how), "{what}"),
        other => panic!("{other:?}"),
    }
}

type Operation = fn(&Threads) -> Result<(), Error>;

/// Worker 1 goes in the way `leave` says, at once or when the others wait already.
fn worker_one_goes(late: bool, how: &'static str, leave: fn(Threads)) {
    let operations: [Operation; 6] = [
        |endpoint| endpoint.receive(1, Tag(9)).map(drop),
        |endpoint| endpoint.barrier(),
        |endpoint| endpoint.all_reduce(&mut [1.0]),
        |endpoint| endpoint.all_gather(&[]).map(drop),
        |endpoint| endpoint.all_to_all(vec![Vec::new(); 3]).map(drop),
        |endpoint| endpoint.broadcast(0, Vec::new()).map(drop),
    ];
    for operation in operations {
        within_time(move || {
            let mut endpoints = threads(3).into_iter();
            let [first, second, third] = std::array::from_fn(|_| endpoints.next().unwrap());
            second.send(0, Tag(1), vec![1.0]).unwrap();
            let leaving = std::thread::spawn(move || {
                if late {
                    std::thread::sleep(Duration::from_millis(20));
                }
                leave(second);
            });
            let others: Vec<_> = [first, third]
                .into_iter()
                .map(|endpoint| {
                    std::thread::spawn(move || {
                        gone(operation(&endpoint), how);
                        // Asking again does not help.
                        gone(operation(&endpoint), how);
                        gone(endpoint.try_receive(1, Tag(9)), how);
                        gone(endpoint.send(1, Tag(9), vec![]), how);
                        if endpoint.rank() == 0 {
                            // What it sent before is delivered, once.
                            assert_eq!(endpoint.receive(1, Tag(1)), Ok(vec![1.0]));
                            gone(endpoint.receive(1, Tag(1)), how);
                        }
                        endpoint
                    })
                })
                .collect();
            let _ = leaving.join();
            // Endpoints are kept until both are done: only worker 1 has gone until then.
            let _kept: Vec<Threads> = others.into_iter().map(|other| other.join().unwrap()).collect();
        });
    }
}

#[test]
fn who_waits_for_a_worker_that_left_gets_an_error() {
    for late in [false, true] {
        worker_one_goes(late, "has left", drop);
    }
}

#[test]
fn who_waits_for_a_worker_that_panicked_gets_an_error() {
    for late in [false, true] {
        worker_one_goes(late, "panicked", |_endpoint| panic!("on purpose"));
    }
}

/// A meeting that all workers came to does not fail because one leaves right after it.
#[test]
fn leaving_after_a_meeting_spoils_nothing() {
    for _ in 0..300 {
        let results = on_all(3, |endpoint| {
            let mut values = numbers(endpoint.rank(), 3000);
            endpoint.all_reduce(&mut values).unwrap();
            endpoint.barrier()
        });
        assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    }
}

/// Threads of one worker may wait for different messages at the same time.
#[test]
fn one_endpoint_serves_several_threads() {
    within_time(|| {
        let mut endpoints = threads(2).into_iter();
        let [first, second] = std::array::from_fn(|_| endpoints.next().unwrap());
        std::thread::scope(|scope| {
            for tag in 0..4 {
                let second = &second;
                scope.spawn(move || {
                    for round in 0..200 {
                        assert_eq!(second.receive(0, Tag(tag)), Ok(vec![round as f32]));
                    }
                });
            }
            for round in 0..200 {
                for tag in (0..4).rev() {
                    first.send(1, Tag(tag), vec![round as f32]).unwrap();
                }
            }
        });
    });
}

#[test]
fn buffers_go_round() {
    on_all(2, |endpoint| {
        let other = 1 - endpoint.rank();
        for round in 0..100 {
            let mut buffer = endpoint.buffer(100);
            assert!(buffer.is_empty() && buffer.capacity() >= 100);
            buffer.resize(100, round as f32);
            endpoint.send(other, Tag(0), buffer).unwrap();
            let message = endpoint.receive(other, Tag(0)).unwrap();
            assert_eq!(message, vec![round as f32; 100]);
            endpoint.recycle(message);
        }
    });
}

/// Thousands of small operations of all kinds, in an order that all workers draw from the same numbers.
#[test]
fn many_operations_of_all_kinds() {
    const SIZE: usize = 4;
    on_all(SIZE, |endpoint| {
        let me = endpoint.rank();
        let mut state = 1u64;
        for round in 0..6000usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (state >> 33) as usize;
            let count = draw / 8 % 40;
            match draw % 8 {
                0 => endpoint.barrier().unwrap(),
                1 => {
                    let mut values = numbers(me, count);
                    endpoint.all_reduce(&mut values).unwrap();
                    assert_eq!(bits(&values), summed(SIZE, count));
                }
                2 => {
                    // Large enough for two meetings.
                    let count = 2100 + count;
                    let mut values = vec![(me + round) as f32; count];
                    endpoint.all_reduce(&mut values).unwrap();
                    assert_eq!(values, vec![(6 + SIZE * round) as f32; count]);
                }
                3 => {
                    let all = endpoint.all_gather(&vec![me as u8; count + me]).unwrap();
                    assert!(
                        all.iter().enumerate().all(|(rank, bytes)| *bytes == vec![rank as u8; count + rank])
                    );
                }
                4 => {
                    let root = draw / 8 % SIZE;
                    assert_eq!(
                        endpoint.broadcast(root, vec![me as u8; count]).unwrap(),
                        vec![root as u8; count]
                    );
                }
                5 => {
                    let mine = (0..SIZE).map(|to| vec![(me * SIZE + to) as f32; count]).collect();
                    let all = endpoint.all_to_all(mine).unwrap();
                    for (from, part) in all.into_iter().enumerate() {
                        assert_eq!(part, vec![(from * SIZE + me) as f32; count]);
                        endpoint.recycle(part);
                    }
                }
                _ => {
                    let tag = Tag(round as u64);
                    for to in 0..SIZE {
                        let mut buffer = endpoint.buffer(count);
                        buffer.resize(count, (round + me) as f32);
                        endpoint.send(to, tag, buffer).unwrap();
                    }
                    for from in (0..SIZE).rev() {
                        let message = endpoint.receive(from, tag).unwrap();
                        assert_eq!(message, vec![(round + from) as f32; count]);
                        endpoint.recycle(message);
                    }
                }
            }
        }
    });
}
