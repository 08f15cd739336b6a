// `headcount cost` as its users meet it: tables as JSON, CSV and text.
#include "train/cli/cost_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "models/cost.h"

namespace headcount::cost_tables {
namespace {

TEST_F(CostCommand, WithJsonPrintsOneObjectWithTheDocumentedKeys) {
  for (const auto& [flags, context] : {std::pair{kWidth256, 10}, {kWidth8192, 131072}}) {
    const json object = table(flags);
    std::set<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"cache_dtype", "context", "dtype_bytes", "layers",
                                           "rows", "state_dtype_bytes"}));
    EXPECT_EQ(object.at("context"), context);
    EXPECT_EQ(object.at("dtype_bytes"), 4);
    EXPECT_EQ(object.at("state_dtype_bytes"), 4);
    EXPECT_EQ(object.at("layers"), 4);
    row(object, "mha");
    for (const json& row : object.at("rows")) {
      for (const std::string& key : kRowKeys) {
        EXPECT_EQ(row.at(key).is_number_integer(), key != "attention") << key;
      }
    }
  }
}

TEST_F(CostCommand, PrintsTheArticlesTable) {
  const json object = table(kWidth256);
  for (const auto& [attention, parameters, macs] : {std::tuple{"mha", 263'168, 2'621'440},
                                                    {"mqa", 148'032, 1'474'560},
                                                    {"gqa", 197'376, 1'966'080},
                                                    {"mla", 111'082, 1'100'800}}) {
    const json found = row(object, attention);
    EXPECT_EQ(found.at("params_per_layer"), parameters) << attention;
    EXPECT_EQ(found.at("linear_macs_per_token_per_layer").get<int>() * 10, macs) << attention;
  }
}

TEST_F(CostCommand, PrintsTheBlogsTable) {
  constexpr std::int64_t kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;
  const json object = table(kWidth8192);
  for (const auto& [attention, parameters, cache, prefill, decode] :
       {std::tuple{"mha", 256 * kMega, 2 * kGiga, 256 * kTera, 2 * kGiga},
        {"mqa", 130 * kMega, 32 * kMega, 256 * kTera, 2 * kGiga},
        {"gqa", 144 * kMega, 256 * kMega, 256 * kTera, 2 * kGiga},
        {"mla-merged", 516 * kMega, 64 * kMega, 1024 * kTera, 8 * kGiga}}) {
    const json found = row(object, attention);
    EXPECT_EQ(found.at("params_per_layer"), parameters) << attention;
    EXPECT_EQ(found.at("cache_elements_per_layer"), cache) << attention;
    EXPECT_EQ(found.at("cache_elements_per_token_per_layer"), cache / 131'072) << attention;
    EXPECT_EQ(found.at("cache_bytes"), cache * 4 * 4) << attention;  // layers, bytes
    EXPECT_EQ(found.at("prefill_attention_macs_per_layer"), prefill) << attention;
    EXPECT_EQ(found.at("decode_attention_macs_per_layer"), decode) << attention;
  }
}

TEST_F(CostCommand, CountsLayersAndBytesOfTheCache) {
  const json object = table(kWidth256 + "--layers 7 --cache-dtype bf16");
  EXPECT_EQ(object.at("layers"), 7);
  EXPECT_EQ(object.at("dtype_bytes"), 2);
  EXPECT_EQ(row(object, "mha").at("cache_bytes"), 2 * 256 * 10 * 7 * 2);
  EXPECT_EQ(row(object, "mla").at("cache_bytes"), (64 + 26) * 10 * 7 * 2);
  const std::map<std::string, int> sizes = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"int8", 1}};
  for (const auto& [dtype, bytes] : sizes)
    EXPECT_EQ(table("--cache-dtype " + dtype).at("dtype_bytes"), bytes) << dtype;
}

// Delta keeps states alone, which no type of cache rounds.
TEST_F(CostCommand, SaysWhatOfACacheIsKeptInWhichType) {
  const json states = row(table(kWidth256 + "--layers 7"), "delta").at("cache_bytes");
  for (const auto& [dtype, said] :
       {std::pair{"f32", "4 bytes a number (f32), states 4 (f32)"},
        {"bf16", "2 bytes a number (bf16), states 4 (f32)"},
        {"f16", "2 bytes a number (f16), states 4 (f32)"},
        {"int8", "1 byte a number and 4 a row (int8), states 4 (f32)"}}) {
    const std::string flags = kWidth256 + "--layers 7 --cache-dtype " + dtype;
    EXPECT_NE(output(flags).find(std::string("cached rows of tokens take ") + said + ";"),
              std::string::npos)
        << output(flags);
    EXPECT_EQ(row(table(flags), "delta").at("cache_bytes"), states) << dtype;
    EXPECT_EQ(table(flags).at("state_dtype_bytes"), 4) << dtype;
  }
}

// Rows of 32 numbers, pooled over 8 tokens beside a window of 4; an open block has 7 tokens at most
// and keeps 2 x 32 numbers of each.
TEST_F(CostCommand, NamesTheFractionOfARowTheWindowAndTheOpenBlock) {
  const std::string flags =
      "--layers 2 --dim 64 --heads 4 --context 64 --window 4 --cache-dtype f16 --compress ";
  const json hca = row_with_window(flags + "8", "hca");
  EXPECT_EQ(hca.at("cache_elements_per_token_per_layer"), 32);
  EXPECT_EQ(hca.at("pooled_elements_per_token_per_layer"), 4);
  EXPECT_EQ(hca.at("window_elements_per_layer"), 4 * 32);
  EXPECT_EQ(hca.at("open_block_elements_per_layer"), 7 * 2 * 32);
  EXPECT_EQ(hca.at("cache_bytes"), 2 * (2 * (4 * 32 + 64 * 4) + 4 * 7 * 2 * 32));
  EXPECT_EQ(row_with_window(flags + "64", "hca").at("pooled_elements_per_token_per_layer"), 0.5);
  const std::string text = cost(flags + "8").out;
  for (const char* const part :
       {"note: hca: each layer of hca keeps 1/8 of a row of 32 numbers per token, in its window at "
        "most 128 numbers, and for an open block 448 numbers\n",
        "note: hca: a --window of 4 is shorter than an open block of 8 tokens"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Beside that, csa keeps index rows of 16 numbers; an open block has 2 x 2 x 48 numbers of each of
// 7 tokens at most, and 2 x 48 of each of the 8 of the block before.
TEST_F(CostCommand, CountsTheIndexRowsOfCsaAndTheBlockBeforeAnOpenOne) {
  const std::string flags =
      "--attention csa --layers 2 --dim 64 --heads 4 --context 64 --window 4 --compress 8 "
      "--index-head-dim 16 --cache-dtype f16 ";
  const json csa = row_with_window(flags, "csa");
  EXPECT_EQ(csa.at("cache_elements_per_token_per_layer"), 32);
  EXPECT_EQ(csa.at("pooled_elements_per_token_per_layer"), 6);
  EXPECT_EQ(csa.at("window_elements_per_layer"), 4 * 32);
  EXPECT_EQ(csa.at("open_block_elements_per_layer"), 48 * (7 * 4 + 8 * 2));
  const std::string text = cost(flags + "--index-topk 4 --index-loss 0").out;
  for (const char* const part :
       {"note: csa: each layer of csa keeps 1/8 of a row of 48 numbers per token, in its window at "
        "most 128 numbers, and for an open block 2112 numbers\n",
        "note: csa: --index-loss is 0: nothing trains the indexer of csa",
        "note: csa: a --window of 4 is shorter than an open block of 8 tokens"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// A latent of 48, a rotary key of 16 and an index key of 20 numbers. A token scores 4096 tokens by
// 3 heads of the indexer and reads 100 of them, 4 heads of 48 + 16 numbers and as many of a latent.
TEST_F(CostCommand, CountsTheIndexKeysOfDsaAndTheTokensThatItPicks) {
  const std::string flags =
      "--attention dsa48+16 --layers 1 --dim 128 --heads 4 --index-heads 3 --index-head-dim 20 "
      "--index-topk 100 ";
  const json row = row_with_window(flags + "--context 4096", "dsa-absorbed");
  EXPECT_EQ(row.at("cache_elements_per_token_per_layer"), 48 + 16 + 20);
  EXPECT_EQ(row.at("cache_bytes"), 4 * 4096 * (48 + 16 + 20));
  constexpr int kIndexed = 3 * (20 + 1) * 4096;
  EXPECT_EQ(row.at("decode_attention_macs_per_layer"), kIndexed + 4 * (48 + 16 + 48) * 100);
  const json expanded = row_with_window(flags + "--context 4096", "dsa");
  EXPECT_EQ(expanded.at("decode_expansion_macs_per_layer"), 100 * 48 * 4 * (32 + 32));
  // Nothing is scored where all tokens are read.
  const json dense = row_with_window(flags + "--context 100", "dsa-absorbed");
  EXPECT_EQ(dense.at("decode_attention_macs_per_layer"), 4 * (48 + 16 + 48) * 100);
  const std::string text = cost(flags + "--index-loss 0").out;
  EXPECT_NE(text.find("note: dsa: --index-loss is 0: nothing trains the indexer of dsa"),
            std::string::npos)
      << text;
}

TEST_F(CostCommand, WithCsvPrintsTheSameNumbers) {
  const json object = table(kWidth8192);
  const Names lines = split_text(output(kWidth8192 + "--csv"), '\n');
  ASSERT_EQ(lines.size(), 1 + kAttentions.size());
  const Names header = split_text(lines[0], ',');
  for (const std::string& key : kRowKeys) EXPECT_EQ(std::ranges::count(header, key), 1) << lines[0];
  for (std::size_t i = 0; i < kAttentions.size(); ++i) {
    const json& expected = object.at("rows").at(i);
    const Names cells = split_text(lines[i + 1], ',');
    ASSERT_EQ(cells.size(), header.size()) << lines[i + 1];
    EXPECT_EQ(header.size(), expected.size());
    EXPECT_EQ(json(cells[0]), expected.at("attention"));
    for (std::size_t column = 1; column < header.size(); ++column)
      EXPECT_EQ(cells[column], expected.at(header[column]).dump()) << header[column];
  }
}

// Rows are the lines whose first word is an attention.
TEST_F(CostCommand, PrintsATableWithOneRowForEachAttention) {
  const std::string text = output(kWidth8192);
  Names rows;
  for (const std::string& line : split_text(text, '\n')) {
    const std::string first = line.substr(0, line.find(' '));
    if (std::ranges::count(kAttentions, first) > 0) rows.push_back(first);
  }
  EXPECT_EQ(rows, kAttentions);
  for (const char* const part : {"4 layers", "8192", "131072", "32 GiB", "as published"}) {
    const bool expected = std::string(part) != "as published";  // it is nobody's model
    EXPECT_EQ(text.find(part) != std::string::npos, expected) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace headcount::cost_tables
