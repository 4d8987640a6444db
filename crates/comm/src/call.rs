//! What workers do together. Each says which it came for, so that those who disagree notice.

use std::fmt;

/// What a worker has come for. Workers agree when their calls are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Barrier,
    AllReduce { numbers: usize },
    AllGather,
    AllToAll { parts: usize },
    Broadcast { root: usize },
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Call::Barrier => write!(f, "barrier"),
            Call::AllReduce { numbers } => write!(f, "all_reduce of {numbers} numbers"),
            Call::AllGather => write!(f, "all_gather"),
            Call::AllToAll { parts } => write!(f, "all_to_all of {parts} parts"),
            Call::Broadcast { root } => write!(f, "broadcast from worker {root}"),
        }
    }
}

impl Call {
    /// What is wrong with a call that all workers agree on.
    pub(crate) fn problem(self, size: usize) -> Option<String> {
        match self {
            Call::AllToAll { parts } if parts != size => {
                Some(format!("{self} between {size} workers; give one part for each worker"))
            }
            Call::Broadcast { root } if root >= size => {
                Some(format!("{self} where the last worker is {}; name one that is there", size - 1))
            }
            _ => None,
        }
    }

    /// The call as a number, to be sent along.
    pub(crate) fn code(self) -> u64 {
        let (kind, detail) = match self {
            Call::Barrier => (0, 0),
            Call::AllReduce { numbers } => (1, numbers),
            Call::AllGather => (2, 0),
            Call::AllToAll { parts } => (3, parts),
            Call::Broadcast { root } => (4, root),
        };
        kind << KIND | detail as u64
    }

    /// The call with this number.
    pub(crate) fn of(code: u64) -> Option<Call> {
        let detail = (code & ((1 << KIND) - 1)) as usize;
        match code >> KIND {
            0 => Some(Call::Barrier),
            1 => Some(Call::AllReduce { numbers: detail }),
            2 => Some(Call::AllGather),
            3 => Some(Call::AllToAll { parts: detail }),
            4 => Some(Call::Broadcast { root: detail }),
            _ => None,
        }
    }
}

/// Where the kind of a call begins in its number.
const KIND: u32 = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_survive_as_numbers() {
        let calls = [
            Call::Barrier,
            Call::AllReduce { numbers: 123_456_789_012 },
            Call::AllGather,
            Call::AllToAll { parts: 3 },
            Call::Broadcast { root: 2 },
        ];
        for call in calls {
            assert_eq!(Call::of(call.code()), Some(call));
        }
        assert_eq!(Call::of(9 << KIND), None);
    }
}
