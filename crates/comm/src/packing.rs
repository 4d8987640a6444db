//! Bytes in messages of numbers.

/// Bytes as a message: their number, then four to a word. Words are only moved, never computed with.
pub fn packed(bytes: &[u8]) -> Vec<f32> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        f32::from_bits(u32::from_le_bytes(word))
    };
    let length = (bytes.len() as u64).to_le_bytes();
    length.chunks(4).chain(bytes.chunks(4)).map(word).collect()
}

/// The bytes in a message; nothing where it is cut off.
pub fn unpacked(words: &[f32]) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_bits().to_le_bytes()).collect();
    let length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as usize;
    bytes.drain(..8);
    bytes.get(..length)?;
    bytes.truncate(length);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_as_a_message() {
        for length in [0, 1, 3, 4, 5, 1023] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 % 256) as u8 | 0x80).collect();
            assert_eq!(unpacked(&packed(&bytes)).unwrap(), bytes);
        }
        // Bit patterns of NaN are moved as they are.
        let nan = [0x01, 0x00, 0x80, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(unpacked(&packed(&nan)).unwrap(), nan);
        assert!(unpacked(&packed(&[1; 20])[..4]).is_none() && unpacked(&[]).is_none());
    }
}
