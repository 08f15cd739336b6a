#!/bin/sh
# Studies that need runs of their own, one command each. Usage:
#   train/compare/studies.sh STUDY FOLDER [flags of headcount compare, which replace the study's own]
#   shazeer      table 1 of Shazeer 2019: fewer KV heads, windows, and few whole heads at equal bytes
#   staircase    from GQA to MLA at equal bytes, one setting a step
#   queries      KV heads by query heads: whether their number counts, or their ratio
#   recall_bytes steps to learn at the best of three rates: widths, latents, windows, states
#   bits_text    caches of fewer bits, fewer heads or narrower ones, on a text
#   bits_recall  the same in recall
#   keys_text    whether a key that query heads share suffers more from few bits, on a text
#   keys_recall  the same in recall
#   keys_lookup  the same on lookups; each of the three also with --bias
#   states       recall by states of 1,024 numbers a layer and a window of as many, with flags
#                --pairs N --line-length M --context M, M = 4 N
#   states_lookup  the same states on lookups, beside caches of 1,024 numbers, with --directions D
#   states_text  the same on a text
#   lookup       query heads by KV heads at equal bytes: QUESTION.md beside this
#   headers      KV heads on 26 MB of C and C++ headers of Debian 12's packages, put into FOLDER
#   dictionary   the same on 40 MB of English, Debian's package dict-gcide, put into FOLDER; planned
#                before its runs: mqa against mha after all steps, with mha@32 as control
# shazeer, staircase, queries, bits_text, keys_text and states_text need --data TEXT, such as Tiny
# Shakespeare. A second call continues the first.
set -eu
[ $# -ge 2 ] || { sed -n '2,22s/^# //p' "$0" >&2; exit 2; }
study=$1 folder=$2
shift 2
small="--preset shakespeare --layers 2 --dim 64 --context 64 --batch 16 --steps 1000
  --match params --seeds 5 --eval-every 250 --control mhax2"
parts=k=bf16+v=int2,k=int2+v=bf16,k=int4+v=int2,k=int2+v=int4,latent=bf16+rope=int2
parts=$parts,latent=int2+rope=bf16,latent=int4+rope=bf16,latent=int2+rope=int4
rounded="--cache-dtype f32,bf16,int8,int4,int3,int2,$parts --cache-rotate off,on --seeds 5"
keys="--cache-dtype f32,k=int4,k=int3,k=int2,v=int4,v=int3,v=int2 --cache-rotate off,on --seeds 5
  --heads 8 --attention mhax16,gqa2x16,mqax16,mhax16:heads=1"
states=mha,mha@8,ssd:head-dim=16:state-dim=16,lightning,delta,kda
case $study in
  shazeer) flags="$small
    --attention mha,mqa,mha@16,mqa@16,mhax16:heads=1,mhax8:heads=2,mhax4" ;;
  staircase) flags="$small --attention mha,gqa2,gqa2:qk-norm=on,mqax32,mqax32:rope-dim=8,\
mla56+8:latent-norm=off,mla56+8,mla56+8:qk-norm=on,mla56+8:q-rank=32" ;;
  queries) flags="$small --reference gqa4x8:heads=8
    --attention gqa4x8:heads=8,gqa2x8:heads=8,mqax8:heads=8,gqa4x8:heads=4,gqa2x8:heads=4,\
mqax8:heads=4,gqa4x8:heads=16,gqa2x8:heads=16,mqax8:heads=16" ;;
  recall_bytes) flags="--data recall --symbols 512 --pairs 8 --line-length 32 --batch 16 --steps 2000
    --eval-every 20 --seeds 5 --sweep lr=1e-3,2e-3,4e-3 --reference mha --control mha@8
    --attention mha,gqa2,mqa,mhax4,mla32+0,v4,mha@16,delta,delta/mha" ;;
  bits_text) flags="$rounded --preset shakespeare --cache-characters 32k
    --attention mha,gqa2,mqa,mla48+16,v4" ;;
  bits_recall) flags="$rounded --data recall --symbols 512 --pairs 16 --line-length 64 --context 64
    --batch 16 --layers 2 --dim 64 --heads 4 --canon A --lr 3e-3 --steps 4000 --warmup 100
    --min-lr 1e-4 --decay cosine --eval-every 500 --eval-characters 8192 --stop-at-answers 0
    --metric answers --attention mha,gqa2,mqa,mla24+8,v4" ;;
  keys_text) flags="$keys --preset shakespeare --layers 2 --dim 64 --context 64 --batch 16
    --steps 1000 --eval-every 0 --match params --cache-characters 32k" ;;
  keys_recall) flags="$keys --data recall --symbols 512 --pairs 8 --line-length 32 --batch 16
    --lr 4e-3 --steps 1200 --eval-every 200 --eval-characters 8192 --stop-at-answers 0
    --metric answers" ;;
  keys_lookup) flags="$keys --data lookup --qk-norm on --steps 1500 --eval-every 300
    --eval-characters 8192 --stop-at-answers 0 --metric answers" ;;
  states) flags="--data recall --symbols 128 --batch 16 --steps 2000 --eval-every 500
    --eval-characters 8192 --stop-at-answers 0 --metric answers --seeds 5
    --sweep lr=1e-3,2e-3 --control mha@8 --attention $states" ;;
  states_lookup) flags="--data lookup --heads 4 --steps 3000 --seeds 5 --sweep lr=1e-3,2e-3
    --reference gqa4x8
    --attention gqa4x8,mqax32,ssd:head-dim=16:state-dim=16,lightningx16,deltax16,kdax16" ;;
  states_text) flags="$small --sweep lr=1e-2,2e-2 --attention $states" ;;
  lookup) exec node "${0%/*}/lookup_study.mjs" "$folder" ;;
  headers | dictionary)
    # Pieces in the order of the hashes of their names: any part of the text is like the others.
    shuffled() {
      while read -r piece; do echo "$(printf %s "$piece" | sha256sum | cut -c 1-64) $piece"; done |
        sort | cut -d ' ' -f 2 | xargs cat
    }
    text=$folder/$study.txt
    mkdir -p "$folder"
    if [ ! -s "$text" ] && [ "$study" = headers ]; then
      dpkg -L libstdc++-12-dev libeigen3-dev linux-libc-dev | grep '^/usr/include/' |
        while read -r file; do [ ! -f "$file" ] || echo "$file"; done | shuffled >"$text"
    elif [ ! -s "$text" ]; then
      (cd "$folder" && zcat /usr/share/dictd/gcide.dict.dz | LC_ALL=C tr -cd '\t\n -~' |
        split -a 4 -d -l 1000 - piece. && ls | grep '^piece' | shuffled >dictionary.txt
      rm -f piece.*)
    fi
    flags="--preset shakespeare --data $text --match params --precision bf16 --steps 2000
      --eval-every 250 --eval-characters 512k --seeds 5 --control mha@32
      --attention mha,gqa2,mqa,mla48+16,mhax8,gqa2:tie-kv=on,delta" ;;
  *) echo "$0: there is no study '$study'" >&2; exit 2 ;;
esac
given=" $* "
set -- compare --out "$folder" "$@"
for word in $flags; do
  case $word in
    --*) flag=$word ;;
    *) case $given in *" $flag "*) ;; *) set -- "$@" "$flag" "$word" ;; esac ;;
  esac
done
exec "${HEADCOUNT:-headcount}" "$@"
