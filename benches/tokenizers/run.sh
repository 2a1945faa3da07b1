#!/bin/sh
# Times the tokenizers crate with Oniguruma (embedctl's engine for regular expressions) and with fancy-regex, in turn.
#
# usage: run.sh [SECONDS] [ROUNDS] >> RESULTS.md
#
# The two programs are built in target/tokenizers-speed. Needs Python 3 for the texts: short English lines, code
# (Python's standard library) and lines of Chinese, Japanese and Korean. The tokenizers are WordPiece (the repository's
# model) and byte-level BPE with the expressions of GPT-2, of cl100k and of Qwen.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work="$root/target/tokenizers-speed"
seconds=${1:-2}
rounds=${2:-3}
mkdir -p "$work"
for engine in onig fancy-regex; do
    cargo build -q --release --manifest-path "$here/Cargo.toml" --target-dir "$work/$engine" --features "$engine"
done
python3 "$here/inputs.py" "$root" "$work"

# Least to most of the rounds.
spread() { sort -n | awk 'NR == 1 { least = $1 } { most = $1 } END { print least " to " most }'; }

echo "| tokenizer | texts | onig, MB/s | fancy-regex, MB/s | same number of tokens |"
echo "|---|---|---|---|---|"
for tokenizer in "$work"/tokenizer-*.json; do
    for texts in "$work"/texts-*.txt; do
        rm -f "$work"/rates-*
        for _ in $(seq "$rounds"); do
            for engine in onig fancy-regex; do
                "$work/$engine/release/tokenizers-speed" "$tokenizer" "$texts" "$seconds" >> "$work/rates-$engine"
            done
        done
        name=$(basename "$tokenizer" .json)
        kind=$(basename "$texts" .txt)
        counts=$(cut -d' ' -f2 "$work/rates-onig" "$work/rates-fancy-regex" | sort -u | wc -l)
        same=$([ "$counts" -eq 1 ] && echo yes || echo no)
        echo "| ${name#tokenizer-} | ${kind#texts-} | $(cut -d' ' -f1 "$work/rates-onig" | spread) | $(cut -d' ' -f1 "$work/rates-fancy-regex" | spread) | $same |"
    done
done
