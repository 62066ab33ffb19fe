#!/bin/sh
# A shell script is tuned, and this is it: with arguments it is one trial, without it is the study.
#
# A log is kept in compressed blocks. Large blocks take less room, but whoever looks for a line has to
# unpack a whole one: how large a block, and how hard to compress, if a second of work is worth something?
set -e

if [ $# -gt 0 ]; then # one trial: $1 is the level, $2 the lines of a block
    folder=$(mktemp -d)
    trap 'rm -r "$folder"' EXIT
    split -a 4 -l "$2" "$FARTHING_EXAMPLE/log" "$folder/block."
    gzip "-$1" "$folder"/block.*
    kept=$(cat "$folder"/block.* | wc -c)
    unpacked=$(head -n "$2" "$FARTHING_EXAMPLE/log" | wc -c)
    echo "{\"value\": $((kept + 4 * unpacked)), \"kept\": $kept}" # the last line that is JSON with a value
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
farthing explain 0 # why this one was tried, what it was expected to cost, what it did cost
