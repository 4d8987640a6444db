#!/usr/bin/env bash
# Suites and the study of defaults on a machine with many cores, each with a time limit of its own.
#
#     bench/many.sh KYMO DATA OUTPUT [JOBS [PART=MINUTES...]]
#
# KYMO is the release binary and DATA the folder of the data sets. A PART is a suite, or study-KIND (a kind in
# bench/study.toml). OUTPUT gets the results, and finished.jsonl, which remembers every run: the same command
# with the same OUTPUT goes on where it stopped. What is not finished in its time does not keep the others
# from being written. Ends with 1 if a part failed or was not finished.
set -uo pipefail

if [ $# -lt 3 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
kymo=$(realpath "$1") data=$(realpath "$2") output=$(realpath -m "$3") jobs=${4:-$(nproc)}
cd "$(dirname "$0")/.."
shift $(($# < 4 ? $# : 4))
if [ $# -eq 0 ]; then
    set -- defaults=8 classes=2 regression=5 evolvegcn=10 study-classes=10 study-regression=10 study-links=25
fi
mkdir -p "$output"
{
    incomplete=0
    for part in "$@"; do
        name=${part%%=*} minutes=${part#*=}
        common=(--data "$data" --output "$output" --binary "$kymo" --finished "$output/finished.jsonl"
            --jobs "$jobs" --minutes "$minutes")
        echo "== $name, at most $minutes minutes"
        case $name in
            study-*) python3 -B bench/study.py "${name#study-}" "${common[@]}" ;;
            *) python3 -B bench/run.py "$name" "${common[@]}" ;;
        esac || incomplete=1
    done
    exit $incomplete
} 2>&1 | tee -a "$output/log.txt"
exit "${PIPESTATUS[0]}"
