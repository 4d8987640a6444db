//! Names of rows on their way between workers: which step they belong to, which exchange of that step, in
//! which epoch.
//!
//! A receiver asks for messages by name, so workers need not run the same exchange at the same time: rows of
//! an earlier epoch can be waited for, or be left lying, while others pass.

use kymo_comm::Tag;

/// The name of rows on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowTag {
    /// The epoch.
    pub epoch: u32,
    /// The step of the store that the rows belong to.
    pub step: u32,
    /// The number of the exchange at that step, in the order in which the model asks for rows: its layers
    /// come first.
    pub layer: u16,
    /// Whether gradients come back, rather than rows.
    pub backward: bool,
    /// Whether the rows are evaluated rather than trained on.
    pub evaluates: bool,
}

impl RowTag {
    /// Tags below this are free for other messages.
    pub const FIRST: u64 = 1 << 63;

    /// The same rows' gradients.
    pub fn back(self) -> RowTag {
        RowTag { backward: true, ..self }
    }
}

impl From<RowTag> for Tag {
    /// Numbers that are too large wrap around: messages with equal tags still arrive in the order of sending.
    fn from(tag: RowTag) -> Tag {
        let RowTag { epoch, step, layer, backward, evaluates } = tag;
        let flags = u64::from(backward) << 62 | u64::from(evaluates) << 61;
        let (epoch, step) = (u64::from(epoch & 0x1F_FFFF), u64::from(step & 0xFF_FFFF));
        Tag(RowTag::FIRST | flags | epoch << 40 | step << 16 | u64::from(layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_name_tells_tags_apart() {
        let tag = RowTag { epoch: 3, step: 5, layer: 7, backward: false, evaluates: false };
        let others = [
            RowTag { epoch: 4, ..tag },
            RowTag { step: 6, ..tag },
            RowTag { layer: 8, ..tag },
            RowTag { evaluates: true, ..tag },
            tag.back(),
        ];
        let tags: std::collections::BTreeSet<Tag> =
            others.iter().chain([&tag]).map(|&tag| Tag::from(tag)).collect();
        assert_eq!(tags.len(), 6);
        assert!(tags.iter().all(|tag| tag.0 >= RowTag::FIRST));
        // The largest numbers stay in their places.
        let most =
            RowTag { epoch: u32::MAX, step: u32::MAX, layer: u16::MAX, backward: true, evaluates: true };
        assert_eq!(Tag::from(most).0, u64::MAX);
    }
}
