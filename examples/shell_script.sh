#!/bin/sh
# This script tunes itself: with arguments it runs one trial, without arguments it runs the study.
#
# A log is stored in compressed blocks. Large blocks take less disk space, but to read one line, a
# reader must unpack a whole block. Which block size and compression level are best?
set -e

if [ $# -gt 0 ]; then # one trial: $1 is the level, $2 the number of lines in a block
    folder=$(mktemp -d)
    trap 'rm -r "$folder"' EXIT
    split -a 4 -l "$2" "$FARTHING_EXAMPLE/log" "$folder/block."
    gzip "-$1" "$folder"/block.*
    kept=$(cat "$folder"/block.* | wc -c)
    unpacked=$(head -n "$2" "$FARTHING_EXAMPLE/log" | wc -c)
    echo "{\"value\": $((kept + 4 * unpacked)), \"kept\": $kept}" # the last JSON line with a value counts
    exit
fi

FARTHING_EXAMPLE=$(mktemp -d)
export FARTHING_EXAMPLE
trap 'rm -r "$FARTHING_EXAMPLE"' EXIT
awk 'BEGIN { srand(1); for (i = 0; i < 6000; i++) print i, "GET /item/" int(rand() * 500), int(rand() * 9e6) }' \
    > "$FARTHING_EXAMPLE/log"
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$FARTHING_EXAMPLE"
farthing run --budget 4s --param level=int:1:9 --param lines=int:20:2000:log -- sh "$script" {level} {lines}
farthing best
farthing explain 0 # why this trial was chosen, its expected cost and its actual cost
