//! Files that are not text: what they are, by their first bytes, and what to do with them.

/// What stands in the first bytes of a file, what such a file is, and what to do with it.
type Known = (&'static [u8], &'static str, &'static str);

/// First bytes that no text begins with.
const BINARY: &[Known] = &[
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", TABLE),
    (b"\x93NUMPY", "a numpy array (.npy)", "save it as text: numpy.savetxt(file, array, delimiter=',')"),
    (b"SQLite format 3\0", "an SQLite database", "export a table: sqlite3 -header -csv FILE 'select ...'"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it: 7z x FILE"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it: unrar x FILE"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "unpack it: lz4 -d FILE"),
    (b"\x1f\x9d", "compressed with compress (.Z)", "unpack it: uncompress FILE"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Office file", SHEET),
    (b"\xff\xfe", "text in UTF-16", UTF16),
    (b"\xfe\xff", "text in UTF-16", UTF16),
];

/// First bytes that a text could begin with, which count only where the rest is not text.
const PERHAPS_BINARY: &[Known] = &[
    (b"PAR1", "a Parquet file", TABLE),
    (b"ARROW1", "an Arrow or Feather file", TABLE),
    (b"FEA1", "a Feather file", TABLE),
    (b"ORC", "an ORC file", TABLE),
    (b"Obj\x01", "an Avro file", TABLE),
    (b"MATLAB 5.0", "a MATLAB file", "write its arrays as text: writematrix(array, 'edges.csv')"),
    (b"RDX", "an R data file", "write the table as text: write.csv(table, 'edges.csv', row.names=FALSE)"),
];

/// First bytes of texts that are no tables, in any case.
const TEXTS: &[Known] = &[
    (b"<!doctype", "a web page (HTML)", PAGE),
    (b"<html", "a web page (HTML)", PAGE),
    (b"<?xml", "XML", "write its edges as a table, one edge a row: source,target,time"),
    (b"%pdf-", "a PDF", "look for the data as text where it came from"),
    (b"version https://git-lfs", "a Git LFS pointer, not the data itself", "fetch the data: git lfs pull"),
];

const TABLE: &str = "write it as text, for example with pandas: frame.to_csv('edges.csv', index=False)";
const SHEET: &str = "save the sheet as CSV (in Excel: File, Save As, CSV UTF-8)";
const UTF16: &str = "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW";
const PAGE: &str = "the download has probably failed: fetch the data itself";

/// Names inside a zip archive that tell what it is, wherever they stand in its first bytes.
const ZIPPED: &[Known] = &[
    (b"xl/", "an Excel workbook", SHEET),
    (b"[Content_Types].xml", "an Excel workbook or another Office file", SHEET),
    (b"data.pkl", "a PyTorch file", PICKLE),
    (b".npy", "a numpy archive (.npz)", "save its arrays as text: numpy.savetxt(file, array, delimiter=',')"),
    (b"", "a zip archive", "unpack it, or read one file from it: unzip -p FILE NAME | kymo ingest - ..."),
];

const PICKLE: &str = "load it in Python and write its edges as text, one edge a row: source,target,time";

/// Says what a file is that begins like this, and what to do with it, if it is nothing a reader can read.
pub fn refusal(head: &[u8]) -> Option<String> {
    let say = |&(_, what, advice): &Known| Some(format!("is {what}, expected text; {advice}"));
    let begins = |known: &&Known| head.starts_with(known.0);
    if let Some(known) = BINARY.iter().find(begins) {
        return say(known);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        let first = &head[..head.len().min(4096)];
        return ZIPPED.iter().find(|known| memchr::memmem::find(first, known.0).is_some()).and_then(say);
    }
    if matches!(head, [0x80, 2..=5, ..]) {
        return say(&(b"", "a Python pickle", PICKLE));
    }
    if let Some(known) = PERHAPS_BINARY.iter().find(begins).filter(|_| !is_text(head)) {
        return say(known);
    }
    if head.get(257..262) == Some(b"ustar") && !is_text(head) {
        return say(&(b"", "a tar archive", "unpack it: tar -xf FILE"));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |known: &&Known| text.get(..known.0.len()).is_some_and(|t| t.eq_ignore_ascii_case(known.0));
    TEXTS.iter().find(begins).and_then(say)
}

/// Whether bytes could be text: no controls but blanks and line ends, in whatever encoding.
fn is_text(head: &[u8]) -> bool {
    head.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace() || byte == 0x0b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_named_with_what_to_do() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let cases: &[(&[u8], &str, &str)] = &[
            (b"PAR1\x15\x04\x15", "a Parquet file", "to_csv"),
            (b"ARROW1\0\0", "an Arrow or Feather file", "to_csv"),
            (b"ORC\x08\x03\x10", "an ORC file", "to_csv"),
            (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file", "to_csv"),
            (b"\x93NUMPY\x01\0v\0{'descr'", "a numpy array (.npy)", "savetxt"),
            (b"PK\x03\x04\x14\0\0\0\0\0....arr_0.npy", "a numpy archive (.npz)", "savetxt"),
            (b"PK\x03\x04\x14\0\0\0\0\0....xl/workbook.xml", "an Excel workbook", "CSV UTF-8"),
            (b"PK\x03\x04\0\0archive/data.pkl", "a PyTorch file", "Python"),
            (b"PK\x03\x04\x14\0\0\0\0\0....edges.csv1,2,3", "a zip archive", "unzip -p"),
            (b"\x80\x04\x95\x10", "a Python pickle", "Python"),
            (b"SQLite format 3\0", "an SQLite database", "sqlite3 -header -csv"),
            (b"%PDF-1.7\n", "a PDF", "as text"),
            (b"\n <!DOCTYPE html>", "a web page (HTML)", "download has probably failed"),
            (b"\xef\xbb\xbf<HTML><body>", "a web page (HTML)", "download has probably failed"),
            (b"<?xml version='1.0'?><graphml>", "XML", "one edge a row"),
            (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", "git lfs pull"),
            (b"\xff\xfe1\0,\0", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
            (b"\xfe\xff\x001\0,", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
            (&tar, "a tar archive", "tar -xf"),
        ];
        for (head, what, advice) in cases {
            let said = refusal(head).unwrap_or_default();
            assert!(said.starts_with(&format!("is {what}")) && said.contains(advice), "{what}: {said}");
        }
    }

    #[test]
    fn tables_that_begin_like_something_else_are_texts() {
        for text in
            ["ORCID,coauthor,year\n", "PAR1,PAR2,t\n", "PK,target,time\n", "Obj,v,t\n", "1 2 3", "% x"]
        {
            assert_eq!(refusal(text.as_bytes()), None, "{text}");
        }
    }
}
