//! Bad input at the command: one clear error, exit code 2, nothing left behind.

use crate::fixture::Bench;
use std::io::Write;
use std::process::Command;

#[test]
fn every_kind_of_bad_file_is_named() {
    let bench = Bench::new();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all("1 2 3\n".repeat(5000).as_bytes()).unwrap();
    let zipped = zipped.finish().unwrap();
    let cases: &[(&str, &[u8], &str)] = &[
        ("letters", b"1 2 3\n1 x 4\n", "letters, line 2, column 2 (target): found 'x', expected a vertex id"),
        (
            "negative",
            b"1 2 3\n-1 2 4\n",
            "negative, line 2, column 1 (source): found '-1', expected a vertex id, which cannot be negative",
        ),
        (
            "overflow",
            b"1 2 3\n99999999999999999999999 2 4\n",
            "overflow, line 2, column 1 (source): found '99999999999999999999999'",
        ),
        ("nan", b"1 2 3\n1 2 NaN\n", "nan, line 2, column 3 (time): found 'NaN', expected a finite number"),
        ("missing", b"1 2 3\n1 2\n", "missing, line 2: found 2 field(s)"),
        ("mixed", b"1 2 3\n1,2,4\n", "mixed, line 2: found 1 field(s)"),
        ("empty", b"", "empty: is empty; expected at least one row"),
        ("binary", b"\x7fELF\0\0\0", "binary: is not text: found a zero byte at offset 4"),
        ("cut.gz", &zipped[..zipped.len() - 9], "cut.gz: the gzip stream ends early: the file is truncated"),
    ];
    for (name, content, expected) in cases {
        bench.file(name, content);
        let error = bench.refused(&format!("ingest {name} --format snap -o store"));
        assert!(error.starts_with(expected), "{error}");
    }
    bench.file("remarks", "# nothing\n\n% here\n");
    assert!(bench.refused("ingest remarks --format snap -o store").starts_with("remarks: has no rows"));
    bench.file("prose", "The quick brown fox\njumps over the lazy dog\n");
    let error = bench.refused("ingest prose -o store");
    assert!(
        error.contains("its format is not one Kymo recognises") && error.contains("--columns"),
        "{error}"
    );
}

#[test]
fn windows_line_ends_and_byte_order_marks_are_fine() {
    let bench = Bench::new();
    bench.file("windows.txt", "\u{feff}1 2 3\r\n2 3 4\r\n");
    assert_eq!(bench.json("ingest windows.txt --format snap -o store")["events"], 2);
}

#[test]
fn what_is_in_the_way_is_named_and_untouched() {
    let bench = Bench::new();
    bench.file("events.txt", "1 2 3\n2 3 4\n");
    std::fs::create_dir(bench.path("folder")).unwrap();
    std::fs::write(bench.path("folder/precious"), "x").unwrap();
    bench.json("ingest events.txt --format snap -o store");
    let cases = [
        ("ingest folder -o new", "folder: is a folder; name the files in it"),
        ("ingest absent.txt -o new", "cannot open absent.txt: No such file"),
        (
            "ingest events.txt --format snap -o store",
            "store: exists already; choose another name or pass --overwrite",
        ),
        ("ingest events.txt --format snap -o folder", "folder: exists and is not a store"),
        ("ingest events.txt --format snap -o folder --overwrite", "folder: exists and is not a store"),
        ("ingest events.txt --format snap -o events.txt", "events.txt: exists and is not a store"),
        (
            "ingest events.txt --format snap -o events.txt/store",
            "cannot write events.txt/store: Not a directory",
        ),
        ("generate uniform -o store", "store: exists already"),
        ("inspect absent", "absent: there is no such store"),
        ("train absent -o new", "data.store: absent: there is no such store; make one with"),
        ("plan absent", "data.store: absent: there is no such store"),
        ("inspect folder", "folder: is a folder but not a store"),
        ("inspect events.txt", "events.txt: is a file, not a store"),
    ];
    for (args, expected) in cases {
        let error = bench.refused(args);
        assert!(error.starts_with(expected), "{args}: {error}");
    }
    assert_eq!(std::fs::read_to_string(bench.path("folder/precious")).unwrap(), "x");
}

#[test]
fn impossible_settings_are_refused() {
    let bench = Bench::new();
    bench.file("events.txt", "1 2 3\n2 3 4000000000\n");
    let cases = [
        ("ingest events.txt --format snap --time-unit s --window 1s -o new", "--window: this would make"),
        ("ingest events.txt --format snap --steps 0 -o new", "--steps: found 0"),
        ("ingest events.txt --format nonsense -o new", "--format: there is no format 'nonsense'; known are"),
        (
            "ingest events.txt --format snap --features events -o new",
            "--features events: the events of this input carry no features",
        ),
        (
            "ingest events.txt --columns a,b,c -o new",
            "--columns: 'c' is not the name of a column; known are source,",
        ),
        (
            "ingest events.txt --columns time,source,ts -o new",
            "--columns: 'ts' means what one before it means",
        ),
        ("ingest - - -o new", "INPUT: standard input (-) can be read only once"),
        ("generate nonsense -o new", "KIND: there is no kind 'nonsense'; known are"),
        ("generate uniform --edge-change 3 -o new", "--edge-change"),
        ("generate uniform --scale 0 -o new", "--scale"),
        ("generate uniform --vertices 10 --edges 1000 -o new", "--edges"),
        ("generate from-static -o new", "STORE: from-static needs"),
        ("generate uniform somewhere -o new", "STORE: 'uniform' starts from nothing"),
    ];
    for (args, expected) in cases {
        let error = bench.refused(args);
        assert!(error.starts_with(expected), "{args}: {error}");
    }
    for args in [
        "ingest",
        "ingest events.txt --format snap",
        "ingest events.txt --format snap -o x --window soon",
        "ingest events.txt --format snap -o x --memory 1",
        "frob",
    ] {
        let answer = bench.kymo(args);
        assert_eq!(answer.code, 2, "{args}");
        assert!(answer.err.contains("error:"), "{args}: {}", answer.err);
    }
    assert_eq!(bench.names(), ["events.txt"]);
}

/// A shell in which files cannot grow beyond a limit, as on a full disk, and in which the process is told so.
#[cfg(unix)]
#[test]
fn a_full_disk_is_reported_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let rows: String = (0..60_000).map(|i| format!("{} {} {i}\n", i % 977, i % 1009)).collect();
    bench.file("events.txt", rows);
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} ingest events.txt --format snap -o store",
        env!("CARGO_BIN_EXE_kymo")
    );
    let answer = bench.command(Command::new("bash").args(["-c", &script]));
    assert_eq!(answer.code, 4, "{}", answer.err);
    assert!(answer.err.starts_with("error: cannot write"), "{}", answer.err);
    assert_eq!(bench.names(), ["events.txt"]);
}

#[cfg(unix)]
#[test]
fn missing_permissions_are_reported() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.file("events.txt", "1 2 3\n");
    let path = bench.file("secret.txt", "1 2 3\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::create_dir(bench.path("closed")).unwrap();
    std::fs::set_permissions(bench.path("closed"), std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    assert!(
        bench.refused("ingest secret.txt -o new").starts_with("cannot open secret.txt: Permission denied")
    );
    assert!(
        bench
            .refused("ingest events.txt --format snap -o closed/new")
            .starts_with("cannot create closed/.new.partial")
    );
}

/// Scripts tell by the exit code who must act.
#[test]
fn errors_exit_with_the_code_of_their_class() {
    use kymo::run::Class;

    let bench = Bench::new();
    bench.make_small();
    bench.file("letters", "1 2 3\n1 x 3\n");
    for (args, class) in [
        ("train small --window 0 -o run", Class::Settings),
        ("train small --model nonsense -o run", Class::Settings),
        ("ingest letters --format snap -o store", Class::Input),
        ("train small --config none.toml -o run", Class::Resource),
    ] {
        let (found, error) = bench.failed(args);
        assert_eq!(found, class, "kymo {args}: {error}");
    }
    // Options that cannot be read are settings, too.
    assert_eq!(bench.kymo("train --frob").code, 2);
}
