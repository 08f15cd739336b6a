#!/bin/sh
# Which bits of a KV cache may one save before heads, and before width? Trains attentions on recall
# and on a text such as Tiny Shakespeare, and evaluates each run through caches of fewer bits.
# Usage: train/compare/bits.sh FOLDER TEXT [flags of headcount compare]
# Writes FOLDER/recall and FOLDER/text. A second call continues the first one.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 FOLDER TEXT [flags of headcount compare]" >&2; exit 2; }
folder=$1 text=$2
shift 2
headcount=${HEADCOUNT:-headcount}
types=f32,bf16,int8,int4,int3,int2
apart=k=bf16+v=int2,k=int2+v=bf16,k=int4+v=int2,k=int2+v=int4
apart=$apart,latent=bf16+rope=int2,latent=int2+rope=bf16,latent=int4+rope=bf16,latent=int2+rope=int4
# compare FOLDER "FLAG VALUE ..." flags: of the settings, leaves out those that the flags give.
compare() {
  out=$1 settings=$2
  shift 2
  given=" $* "
  set -- compare --cache-dtype "$types,$apart" --cache-rotate off,on --out "$out" "$@"
  for word in $settings; do
    case $word in
      --*) flag=$word ;;
      *) case $given in *" $flag "*) ;; *) set -- "$@" "$flag" "$word" ;; esac ;;
    esac
  done
  "$headcount" "$@"
}
compare "$folder/recall" "--data recall --symbols 512 --pairs 16 --line-length 64 --context 64
  --batch 16 --layers 2 --dim 64 --heads 4 --canon A --lr 3e-3 --steps 4000 --warmup 100
  --min-lr 1e-4 --decay cosine --eval-every 500 --eval-characters 8192 --stop-at-answers 0
  --attention mha,gqa2,mqa,mla24+8,v4 --metric answers --seeds 5" "$@"
compare "$folder/text" "--preset shakespeare --seeds 5 --cache-characters 32k
  --attention mha,gqa2,mqa,mla48+16,v4" --data "$text" "$@"
