#!/usr/bin/env bash
# Measures `embedctl serve` beside sentence-transformers behind FastAPI and beside infinity: requests with one short text
# each, from 1, 8 and 64 clients, in turn, on this machine. Needs `hey` (package of that name) and, for the other servers,
# a Python with sentence-transformers, fastapi and uvicorn in $PEERS, and the program of infinity-emb[torch,server] in
# $INFINITY. Prints a table; RESULTS.md keeps one.
#
#   PEERS=venv/bin/python INFINITY=other/bin/infinity_emb benches/serve/run.sh [SECONDS] [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-10} rounds=${2:-3}
program=${EMBEDCTL:-target/debug/embedctl}
model=${MODEL:-fixtures/models/all-MiniLM-L6-v2}
port=${PORT:-18080}
text='The quick brown fox jumps over the lazy dog near the river bank.'
work=$(mktemp -d)
server=

stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
    server=
}
trap 'stop; rm -rf "$work"' EXIT

start() {
    case $1 in
        embedctl-*)
            "$program" serve -m "$model" -p native --precision "${1#embedctl-}" --listen "127.0.0.1:$port" 2> "$work/log" &
            ;;
        sentence-transformers)
            MODEL=$model "$PEERS" -m uvicorn --app-dir benches/serve peer:app --port "$port" --log-level error 2> "$work/log" &
            ;;
        infinity)
            INFINITY_ANONYMOUS_USAGE_STATS=0 HF_HUB_OFFLINE=1 "$INFINITY" v2 --model-id "$model" --served-model-name model \
                --engine torch --device cpu --dtype float32 --port "$port" --log-level error > "$work/log" 2>&1 &
            ;;
    esac
    server=$!
    # Infinity speaks OpenAI's protocol alone.
    case $1 in
        infinity) url=http://127.0.0.1:$port/embeddings body="{\"model\": \"model\", \"input\": \"$text\"}" ;;
        *) url=http://127.0.0.1:$port/embed body="{\"inputs\": \"$text\"}" ;;
    esac
    until curl -fs "http://127.0.0.1:$port/health" > /dev/null; do
        kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
        sleep 0.2
    done
}

measure() {
    hey -z "${seconds}s" -c "$2" -m POST -T application/json -d "$body" "$url" > "$work/hey"
    if grep -E '^ +\[[0-9]+\]' "$work/hey" | grep -qv '\[200\]'; then
        cat "$work/hey" >&2
        exit 1
    fi
    awk -v name="$1" -v clients="$2" '
        /Requests\/sec/ { rate = $2 }
        /50% in/ { p50 = $3 * 1000 }
        /95% in/ { p95 = $3 * 1000 }
        /99% in/ { p99 = $3 * 1000 }
        END { printf "| %s | %d | %.0f | %.1f | %.1f | %.1f |\n", name, clients, rate, p50, p95, p99 }' "$work/hey"
}

servers=(embedctl-fp32 embedctl-int8)
[ -z "${PEERS:-}" ] || servers+=(sentence-transformers)
[ -z "${INFINITY:-}" ] || servers+=(infinity)
echo "| server | clients | requests/s | p50 ms | p95 ms | p99 ms |"
echo "|---|--:|--:|--:|--:|--:|"
for ((round = 0; round < rounds; round++)); do
    for name in "${servers[@]}"; do
        start "$name"
        hey -n 200 -c 8 -m POST -T application/json -d "$body" "$url" > /dev/null
        for clients in 1 8 64; do
            measure "$name" "$clients"
        done
        stop
    done
done
# Such texts by the batch job, for comparison.
seq 5000 | sed 's/.*/The quick brown fox jumps over the lazy dog near the river bank. &/' > "$work/texts.txt"
for precision in fp32 int8; do
    "$program" embed "$work/texts.txt" -m "$model" -p native --precision "$precision" -o "$work/out.npy" --force --stats "$work/stats.json" -q
    printf 'embed, %s: ' "$precision"
    python3 -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["rows_per_second"]), "rows/s")' "$work/stats.json"
done
