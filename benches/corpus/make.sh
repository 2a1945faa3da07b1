#!/bin/sh
# Builds the texts that the speed table is measured on. README.md says what they are.
#
#   benches/corpus/make.sh [FOLDER]      default: target/corpus
#
# The sources are two Debian packages, downloaded with apt-get and unpacked into a temporary
# folder; nothing is installed. To use packages that are already here: DEBS=FOLDER_WITH_DEBS.
# PYTHON names the interpreter (3.11 or newer; only its standard library is needed, and token
# counts are printed if it also has the package `tokenizers`).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
out=${1:-$root/target/corpus}
python=${PYTHON:-python3}
tokenizer=${TOKENIZER:-$root/fixtures/models/all-MiniLM-L6-v2/tokenizer.json}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

if [ -n "${DEBS:-}" ]; then
    cp "$DEBS"/wordnet-base_*.deb "$DEBS"/libpython3.11-stdlib_*.deb "$tmp"
else
    if ! command -v apt-get >/dev/null; then
        echo "make.sh: no apt-get here: fetch wordnet-base and libpython3.11-stdlib from a Debian" \
            "mirror (bookworm, pool/main) and name their folder: DEBS=FOLDER $0" >&2
        exit 1
    fi
    # apt-get download writes into the current folder and needs no root.
    (cd "$tmp" && apt-get -qq download wordnet-base libpython3.11-stdlib)
fi

mkdir "$tmp/x"
for deb in "$tmp"/*.deb; do
    if command -v dpkg-deb >/dev/null; then
        dpkg-deb -x "$deb" "$tmp/x"
    else # a .deb is an ar archive around a tar archive
        ar p "$deb" data.tar.xz | tar -xJ -C "$tmp/x"
    fi
done

mkdir -p "$out"
"$python" "$here/corpus.py" "$tmp/x/usr/share/wordnet" "$tmp/x/usr/lib/python3.11" "$out"
"$python" "$here/count.py" "$tokenizer" "$out"/short.txt "$out"/medium.txt "$out"/long.jsonl \
    "$out"/short-100k.txt "$out"/short-1m.txt
