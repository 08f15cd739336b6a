#!/bin/sh
# Studies that need runs of their own, one command each. Usage:
#   train/compare/studies.sh STUDY FOLDER TEXT [flags of headcount compare]
#   shazeer    table 1 of Shazeer 2019: fewer KV heads, windows, and few whole heads at equal bytes
#   staircase  from GQA to MLA at equal bytes, one setting a step
#   queries    KV heads by query heads: whether their number counts, or their ratio
#   recall     steps to learn at the best of three rates: widths, latents, windows, states
# TEXT is a file such as Tiny Shakespeare; recall makes its own. A second call continues the first.
set -eu
[ $# -ge 3 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
study=$1 folder=$2 text=$3
shift 3
on_text="--preset shakespeare --match params --seeds 5 --eval-every 250 --reference mha
  --control mha@4,mhax2"
case $study in
  shazeer) flags="$on_text
    --attention mha,mqa,mha@32,mqa@32,mhax32:heads=1,mhax16:heads=2,mhax8" ;;
  staircase) flags="$on_text
    --attention mha,gqa2,gqa2:qk-norm=on,mqax64,mqax128:tie-kv=on,mqax128:tie-kv=on:rope-dim=16,\
mla112+16:latent-norm=off,mla112+16,mla112+16:qk-norm=on,mla112+16:q-rank=64" ;;
  queries) flags="$on_text
    --attention mha,gqa4x32:heads=8,gqa4x32:heads=16,gqa2,gqa2x32:heads=8,gqa2x32:heads=16,mqa,\
mqax32:heads=8,mqax32:heads=16" ;;
  recall) text=recall flags="--symbols 512 --pairs 8 --line-length 32 --steps 4000 --seeds 5
    --sweep lr=5e-4,1.5e-3,4.5e-3 --reference mha --control mha@8
    --attention mha,gqa2,mqa,mhax4,mla32+0,v4,mha@16,delta,delta/mha" ;;
  *) echo "$0: there is no study '$study'" >&2; exit 2 ;;
esac
exec "${HEADCOUNT:-headcount}" compare --data "$text" --out "$folder" $flags "$@"
