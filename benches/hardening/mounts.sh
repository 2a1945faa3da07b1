#!/bin/sh
# Files that cannot be replaced for real: a bind mount and an immutable file, in place of each file of an output.
# A run with --force must fail, leave the old output as it was, byte for byte, and keep the new one whole under the
# name that its message gives. Needs root, on Linux; everything happens in a mount namespace and a folder of its own.
#
#   benches/hardening/mounts.sh EMBEDCTL [MODEL]
set -eu
binary=$(realpath "$1")
model=$(realpath "${2:-$(dirname "$0")/../../fixtures/parity/static-normalized/model}")
if [ "${INSIDE:-}" != 1 ]; then
    exec unshare --mount env INSIDE=1 sh "$0" "$binary" "$model"
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'a b\nc d\n' > old.txt
printf 'x y\nz w\nq r\n' > new.txt
embed() { "$binary" embed "$@" --model "$model" --provider native; }
cases=0

try() {
    format=$1 held=$2 how=$3
    rm -rf old out
    mkdir old out
    embed old.txt --output "out/v.$format" --quiet
    cp -r out/. old
    case $how in
    mount) cp "out/$held" mounted && mount --bind mounted "out/$held" ;;
    immutable) chattr +i "out/$held" ;;
    esac
    code=0
    embed new.txt --output "out/v.$format" --force --log-format json 2> said || code=$?
    case $how in
    mount) umount "out/$held" ;;
    immutable) chattr -i "out/$held" ;;
    esac
    fail() {
        echo "$format, $held, $how: $1" >&2
        cat said >&2
        exit 1
    }
    [ $code = 1 ] || fail "exit code $code"
    for file in old/*; do
        cmp -s "$file" "out/${file#old/}" || fail "$file has changed"
    done
    kept=$(sed -n 's/.*and stays as \([^:"]*\).*/\1/p' said)
    [ -n "$kept" ] || fail "the message names no file"
    embed new.txt --output "again.$format" --quiet --force
    cmp -s "again.$format" "$kept" || [ "$format" = parquet ] || fail "$kept is not the new output"
    "$binary" inspect "$kept" > /dev/null || fail "$kept cannot be read back"
    cases=$((cases + 1))
}

for how in mount immutable; do
    for held in v.npy v.npy.json v.npy.rows.jsonl; do try npy "$held" $how; done
    for held in v.jsonl v.jsonl.json; do try jsonl "$held" $how; done
    try parquet v.parquet $how
done
echo "$cases cases: the old output untouched, the new one kept"
