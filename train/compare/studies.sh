#!/bin/sh
# Studies that need runs of their own, one command each. Usage:
#   train/compare/studies.sh STUDY FOLDER [flags of headcount compare]
#   shazeer    table 1 of Shazeer 2019: fewer KV heads, windows, and few whole heads at equal bytes
#   staircase  from GQA to MLA at equal bytes, one setting a step
#   queries    KV heads by query heads: whether their number counts, or their ratio
#   recall     steps to learn at the best of three rates: widths, latents, windows, states
# All but recall need --data TEXT, such as Tiny Shakespeare. A second call continues the first.
set -eu
[ $# -ge 2 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
study=$1 folder=$2
shift 2
on_text="--preset shakespeare --layers 2 --dim 64 --context 64 --batch 16 --steps 1000
  --match params --seeds 5 --eval-every 250 --control mhax2"
case $study in
  shazeer) flags="$on_text
    --attention mha,mqa,mha@16,mqa@16,mhax16:heads=1,mhax8:heads=2,mhax4" ;;
  staircase) flags="$on_text --attention mha,gqa2,gqa2:qk-norm=on,mqax32,mqax32:rope-dim=8,\
mla56+8:latent-norm=off,mla56+8,mla56+8:qk-norm=on,mla56+8:q-rank=32" ;;
  queries) flags="$on_text --reference gqa4x8:heads=8
    --attention gqa4x8:heads=8,gqa2x8:heads=8,mqax8:heads=8,gqa4x8:heads=4,gqa2x8:heads=4,\
mqax8:heads=4,gqa4x8:heads=16,gqa2x8:heads=16,mqax8:heads=16" ;;
  recall) flags="--data recall --symbols 512 --pairs 8 --line-length 32 --batch 16 --steps 2000
    --eval-every 20 --seeds 5 --sweep lr=1e-3,2e-3,4e-3 --reference mha --control mha@8
    --attention mha,gqa2,mqa,mhax4,mla32+0,v4,mha@16,delta,delta/mha" ;;
  *) echo "$0: there is no study '$study'" >&2; exit 2 ;;
esac
exec "${HEADCOUNT:-headcount}" compare --out "$folder" $flags "$@"
