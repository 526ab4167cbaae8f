#!/bin/bash
# On a GPU machine, from the root of the checkout: real SGLang servers, diagnosed and confirmed.
#
#   SITE=folder with sglang  MODEL=folder of a model  OUT=folder for results  bash benchmarks/gpu/prove.sh STEP...
#
# Steps
#   triton   slow attention backend at a long context: diagnosed, confirmed, the fix stays
#   short    the same at a short prompt, which does not exercise it
#   nograph  CUDA graphs off: diagnosed, confirmed
#   null     a change that does nothing
#   fails    a fix that cannot start: diagnosed while waiting, rolled back
#   killed   kill -9 while the changed server starts: the watcher brings the original back
#   host     look at this machine while it works
#   client   our load generator and SGLang's on one server
#   noise    one configuration launched LAUNCHES times (10)
#   starts   logs of starts that fail, and of a KV cache that is too small, each with nvidia-smi
# Each leaves its answers in $OUT, one JSON line a step in $OUT/steps.jsonl. docs/proof.md says what came of it.
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

begins() { # begins NAME FLAGS...: a start that is expected to fail, with the state of the GPU beside it
  local name=$1; shift
  # shellcheck disable=SC2086
  timeout 120 python3 -m sglang.launch_server $COMMON "$@" > "$OUT/$name.log" 2>&1; step "$name" $? 0
  nvidia-smi > "$OUT/$name.smi.txt"
  diagnose -f json "$OUT/$name.log" "$OUT/$name.smi.txt" > "$OUT/$name.json"
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
    killed)
      up killed --attention-backend triton || continue
      state=$OUT/killed-state; mkdir -p "$state/experiments"
      DIAGNOSER_STATE=$state diagnose confirm "$OUT/killed.log" --url $URL --pid $P --apply --yes --host "$(hostname)" \
        > "$OUT/killed.confirm.txt" 2>&1 &
      until grep -qs '"starting"' "$state"/experiments/*.jsonl || ! kill -0 $! 2>/dev/null; do sleep 0.2; done
      sleep 5; pkill -9 -f 'diagnoser confirm .*killed.log --url'; begin=$(date +%s)
      until grep -qs '"restored"' "$state"/experiments/*.jsonl || [ $(($(date +%s) - begin)) -gt 200 ]; do sleep 1; done
      pgrep -af launch_server | head -n 1 > "$OUT/killed.running"
      grep -q -- '--attention-backend triton' "$OUT/killed.running"; step killed $? $(($(date +%s) - begin)) ;;
    host)
      up host || continue
      diagnose bench $URL --concurrency 16 --requests 64 --output-tokens 512 --runs 2 --save "$OUT/bench.json" > "$OUT/bench.txt" 2>&1 &
      sleep 15
      diagnose --host local -f json > "$OUT/host.json" 2> "$OUT/host.err"; step host $? 0
      wait $! ;;
    client)
      up client || continue
      for streams in 1 8; do
        for turn in $(seq "${TURNS:-2}"); do
          diagnose bench $URL -c $streams --requests $((4 * streams)) --runs 3 --prompt-tokens 512 --output-tokens 256 \
            --save "$OUT/client-ours-$streams-$turn.json" > "$OUT/client-ours-$streams-$turn.txt" 2>&1
          python3 -m sglang.bench_serving --backend sglang-oai --base-url $URL --model tiny --tokenizer "$MODEL" --dataset-name random-ids \
            --random-input-len 512 --random-output-len 256 --random-range-ratio 1 --num-prompts $((12 * streams)) \
            --max-concurrency $streams --output-file "$OUT/client-theirs-$streams-$turn.jsonl" > "$OUT/client-theirs-$streams-$turn.txt" 2>&1
          step "client-$streams-$turn" $? 0
        done
      done ;;
    noise)
      for number in $(seq "${LAUNCHES:-10}"); do
        up "noise$number" || continue
        diagnose bench $URL --prompt-tokens 128 --runs 5 --save "$OUT/noise-short-$number.json" > /dev/null 2>> "$OUT/noise.err"
        diagnose bench $URL --prompt-tokens 10000 --runs 3 --save "$OUT/noise-long-$number.json" > /dev/null 2>> "$OUT/noise.err"
        step "noise-$number" $? 0
        down
      done ;;
    starts)
      begins context --context-length 1000000
      begins memory --mem-fraction-static 0.999
      begins backend --attention-backend cutlass_mla
      up small --max-total-tokens 6000 --speculative-algorithm NGRAM --speculative-num-draft-tokens 8 --disable-overlap-schedule ||
        up small --max-total-tokens 6000
      diagnose bench $URL --concurrency 16 --requests 48 --output-tokens 1024 --runs 1 > "$OUT/small.txt" 2>&1
      nvidia-smi > "$OUT/small.smi.txt"
      begins port
      begins crowded --port 30001 --mem-fraction-static 0.8 ;;
  esac
  down
done
cat "$OUT/steps.jsonl"
