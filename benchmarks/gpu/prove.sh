#!/bin/bash
# On a GPU machine, from the root of the checkout: real SGLang servers, diagnosed and confirmed.
#
#   SITE=folder with sglang  MODEL=folder of a model  OUT=folder for results  bash benchmarks/gpu/prove.sh STEP...
#
# Steps: triton (slow attention backend, long context, the fix stays), short (the same at a short prompt), nograph (CUDA
# graphs off), null (a change that does nothing), host (look at this machine while it works), fails (a fix that cannot
# start). Each leaves its answers in $OUT, one JSON line a step in $OUT/steps.jsonl. docs/proof.md says what came of it.
set -u
: "${SITE:?}" "${MODEL:?}" "${OUT:?}"
PORT=${PORT:-30000}
URL=http://127.0.0.1:$PORT
export PYTHONPATH=$PWD:$SITE${DEPS:+:$DEPS} HF_HUB_OFFLINE=1 SGLANG_ENABLE_JIT_DEEPGEMM=0 SGLANG_DISABLE_CUDNN_CHECK=1
export DIAGNOSER_STATE=$OUT/state DIAGNOSER_CACHE=/tmp/diagnoser-cache DIAGNOSER_AUDIT=$OUT/audit.jsonl
COMMON="--model-path $MODEL --load-format dummy --served-model-name tiny --host 127.0.0.1 --port $PORT --sampling-backend pytorch
 --grammar-backend none --mem-fraction-static 0.6 --max-running-requests 64 --cuda-graph-max-bs 16 --enable-metrics"
mkdir -p "$OUT"
diagnose() { python3 -m diagnoser "$@"; }

up() { # up NAME FLAGS...: start a server and wait until it is ready; its process in $P
  local name=$1; shift
  # shellcheck disable=SC2086
  setsid python3 -m sglang.launch_server $COMMON "$@" > "$OUT/$name.log" 2>&1 &
  P=$!
  for _ in $(seq 300); do
    kill -0 $P 2>/dev/null || return 1
    [ "$(curl -s -m 2 -o /dev/null -w '%{http_code}' $URL/health)" = 200 ] && return 0
    sleep 1
  done
  return 1
}

down() { # whatever serves the port
  pkill -TERM -f sglang.launch_server; sleep 4; pkill -9 -f 'sglang' 2>/dev/null; sleep 1
}

step() { # step NAME CODE SECONDS
  printf '{"step": "%s", "exit_code": %s, "seconds": %s}\n' "$1" "$2" "$3" >> "$OUT/steps.jsonl"
}

confirm() { # confirm NAME ARGUMENTS...
  local name=$1 begin; shift
  begin=$(date +%s)
  diagnose confirm --url $URL --apply --yes --host "$(hostname)" "$@" > "$OUT/$name.confirm.txt" 2> "$OUT/$name.confirm.err"
  step "$name" $? $(($(date +%s) - begin))
  tail -n 12 "$OUT/$name.confirm.txt"
}

for one in "$@"; do
  case $one in
    triton)
      up triton --attention-backend triton || { step triton-start 1 0; continue; }
      nvidia-smi > "$OUT/smi.txt"
      diagnose -f json "$OUT/triton.log" "$OUT/smi.txt" > "$OUT/triton.json"
      confirm triton "$OUT/triton.log" --pid $P --keep-fix ;;
    short)
      up short --attention-backend triton || continue
      confirm short --pid $P --unset-flag --attention-backend --prompt-tokens 39 --output-tokens 256 ;;
    nograph)
      up nograph --disable-cuda-graph || continue
      diagnose -f json "$OUT/nograph.log" > "$OUT/nograph.json"
      confirm nograph --pid $P --unset-flag --disable-cuda-graph ;;
    null)
      up null || continue
      confirm null --pid $P --set-flag --log-level=warning ;;
    fails)
      up fails || continue
      confirm fails --pid $P --set-flag --attention-backend=cutlass_mla ;;
    host)
      up host || continue
      diagnose bench $URL --concurrency 16 --requests 64 --output-tokens 512 --runs 2 --save "$OUT/bench.json" > "$OUT/bench.txt" 2>&1 &
      sleep 15
      diagnose --host local -f json > "$OUT/host.json" 2> "$OUT/host.err"; step host $? 0
      wait $! ;;
  esac
  down
done
cat "$OUT/steps.jsonl"
