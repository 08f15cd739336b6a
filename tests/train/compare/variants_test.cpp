#include "train/compare/variants.h"

#include <gtest/gtest.h>

#include <string>

#include "models/decoder.h"
#include "support/message_of.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

constexpr Index kPlanVocabulary = 30;

std::vector<PlannedVariant> plan(const std::string& specs, const std::string& match,
                                 const std::string& sweep = "", const json& common = {}) {
  return plan_comparison(
      Given(training_settings(), common), parse_attention_specs(specs), Match::parse(match),
      sweep.empty() ? std::nullopt : std::optional(Sweep::parse(sweep)), kPlanVocabulary);
}

template <class Body>
std::string refusal(const Body& body) {
  return message_of<Error>(body, "accepted");
}

double parameters(const Candidate& candidate) {
  return static_cast<double>(
      LanguageModel(candidate.options.model, kPlanVocabulary).parameters().element_count());
}

TEST(ComparisonPlan, MatchesParametersThroughTheFeedForwardWidthWithinHalfAPercent) {
  for (const json& common : {json{{"bias", "off"}, {"activation", "swiglu"}},
                             json{{"bias", "on"}, {"activation", "gelu"}}}) {
    const auto variants =
        plan("mha,gqa2,mqa,mla48+16,latent-bias,mqa/share,mla/2*share/gqa2", "params", "", common);
    const double wanted = parameters(variants[0].candidates[0]);
    for (const PlannedVariant& variant : variants) {
      const Candidate& candidate = variant.candidates[0];
      EXPECT_NEAR(parameters(candidate) / wanted, 1, 0.005) << variant.spec;
      if (variant.spec == "mha") continue;
      EXPECT_EQ(candidate.adjusted, "ffn-dim " + std::to_string(candidate.options.model->ffn_dim));
    }
  }
}

// 4 layers of 4 heads of 32 and a context of 256. A KV head costs 256 bytes a token in one layer,
// and MLA four bytes for each number of its rank and 16 more.
TEST(ComparisonPlan, ChoosesHeadsAndRanksThatCostTheBudgetExactly) {
  const struct {
    const char* spec;
    Index bytes;
    const char* adjusted;
  } cases[] = {
      {"gqa", 1024, "kv-heads 1"},
      {"gqa", 2048, "kv-heads 2"},
      {"mla", 1024, "kv-rank 48"},
      {"mla", 2048, "kv-rank 112"},
      {"gqa2", 2048, ""},  // meets the budget as it is
      {"mla112+16", 2048, ""},
      {"hca@32", 312, "compress 8"},       // pooled rows cost less the more tokens they are of
      {"gqa/share", 1024, "kv-heads 2"},   // two layers keep
      {"gqa@64/gqa", 1280, "kv-heads 2"},  // two layers keep a quarter of the tokens
      {"mqa/share", 512, ""},
      {"mla/2*share/mqa", 512, "kv-rank 48"},  // beside 64 numbers of mqa
  };
  for (const auto& c : cases) {
    const Candidate candidate = plan(c.spec, "kv=" + std::to_string(c.bytes))[0].candidates[0];
    EXPECT_EQ(candidate.adjusted, c.adjusted) << c.spec;
    const ModelPlan& model = candidate.options.model;
    Index bytes = 0;
    for (const LayerCache& cache : make_caches(model, {.capacity = model->context}))
      bytes += cache.bytes();
    EXPECT_EQ(bytes, c.bytes * model->context) << c.spec;
  }
}

TEST(ComparisonPlan, TriesEveryValueOfASweepWithEveryVariantInAFolderWithoutOtherSlashes) {
  const auto variants = plan("mqa/share,3*gqa2@64/gqa2", "none", "lr=3e-4,1e-3");
  for (const PlannedVariant& variant : variants) {
    ASSERT_EQ(variant.candidates.size(), 2u);
    EXPECT_EQ(variant.candidates[0].options.learning_rate, 3e-4);
    EXPECT_EQ(variant.candidates[1].options.learning_rate, 1e-3);
    EXPECT_EQ(variant.candidates[1].adjusted, "lr 1e-3");
    EXPECT_EQ(variant.candidates[1].name, variant.spec + "/lr=1e-3");
  }
  EXPECT_EQ(variants[0].candidates[1].folder, "mqa_share/lr=1e-3");
  EXPECT_EQ(variants[1].candidates[0].folder, "3xgqa2@64_gqa2/lr=3e-4");
}

TEST(ComparisonPlan, MatchesParametersAtEachValueOfASweep) {
  const auto variants = plan("mha,mqa", "params", "layers=1,2");
  for (const std::size_t i : {0, 1}) {
    const double wanted = parameters(variants[0].candidates[i]);
    EXPECT_NEAR(parameters(variants[1].candidates[i]) / wanted, 1, 0.005);
  }
}

TEST(Sweep, RefusesWhatCannotBeSwept) {
  for (const auto& [text, message] :
       {std::pair{"lr", ""},
        {"nosuch=1,2", " cannot vary 'nosuch': there is no such setting"},
        {"seed=1,2", " cannot vary 'seed': "},
        {"data=a,b", " cannot vary 'data': all variants are trained on one text"},
        {"attention=mha,mqa", " cannot vary 'attention': "},
        {"context=8,16", " cannot vary 'context': "},
        {"lr=1e-3", " lr has one value; give two or more"},
        {"lr=1,x", ": `lr` must be a number, is 'x'"},
        {"lr=3e-4,1e-3,0.001", " lr has one value twice: 1e-3 and 0.001"},
        {"checkpoint-every=1,2", " cannot vary 'checkpoint-every': it changes no result"},
        {"eval-characters=4,5", " cannot vary 'eval-characters': all variants are evaluated on"},
        {"init=a,b", " cannot vary 'init': all models start from random weights"}}) {
    const std::string said = refusal([&, sweep = text] { Sweep::parse(sweep); });
    EXPECT_TRUE(said.starts_with(std::string("`sweep`") + message)) << text << ": " << said;
  }
}

TEST(ComparisonPlan, RefusesBudgetsThatNoNumberMeetsAndNamesTheNearest) {
  const struct {
    std::string specs, match, message;
    json common = {};
  } cases[] = {
      // MHA has more parameters than MQA, and the feed-forward layer cannot get narrower than 1.
      {"mqa,mha", "params", "no `ffn-dim` gives mha", {{"ffn-dim", 1}}},
      {"mqa,mha", "params", "the nearest, 1, gives", {{"ffn-dim", 1}}},
      {"mha,mqa", "params", "`match` params changes `ffn-dim`", {{"ffn-dim", 0}}},
      {"gqa", "kv=1024", "gqa: `rope-dim` must be even, is 3", {{"rope-dim", 3}}},
      {"gqa", "kv=1500",
       "gqa has no kv-heads with this many bytes per token; the nearest possible is kv=1024"},
      {"mla", "kv=1030", "kv=1024"},
      {"gqa,mha", "kv=1024", "mha keeps 4096 bytes per token; the nearest possible is kv=4096"},
      {"gqa", "kv=1000000000", "kv=4096"},
      // Patterns keep so much at the context of 256.
      {"mqa@99/share", "kv=512", "mqa@99/share keeps 198"},
      {"mqa@99/share",
       "kv=512",
       "keeps 168.96 bytes per token, no whole number; leave mqa@99/share",
       {{"context", 300}}},
      // Two, four and eight heads keep 337.92, 675.84 and 1351.68 bytes.
      {"gqa@99/share",
       "kv=512",
       "no `kv-heads` near this budget keeps whole bytes per token",
       {{"context", 300}, {"heads", 8}}},
      {"gqa/mla", "kv=512", "gqa/mla leaves `kv-heads` and `kv-rank` open; `match` can choose one"},
  };
  for (const auto& c : cases) {
    const std::string said = refusal([&] { plan(c.specs, c.match, "", c.common); });
    EXPECT_TRUE(said.starts_with("`match` " + c.match)) << said;
    expect_parts(said, {c.message});
  }
}

TEST(ComparisonPlan, RefusesASweepThatChangesNothingForAVariant) {
  const struct {
    const char *specs, *sweep, *variant, *why;
    json common = {};
    const char* match = "none";
  } cases[] = {
      {"mha,gqa", "kv-heads=1,2", "mha", "which has no such setting"},
      {"gqa,gqa2", "kv-heads=1,2", "gqa2", "whose name sets it"},
      {"gqa2/gqa4", "kv-heads=1,2", "gqa2/gqa4", "whose name sets it"},
      {"gqa", "kv-heads=1,2", "gqa", "for which `match` kv=1024 sets it", {}, "kv=1024"},
      {"mha", "rope-theta=10,100", "mha", "which has no such setting", {{"positions", "learned"}}},
  };
  for (const auto& c : cases) {
    const std::string setting(c.sweep, std::string_view(c.sweep).find('='));
    EXPECT_EQ(refusal([&] { plan(c.specs, c.match, c.sweep, c.common); }),
              "`sweep` " + setting + " changes nothing for " + c.variant + ", " + c.why +
                  "; leave " + c.variant + " out or sweep another setting");
  }
  for (const char* specs : {"gqa", "gqa/mqa"})
    EXPECT_EQ(refusal([&] { plan(specs, "none", "kv-heads=1,2"); }), "accepted");
  EXPECT_EQ(refusal([] { plan("mha", "none", "muon-lr=1e-2,2e-2"); }),
            "`sweep` muon-lr changes nothing with `optimizer` adamw; it is for muon");
  const json muon = {{"optimizer", "muon"}};
  EXPECT_EQ(refusal([&] { plan("mha", "none", "muon-lr=1e-2,2e-2", muon); }), "accepted");
}

TEST(Match, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "param", "kv", "kv=", "kv=-1", "kv=0", "kv=1q"})
    EXPECT_THROW(Match::parse(text), Error) << text;
  for (const char* text : {"kv=1024", "kv=1k"}) EXPECT_EQ(Match::parse(text).text(), "kv=1024");
}

}  // namespace
}  // namespace headcount
