#pragma once

#include "nn/attention/kind.h"

/// The attentions of this folder, for the registry.
namespace headcount {

extern const AttentionKind kMha, kMqa, kGqa, kMfa;  // grouped.cpp
extern const AttentionKind kGta;                    // gta.cpp
extern const AttentionKind kMla;                    // mla.cpp
extern const AttentionKind kTpa;                    // tpa.cpp
extern const AttentionKind kLatentBias;             // latent_bias.cpp

}  // namespace headcount
