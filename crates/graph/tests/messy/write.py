"""Writes the messy files of this folder: small, but shaped like files that people have.

Each is made from a random dynamic graph with a fixed seed. `truth.tsv` says for each file which columns hold
what, in the words of `--columns`; tests/readers/messy.rs holds what Kymo makes of them against it.
"""

import gzip, io, pathlib, random, zipfile
from datetime import datetime, timedelta, timezone

HERE = pathlib.Path(__file__).parent
truth = []


def put(name, text, words, options="", encoding="utf-8"):
    data = text if isinstance(text, bytes) else text.encode(encoding)
    (HERE / name).write_bytes(data)
    truth.append((name, words, options))


def graph(seed, rows=120, ids=40, start=0, step=1, first=1, spread=1):
    """Rows (source, target, time) in the order of time, ids drawn with a preference for small ones."""
    draw = random.Random(seed)
    time, out = start, []
    for _ in range(rows):
        a = first + int(ids * draw.random() ** 1.5) * spread
        b = first + int(ids * draw.random() ** 1.5) * spread
        out.append((a, b, time))
        time += step * draw.randrange(0, 5)
    return out


def table(rows, separator=",", header=None, end="\n"):
    lines = [separator.join(str(field) for field in row) for row in rows]
    return end.join(([header] if header else []) + lines) + end


def iso(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(seconds, form="%Y-%m-%d"):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(form)


E0 = 1_577_836_800  # 2020-01-01
draw = random.Random(0)
NAMES = "ada bob cyd dan eve fay gus hal ivy jon kim leo mia ned ola pia quo ray sue tom una vic wes xia yan"
NAMES = NAMES.split() + ["zoe"]


def name(number):
    return NAMES[number % len(NAMES)] + ("" if number < len(NAMES) else str(number // len(NAMES)))


# Edge lists without a header
g = graph(1, start=E0, step=3600)
put("messages.txt", table(g, " "), "source,target,time")
put("messages-time-first.txt", table([(t, a, b) for a, b, t in g], " "), "time,source,target")
g = graph(2, start=31220, step=20, first=1426, ids=60)
put("contacts-tij.dat", table([(t, a, b) for a, b, t in g], "\t"), "time,source,target")
put("contacts-ijt.txt", table(g, " "), "source,target,time")
put(
    "contacts-classes.csv",
    table([(t, a, b, "1A 1B 2A 2B".split()[a % 4], "1A 1B 2A 2B".split()[b % 4]) for a, b, t in g]),
    "time,source,target,_,_",
)
put(
    "out.konect",
    "% asym signed\n% 120 40 40\n"
    + table([(a, b, draw.choice([-1, 1]), t) for a, b, t in graph(3, start=E0, step=900)], " "),
    "source,target,weight,time",
)
put("out.bipartite", "% bip unweighted\n" + table([(a, b) for a, b, _ in graph(4)], " "), "source,target")
put(
    "network.edges",
    table([(a, b, 1 + draw.randrange(4), t) for a, b, t in graph(5, start=E0, step=60)], ","),
    "source,target,weight,time",
)
put(
    "trust.csv",
    table(
        [(a, b, draw.randrange(-10, 11), f"{t}.{draw.randrange(99999):05}") for a, b, t in graph(6, start=E0)]
    ),
    "source,target,weight,time",
)
put(
    "web-snap.txt",
    "# Directed graph\n# Nodes: 40 Edges: 120\n# FromNodeId\tToNodeId\n"
    + table([(a, b) for a, b, _ in graph(7)], "\t"),
    "source,target",
)
g = graph(8, start=E0, step=977)
put("by-source.txt", table(sorted(g), " "), "source,target,time")
put(
    "by-source-steps.txt",
    table(sorted((a, b, draw.randrange(40)) for a, b, _ in g), " "),
    "source,target,time",
)
put(
    "three-numbers.txt",
    table([(draw.randrange(50), draw.randrange(50), draw.randrange(50)) for _ in range(120)], " "),
    "source,target,time",
)
put(
    "scaled-years.txt",
    table([(a, b, round(t / 26, 6)) for a, b, t in graph(9, step=0.1)], " "),
    "source,target,time",
)
put(
    "coauthors.tsv",
    table([(a, b, 1990 + draw.randrange(20)) for a, b, _ in graph(10)], "\t"),
    "source,target,time",
)
put(
    "clicks-ms.csv",
    table([(a, b, t * 1000 + draw.randrange(1000)) for a, b, t in graph(11, start=E0, step=5)]),
    "source,target,time",
)
put(
    "packets-us.csv",
    table([(t * 1000000 + draw.randrange(1000000), a, b) for a, b, t in graph(12, start=E0)]),
    "time,source,target",
)
put(
    "trades-ns.csv",
    table(
        [(t * 10**9 + draw.randrange(10**9), a, b, draw.randrange(1, 900)) for a, b, t in graph(13, start=E0)]
    ),
    "time,source,target,weight",
)
put(
    "numbered-rows.csv",
    table([(i, a, b, t) for i, (a, b, t) in enumerate(graph(14, start=E0))]),
    "_,source,target,time",
)
put(
    "quadruples.txt",
    table([(a, draw.randrange(12), b, t * 24) for a, b, t in graph(15, ids=80)], "\t"),
    "source,_,target,time",
)
put(
    "events-names.tsv",
    table(
        [
            (name(a), draw.choice(["Make a visit", "Consult", "Criticize"]), name(b), day(E0 + t * 86400))
            for a, b, t in graph(16)
        ],
        "\t",
    ),
    "source,_,target,time",
)
h = random.Random(17)
wallet = [f"0x{h.getrandbits(80):020x}" for _ in range(40)]
put(
    "wallets.csv",
    table(
        [
            (wallet[a - 1], wallet[b - 1], round(h.random() * 10, 6), t)
            for a, b, t in graph(17, start=E0, step=13)
        ]
    ),
    "source,target,weight,time",
)
put(
    "weighted-time-first.csv",
    table([(t, a, b, round(h.random(), 3)) for a, b, t in graph(18, start=E0)]),
    "time,source,target,weight",
)
put(
    "weights-only.txt",
    table([(a, b, round(h.random(), 4)) for a, b, _ in graph(19)], " "),
    "source,target,weight",
)
put(
    "signs-only.txt", table([(a, b, h.choice([-1, 1])) for a, b, _ in graph(20)], " "), "source,target,weight"
)
put(
    "counts-only.txt",
    table([(a, b, h.randrange(1, 9)) for a, b, _ in graph(21)], " "),
    "source,target,weight",
)
put(
    "aligned.txt",
    table([(f" {a:>4}", f"\t{b:>4}  ", f"{t}  ") for a, b, t in graph(22, start=E0)], " "),
    "source,target,time",
)
put(
    "scientific.txt",
    table([(a, b, f"{t:.9e}") for a, b, t in graph(23, start=E0)], " "),
    "source,target,time",
)
put(
    "pipes.txt",
    table([(name(a), name(b), day(E0 + t * 86400)) for a, b, t in graph(24)], "|"),
    "source,target,time",
)
put("trailing-comma.csv", table([(a, b, t, "") for a, b, t in graph(25, start=E0)]), "source,target,time,_")
put(
    "leading-zeros.csv",
    table([(f"{a:06}", f"{b:06}", t) for a, b, t in graph(26, start=E0)]),
    "source,target,time",
)
put(
    "zones.csv",
    table(
        [
            (a, b, datetime.fromtimestamp(E0 + t * 3600, timezone(timedelta(hours=2))).isoformat())
            for a, b, t in graph(27)
        ]
    ),
    "source,target,time",
)
put(
    "big-ids.txt",
    table([(a * 100_000_007 + 13, b * 100_000_007 + 13, t) for a, b, t in graph(28, start=E0)], " "),
    "source,target,time",
)
put(
    "kinds.txt",
    table([(a, b, t, h.choice(["RT", "MT", "RE"])) for a, b, t in graph(29, start=E0)], " "),
    "source,target,time,_",
)
put(
    "float-ids.csv",
    table([(f"{a}.0", f"{b}.0", f"{t}.0") for a, b, t in graph(30, start=E0)]),
    "source,target,time",
)
put("negative-ids.csv", table([(a - 20, b - 20, t) for a, b, t in graph(31, start=E0)]), "source,target,time")

# With a header
put(
    "payments.csv",
    table([(name(a), name(b), day(E0 + t * 86400)) for a, b, t in graph(32)], header="payer,payee,when"),
    "source,target,time",
)
put(
    "unknown-header.csv",
    table([(name(a), name(b), t) for a, b, t in graph(33, start=E0)], header="alpha,beta,gamma"),
    "source,target,time",
)
put(
    "unknown-numbers.csv",
    table([(a, b, h.randrange(99)) for a, b, _ in graph(34)], header="alpha,beta,gamma"),
    "source,target,time",
)
put(
    "ratings.csv",
    table(
        [(a, b, h.randrange(1, 11) / 2, t) for a, b, t in graph(35, start=E0)],
        header="userId,movieId,rating,timestamp",
    ),
    "source,target,weight,time",
)
put(
    "milliseconds.csv",
    table([(a, b, t) for a, b, t in graph(36, start=5)], header="src,dst,ts_ms"),
    "source,target,time",
)
put(
    "trade-by-year.csv",
    table(
        [(1986 + i // 15, name(a), name(b), h.randrange(10**6)) for i, (a, b, _) in enumerate(graph(37))],
        header="year,nation,nation,value",
    ),
    "time,source,target,weight",
)
put(
    "tokens.csv",
    table(
        [
            (day(E0 + t * 86400), wallet[a - 1], wallet[b - 1], round(h.random() * 1e6, 3))
            for a, b, t in graph(38)
        ],
        header="day,src,dst,weight",
    ),
    "time,source,target,weight",
)
put(
    "edits-jodie.csv",
    table(
        [(a, b, f"{t}.0", 0, round(h.random(), 3), round(h.random(), 3)) for a, b, t in graph(39)],
        header="user_id,item_id,timestamp,state_label,comma_separated_list_of_features",
    ),
    "source,target,time,_,_,_",
)
put(
    "comments-tgb.csv",
    table(
        [
            (t, name(a), name(b), 1, 5 + a * b % 90, "en" if a % 3 else "de", (b - a) / 8)
            for a, b, t in graph(61)
        ],
        header="ts,src,dst,w,words,language,score",
    ),
    "time,source,target,weight,_,_,_",
)
put(
    "fees.csv",
    table(
        [(name(a), name(b), iso(1_600_000_000 + 900 * t), a * 10, b / 4, "cash") for a, b, t in graph(62)],
        header="payer,payee,when,amount,fee,means",
    ),
    "source,target,time,weight,_,_",
    "--edge-features amount,fee",
)
put(
    "fraud-steps.csv",
    table(
        [
            (1 + i // 6, "TRANSFER", round(h.random() * 1e5, 2), f"C{a}", 0, f"M{b}", 0)
            for i, (a, b, _) in enumerate(graph(40))
        ],
        header="step,type,amount,nameOrig,oldbalanceOrg,nameDest,isFraud",
    ),
    "step,_,weight,source,_,target,_",
)
put(
    "transactions.csv",
    table([(a + 230425980, b + 230425980) for a, b, _ in graph(41)], header="txId1,txId2"),
    "source,target",
)
put(
    "hyperlinks.tsv",
    table(
        [
            (
                name(a),
                name(b),
                f"1u4{i:03x}s",
                day(E0 + t * 3600, "%Y-%m-%d %H:%M:%S"),
                h.choice([-1, 1]),
                "345.0",
            )
            for i, (a, b, t) in enumerate(graph(42))
        ],
        "\t",
        header="SOURCE_SUBREDDIT\tTARGET_SUBREDDIT\tPOST_ID\tTIMESTAMP\tLINK_SENTIMENT\tPROPERTIES",
    ),
    "source,target,_,time,_,_",
)
put(
    "bikes.csv",
    table(
        [
            (f"A{i:05}", day(E0 + t * 600, "%Y-%m-%d %H:%M:%S"), h.randrange(2000), a, b)
            for i, (a, b, t) in enumerate(graph(43))
        ],
        header="ride_id,started_at,tripduration,start_station_id,end_station_id",
    ),
    "_,time,_,source,target",
)
put(
    "transfers.csv",
    table(
        [(iso(E0 + t * 13), wallet[a - 1], wallet[b - 1], h.randrange(10**18)) for a, b, t in graph(44)],
        header="block_timestamp,from_address,to_address,value",
    ),
    "time,source,target,weight",
)
put(
    "calls.csv",
    table(
        [
            (4915100000000 + a, 4915100000000 + b, day(E0 + t * 60, "%Y-%m-%d %H:%M:%S"), h.randrange(900))
            for a, b, t in graph(45)
        ],
        header="caller,callee,start_time,seconds",
    ),
    "source,target,time,_",
)
put(
    "orders.csv",
    table(
        [
            (f"c{a}", f"p{b}", h.randrange(1, 9), round(h.random() * 50, 2), day(E0 + t * 86400))
            for a, b, t in graph(46)
        ],
        header="Customer ID,Product ID,Qty,Price,Date",
    ),
    "source,target,weight,_,time",
)
put(
    "excel-bom.csv",
    "\ufeff"
    + table(
        [(name(a), name(b), day(E0 + t * 86400)) for a, b, t in graph(47)], header="From,To,Date", end="\r\n"
    ),
    "source,target,time",
)
put(
    "memo-newlines.csv",
    table(
        [
            (name(a), name(b), day(E0 + t * 86400), '"thanks,\nsee you"' if t % 3 else '"ok ""then"""')
            for a, b, t in graph(48)
        ],
        header="sender,receiver,date,memo",
    ),
    "source,target,time,_",
)
put(
    "described.txt",
    "# source target weight time\n"
    + table([(a, b, h.randrange(1, 5), i // 3) for i, (a, b, _) in enumerate(graph(49))], " "),
    "source,target,weight,time",
)
put(
    "german.csv",
    table(
        [
            (name(a), name(b), f"{h.randrange(100)},{h.randrange(100):02}", day(E0 + t * 86400, "%d.%m.%Y"))
            for a, b, t in graph(50)
        ],
        ";",
        header="von;nach;betrag;datum",
    ),
    "source,target,weight,time",
)
put(
    "german-told.csv",
    (HERE / "german.csv").read_bytes(),
    "source,target,weight,time",
    "--columns source,target,weight,time --decimal comma --dates dmy",
)
put(
    "american.csv",
    table(
        [(name(a), name(b), day(E0 + t * 86400, "%m/%d/%Y")) for a, b, t in graph(51)], header="from,to,date"
    ),
    "source,target,time",
)
put("american-told.csv", (HERE / "american.csv").read_bytes(), "source,target,time", "--dates mdy")
put(
    "months.csv",
    table([(name(a), name(b), day(E0 + t * 86400, "%Y-%m")) for a, b, t in graph(52)], header="a,b,month"),
    "source,target,time",
)
put(
    "date-and-clock.csv",
    table(
        [(a, b, day(E0 + t * 600), day(E0 + t * 600, "%H:%M:%S")) for a, b, t in graph(53)],
        header="source,target,date,clock",
    ),
    "source,target,time,_",
)
put(
    "mail-dates.tsv",
    table(
        [(day(E0 + t * 600, "%a, %d %b %Y %H:%M:%S -0700"), name(a), name(b)) for a, b, t in graph(54)],
        "\t",
        header="Date\tFrom\tTo",
    ),
    "time,source,target",
)

# Broken, or not a table at all
rows = [list(map(str, row)) for row in graph(55, start=E0)]
rows[70][2] = "NA"
put("missing-time.csv", table(rows, header="source,target,time"), "source,target,time")
half = table(graph(56, start=E0), header="source,target,time")
put("joined-twice.csv", half + half, "source,target,time")
put("ragged.csv", table(graph(57, start=E0), header="source,target,time") + "7,9\n", "source,target,time")
put(
    "lines.json",
    "\n".join(f'{{"src": {a}, "dst": {b}, "ts": {t}}}' for a, b, t in graph(58, start=E0)) + "\n",
    "",
)
put("sheet.xlsx", b"", "")
packed = io.BytesIO()
with zipfile.ZipFile(packed, "w") as archive:
    archive.writestr(zipfile.ZipInfo("xl/workbook.xml"), "<workbook/>")
    archive.writestr(zipfile.ZipInfo("xl/worksheets/sheet1.xml"), "<worksheet/>")
(HERE / "sheet.xlsx").write_bytes(packed.getvalue())
put("columns.parquet", b"PAR1" + bytes(40) + b"PAR1", "")
put("download.csv", "<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n", "")
put(
    "utf16.csv",
    "\ufeff" + table(graph(59, start=E0), header="source,target,time"),
    "source,target,time",
    encoding="utf-16-le",
)
put("squeezed.csv.gz", gzip.compress(table(graph(60, start=E0)).encode(), mtime=0), "source,target,time")

(HERE / "truth.tsv").write_text("".join("\t".join(row) + "\n" for row in truth))
