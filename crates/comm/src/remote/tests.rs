//! Endpoints over a wire made of queues: with a worker that falls silent, and with one that leaves.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::threads;

type Queue = Arc<Mutex<VecDeque<Arrival>>>;

/// Queues of all workers.
struct Queues {
    rank: usize,
    queues: Vec<Queue>,
    /// Whether what is sent gets lost.
    cut: Arc<AtomicBool>,
}

impl Wire for Queues {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.queues.len()
    }

    fn send(&mut self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()> {
        if !self.cut.load(Ordering::Relaxed) {
            lock(&self.queues[to]).push_back(Arrival { from: self.rank, lane, words });
        }
        Ok(())
    }

    fn poll(&mut self, arrived: &mut Vec<Arrival>) -> Result<bool> {
        if !self.cut.load(Ordering::Relaxed) {
            arrived.extend(lock(&self.queues[self.rank]).drain(..));
        }
        Ok(false)
    }

    fn close(&mut self, _: bool) {}
}

/// Runs every worker in a thread, two on each host; each gets what cuts it off.
fn together<T: Send>(
    size: usize,
    deadline: Duration,
    work: impl Fn(Remote, &AtomicBool) -> T + Sync,
) -> Vec<T> {
    together_on(2, size, deadline, work)
}

fn together_on<T: Send>(
    on_a_host: usize,
    size: usize,
    deadline: Duration,
    work: impl Fn(Remote, &AtomicBool) -> T + Sync,
) -> Vec<T> {
    let queues: Vec<Queue> = (0..size).map(|_| Queue::default()).collect();
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..size)
            .map(|rank| {
                let (queues, cut) = (queues.clone(), Arc::new(AtomicBool::new(false)));
                let wire = Queues { rank, queues, cut: cut.clone() };
                scope.spawn(move || {
                    let options = Options { deadline, ..Options::default() };
                    let host = format!("host-{}", rank / on_a_host);
                    work(Remote::connect(Box::new(wire), &host, options).unwrap(), &cut)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

const LONG: Duration = Duration::from_secs(60);

/// What a worker does in the comparison with threads; everything it learns, in bits.
fn everything(comm: &dyn Comm, numbers: usize) -> (Vec<u32>, Vec<Vec<u8>>, Vec<u8>, Traffic) {
    let (rank, size) = (comm.rank(), comm.size());
    let mut values: Vec<f32> = (0..numbers).map(|i| 0.1 + (i * (rank + 1)) as f32 / 7.0).collect();
    comm.all_reduce(&mut values).unwrap();
    let gathered = comm.all_gather(&vec![rank as u8; rank]).unwrap();
    let told = comm.broadcast(size - 1, vec![rank as u8; 5]).unwrap();
    let parts = (0..size).map(|to| vec![(10 * rank + to) as f32; to]).collect();
    let exchanged = comm.all_to_all(parts).unwrap();
    comm.barrier().unwrap();
    (0..size).for_each(|to| comm.send(to, Tag(u64::MAX - 1), vec![rank as f32; 3]).unwrap());
    let received = (0..size).map(|from| comm.receive(from, Tag(u64::MAX - 1)).unwrap());
    let numbers: Vec<f32> =
        values.into_iter().chain(exchanged.into_iter().flatten()).chain(received.flatten()).collect();
    (numbers.iter().map(|number| number.to_bits()).collect(), gathered, told, comm.traffic())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Few numbers and many, fewer than workers and none, on one host, which sums in pieces, and on several:
    /// the bits of threads, and their traffic.
    #[test]
    fn processes_do_what_threads_do(
        size in 1usize..5,
        on_a_host in 1usize..5,
        numbers in prop_oneof![0usize..6, 1000usize..6000, 260_000usize..270_000],
    ) {
        let found = together_on(on_a_host, size, LONG, |comm, _| everything(&comm, numbers));
        let expected: Vec<_> = std::thread::scope(|scope| {
            let start = |comm: threads::Threads| scope.spawn(move || everything(&comm, numbers));
            let workers: Vec<_> = threads(size).into_iter().map(start).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn hosts_are_known_and_so_is_who_is_beside() {
    let found = together(3, LONG, |comm, _| {
        let hosts: Vec<String> = (0..3).filter_map(|rank| comm.host(rank)).map(String::from).collect();
        (hosts, comm.beside())
    });
    assert_eq!(found[0].0, ["host-0", "host-0", "host-1"]);
    assert_eq!(found.iter().map(|(_, beside)| *beside).collect::<Vec<_>>(), [2, 2, 1]);
}

/// A worker whose machine disappears: all others learn which, whomever they wait for.
#[test]
fn a_silent_worker_is_lost_after_the_deadline() {
    let found = together(4, Duration::from_millis(1500), |comm, cut| {
        if comm.rank() == 2 {
            cut.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(3500));
            return Err(Error::usage("this one"));
        }
        let mut values = [1.0; 4];
        comm.all_reduce(&mut values).map(drop)
    });
    for rank in [0, 1, 3] {
        let Err(Error::Peer { rank: lost, what }) = &found[rank] else { panic!("{found:?}") };
        assert_eq!(*lost, 2, "{found:?}");
        assert!(what.starts_with("on host-1 has been silent for 2 s"), "{what}");
    }
}

/// Who waits for a worker that lives waits, longer than the deadline.
#[test]
fn a_slow_worker_is_waited_for_and_named() {
    let found = together(2, Duration::from_millis(1200), |comm, _| {
        if comm.rank() == 1 {
            std::thread::sleep(Duration::from_millis(2500));
            return comm.send(0, Tag(3), vec![5.0]).map(|()| None);
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                comm.waits_for()
            });
            let message = comm.receive(1, Tag(3)).unwrap();
            assert_eq!((message, comm.waits_for()), (vec![5.0], None));
            Ok(waits.join().unwrap())
        })
    });
    let (rank, waited) = found[0].clone().unwrap().unwrap();
    assert!(rank == 1 && waited > Duration::from_millis(300), "{waited:?}");
}

#[test]
fn the_reason_for_leaving_reaches_everybody() {
    let found = together(3, LONG, |comm, _| {
        if comm.rank() == 1 {
            comm.leave("the store is damaged", 3);
            return (Ok(()), 0);
        }
        let met = comm.barrier();
        (met, comm.end().unwrap().get().unwrap().code)
    });
    for rank in [0, 2] {
        let expected = Error::peer(1, "on host-0 has stopped: the store is damaged");
        assert_eq!(found[rank], (Err(expected), 3));
    }
}

/// Guards the message of the first worker: a launcher that sees another one end may end the first before it
/// has spoken.
#[test]
fn who_fails_goes_after_the_first_has_gone() {
    let spoken = AtomicBool::new(false);
    together(3, LONG, |comm, _| {
        match comm.rank() {
            0 => {
                // It computes, and finds out late.
                std::thread::sleep(Duration::from_millis(300));
                comm.barrier().unwrap_err();
                spoken.store(true, Ordering::SeqCst);
            }
            1 => comm.leave("the store is damaged", 3),
            _ => drop(comm.barrier()),
        }
        let rank = comm.rank();
        drop(comm);
        assert!(spoken.load(Ordering::SeqCst), "worker {rank} has gone before the first one");
    });
}

#[test]
fn workers_that_disagree_find_out() {
    let found = together(2, LONG, |comm, _| match comm.rank() {
        0 => comm.barrier(),
        _ => comm.all_gather(&[1]).map(drop),
    });
    for result in &found {
        let Err(Error::Usage(problem)) = result else { panic!("{found:?}") };
        assert!(problem.contains("barrier") && problem.contains("all_gather"), "{problem}");
    }
    let found = together(2, LONG, |comm, _| {
        (comm.broadcast(7, vec![]), comm.send(9, Tag(1), vec![]), comm.receive(2, Tag(1)).map(drop))
    });
    assert!(found.iter().all(|(one, two, three)| one.is_err() && two.is_err() && three.is_err()));
}

/// A process that was killed is missed at once, by all, though nobody waits for it and the deadline is far.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_process_is_lost_at_once() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let queues: Vec<Queue> = (0..3).map(|_| Queue::default()).collect();
    let connect = |rank: usize| {
        let wire = Queues { rank, queues: queues.clone(), cut: Arc::default() };
        let process = if rank == 1 { Process::living(child.id()) } else { Process::this() };
        // The third is on another machine, and has to be told.
        let host = if rank == 2 { "far" } else { "near" };
        let options = Options { deadline: LONG, ..Options::default() };
        let seat = Seat { process, ..Seat::of_this(host) };
        Remote::connect_as(Box::new(wire), seat, options).unwrap()
    };
    let remotes: Vec<Remote> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ends = [0, 2].map(|rank| remotes[rank].end().unwrap());
    assert!(ends.iter().all(|end| end.get().is_none()));
    child.kill().unwrap();
    let id = child.id();
    let expected = Error::peer(1, format!("on near has died: its process {id} is gone"));
    assert_eq!(remotes[2].receive(0, Tag(5)), Err(expected.clone()), "who waits for another learns it, too");
    assert!(ends.iter().all(|end| end.get() == Some(&End { error: expected.clone(), code: 0 })));
    // Only its process was killed: the endpoint itself would wait for the others.
    remotes[1].leave("it was killed", 0);
    child.wait().unwrap();
}

/// Guards that who waits in a sum through shared memory learns of everybody's end: who is killed is missed at
/// once, and who falls silent is named while it is waited for, and lost after the deadline.
#[cfg(target_os = "linux")]
#[test]
fn who_is_lost_while_others_sum_is_missed() {
    for (deadline, killed) in [(LONG, true), (Duration::from_secs(2), false)] {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (id, cut) = (child.id(), Arc::new(AtomicBool::new(false)));
        let queues: Vec<Queue> = (0..2).map(|_| Queue::default()).collect();
        let connect = |rank: usize| {
            let cut = if rank == 1 { cut.clone() } else { Arc::default() };
            let wire = Queues { rank, queues: queues.clone(), cut };
            let process = if rank == 1 { Process::living(id) } else { Process::this() };
            let options = Options { deadline, ..Options::default() };
            let seat = Seat { process, ..Seat::of_this("here") };
            Remote::connect_as(Box::new(wire), seat, options).unwrap()
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| connect(1));
            let comm = connect(0);
            let other = other.join().unwrap();
            assert!(comm.board.is_some() && other.board.is_some());
            let summing = scope.spawn(|| (comm.all_reduce(&mut [1.0; 10]), comm));
            std::thread::sleep(Duration::from_millis(300));
            let expected = match killed {
                true => {
                    child.kill().unwrap();
                    format!("on here has died: its process {id} is gone")
                }
                false => {
                    cut.store(true, Ordering::Relaxed);
                    "on here has been silent for 2 s".to_owned()
                }
            };
            let (summed, comm) = summing.join().unwrap();
            assert_eq!(summed, Err(Error::peer(1, expected)));
            drop(comm);
            other.shared.fail(Error::peer(0, "has gone"));
        });
        // It may be gone already.
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// One sums through shared memory, another sends messages: both learn that they do not agree.
#[cfg(target_os = "linux")]
#[test]
fn workers_that_came_for_different_things_find_out() {
    for together in [|comm: &Remote| comm.all_gather(&[1]).map(drop), |comm: &Remote| comm.barrier()] {
        let said = together_on(2, 2, LONG, |comm, _| {
            let done = if comm.rank() == 0 { comm.all_reduce(&mut [1.0; 3]) } else { together(&comm) };
            done.unwrap_err().to_string()
        });
        assert!(said.iter().any(|said| said.contains("calls all_reduce of 3 numbers")), "{said:?}");
    }
}

/// Whose machine disappears while all meet is missed, too.
#[test]
fn a_worker_that_never_comes_is_lost() {
    let queues: Vec<Queue> = (0..2).map(|_| Queue::default()).collect();
    let wire = Queues { rank: 0, queues, cut: Arc::default() };
    let options = Options { deadline: Duration::from_millis(300), ..Options::default() };
    let Err(Error::Peer { rank: 1, what }) = Remote::connect(Box::new(wire), "here", options) else {
        panic!()
    };
    assert_eq!(what, "on an unknown machine has been silent for 0 s");
}
