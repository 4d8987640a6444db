//! What stands between the fields of a line, as a line shows it.

/// What stands between two fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// Any run of spaces and tabs; leading and trailing ones do not count.
    Blank,
    /// Exactly one of this byte; fields may be empty and quoted with `"`.
    Byte(u8),
}

impl Separator {
    /// The separator a line uses: a comma, tab, semicolon or bar where there is one outside quotes, else
    /// blanks. Commas that all stand between digits are decimal commas where another one is more frequent.
    pub fn guess(line: &[u8]) -> Separator {
        let mut quoted = false;
        let plain: Vec<u8> = line
            .iter()
            .copied()
            .filter(|&byte| {
                quoted ^= byte == b'"';
                !quoted
            })
            .collect();
        let found = |line: &[u8]| {
            let others = [b'\t', b';', b'|'].into_iter().find(|byte| line.contains(byte));
            let count = |wanted: u8| line.iter().filter(|&&byte| byte == wanted).count();
            let decimal = |at: usize| {
                at > 0 && line[at - 1].is_ascii_digit() && line.get(at + 1).is_some_and(u8::is_ascii_digit)
            };
            match others {
                _ if !line.contains(&b',') => others,
                Some(other) if count(other) > count(b',') && memchr::memchr_iter(b',', line).all(decimal) => {
                    Some(other)
                }
                _ => Some(b','),
            }
        };
        found(&plain).or_else(|| found(line)).map_or(Separator::Blank, Separator::Byte)
    }

    /// As [`Separator::guess`], but tabs count as blanks: for columns of numbers, which files often align
    /// with both.
    pub fn guess_loosely(line: &[u8]) -> Separator {
        match Separator::guess(line) {
            Separator::Byte(b'\t') => Separator::Blank,
            separator => separator,
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Separator::Blank => "separated by blanks".into(),
            Separator::Byte(b'\t') => "separated by tabs".into(),
            Separator::Byte(byte) => format!("separated by '{}'", byte as char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_what_stands_between_fields() {
        for (line, expected) in [
            ("a,b;c", Separator::Byte(b',')),
            ("1;2;3,5", Separator::Byte(b';')),
            ("1\t2\t3,5", Separator::Byte(b'\t')),
            ("1,2,a;b;c;d", Separator::Byte(b',')),
            ("\"a,b\";c", Separator::Byte(b';')),
            ("5\" pipe,1", Separator::Byte(b',')),
            ("1 2 3", Separator::Blank),
        ] {
            assert_eq!(Separator::guess(line.as_bytes()), expected, "{line}");
        }
    }
}
