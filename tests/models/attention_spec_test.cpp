#include "models/attention_spec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/base/text.h"
#include "models/plan.h"
#include "support/message_of.h"

namespace headcount {
namespace {

AttentionPlan applied(const std::string& text) {
  return resolve_model(Given(model_settings(), {{"attention", text}}))->cycle.front();
}

std::string refusal(const std::string& text) {
  return message_of<SettingError>([&] { parse_attention_specs(text); }, "accepted");
}

// Words with their kinds, and values of settings.
TEST(AttentionSpec, GivesTheSettingsOfItsWord) {
  for (const auto& [word, kind, values] :
       std::vector<std::tuple<std::string, std::string, nlohmann::json>>{
           {"gqa2", "gqa", {{"kv-heads", 2}}},
           {"mla48+16x24", "mla", {{"kv-rank", 48}, {"rope-dim", 16}, {"nope-dim", 24}}},
           {"mla40",
            "mla",
            {{"kv-rank", 40}, {"rope-dim", applied("mla").values().at("rope-dim")}}},
           {"mfa48", "mfa", {{"head-dim", 48}}},
           {"gta1", "gta", {{"kv-heads", 1}}},
           {"tpa3", "tpa", {{"kv-factors", 3}}},
           {"latent-bias8", "latent-bias", {{"latent-dim", 8}}},
           {"hca16@32", "hca", {{"compress", 16}}},
           {"csa4+12@32", "csa", {{"compress", 4}, {"index-topk", 12}}},
           {"dsa24+8:index-topk=5@64", "dsa", {{"rope-dim", 8}, {"index-topk", 5}, {"window", 64}}},
           {"delta48", "delta", {{"v-dim", 48}}},
           {"gqa2x16:tie-kv=on:score-scale=qk-norm@64",
            "gqa",
            {{"head-dim", 16}, {"tie-kv", "on"}, {"score-scale", "qk-norm"}, {"window", 64}}}}) {
    const AttentionPlan plan = applied(word);
    EXPECT_EQ(plan.kind().name, kind) << word;
    for (const auto& [setting, value] : values.items())
      EXPECT_EQ(nlohmann::json(plan.values().at(setting)), value) << word << " " << setting;
  }
}

// What output, tables and folders call an attention: as it was typed, with its numbers.
TEST(AttentionSpec, ComesBackWholeFromAPlan) {
  for (const auto& [typed, word] : {std::pair{"gqa2", "gqa2"},
                                    {"gqa", "gqa2"},
                                    {"mla16+8", "mla16+8"},
                                    {"mqa@16", "mqa@16"},
                                    {"mhax4", "mhax4"},
                                    {"mhax32", "mha"},  // the default width
                                    {"mqax16:qk-norm=on:tie-kv=on", "mqax16:qk-norm=on:tie-kv=on"},
                                    {"mha:canon=A", "mha"},
                                    {"delta", "delta"},
                                    {"delta48", "delta48"},
                                    {"mfa48", "mfa48"}})
    EXPECT_EQ(attention_word(applied(typed)), word);
  const ModelPlan pattern = resolve_model(Given(model_settings(), {{"attention", "mqa@16/share"}}));
  EXPECT_EQ(pattern->word, "mqa@16/share");
  EXPECT_EQ(attention_word(pattern->layer_attention(1)), "share");
}

TEST(AttentionSpec, UnknownOnesAreRefusedWithTheKnownOnesAndExamplesOrTheNearest) {
  const std::string known =
      "'nosuch' is no attention; known are mha, mqa, gqa or gqa2 (`kv-heads` "
      "2), mfa or mfa64 (`head-dim` 64), ";
  EXPECT_TRUE(refusal("mha,nosuch").starts_with(known)) << refusal("mha,nosuch");
  for (const AttentionKind* kind : attention_kinds())
    EXPECT_NE(refusal("nosuch").find(kind->name), std::string::npos) << kind->name;
  for (const auto& [typed, meant] :
       {std::pair{"gpa", "gqa"}, {"GQA2x16", "gqa2x16"}, {"mlq48+16@64", "mla48+16@64"}})
    EXPECT_EQ(refusal(typed),
              quoted(typed) + " is no attention; did you mean " + std::string(meant) + "?");
  EXPECT_EQ(refusal("mqa/Gqa2"), "'Gqa2' in 'mqa/Gqa2' is no attention; did you mean gqa2?");
}

TEST(AttentionSpec, HasOneShortestText) {
  for (const auto& [text, shortest] :
       {std::pair{"gqa:kv-heads=2", "gqa2"},
        {"mfa:head-dim=32", "mfa32"},
        {"gqa2:window=64:head-dim=16", "gqa2x16@64"},
        {"dsa:rope-dim=8:kv-rank=24", "dsa24+8"},
        {"dsa:rope-dim=8", "dsa:rope-dim=8"},  // a number needs those before it
        {"mha:tie-kv=on:gate=on", "mha:gate=on:tie-kv=on"},
        {"mha:gate=off", "mha:gate=off"},
        {"gqa2@64/gqa2@64/gqa2", "2*gqa2@64/gqa2"},
        {"mqa/share/mqa/share", "mqa/share"},
        {"3*mla048+16x08@07/mha", "3*mla48+16x8@7/mha"},
        {"gqa2/2*gqa2", "gqa2"},
        {"mqa@4/mqa/share@04/share@4/share@0", "mqa@4/mqa/2*share@4/share@0"}})
    EXPECT_EQ(text_of(parse_attention_spec(text).cycle), shortest);
}

TEST(AttentionSpec, TakesSettingsThatItsPartsHaveAndDoNotGive) {
  const nlohmann::ordered_json settings = {{"gate", "on"}, {"tie-kv", "on"}, {"head-dim", "16"}};
  EXPECT_EQ(spec_with("gqa2", settings), "gqa2x16:gate=on:tie-kv=on");
  EXPECT_EQ(spec_with("mqa:gate=off@8/delta/share", settings),
            "mqax16:gate=off:tie-kv=on@8/deltax16/share");
  EXPECT_EQ(spec_with("delta", settings), "deltax16:gate=on");
  EXPECT_EQ(spec_with("delta/gqa2", {{"window", "8"}, {"sinks", "on"}}), "delta/gqa2:sinks=on@8");
  EXPECT_EQ(spec_with("mqa", {}), "mqa");
}

using Words = std::vector<std::string>;

// The words of all layers of a model; of one that shares, also the layer that it reads.
Words layers_of(const std::string& text, Index layers) {
  const ModelPlan model =
      resolve_model(Given(model_settings(), {{"layers", layers}, {"attention", text}}));
  Words words;
  for (Index layer = 0; layer < layers; ++layer) {
    const AttentionPlan& a = model->layer_attention(layer);
    const Index index = model->cycle_index(layer), writer = layer - index + model->writers[index];
    words.push_back(std::string(a.kind().name) +
                    (a.window > 0 ? "@" + std::to_string(a.window) : "") +
                    (a.shares() ? " of " + std::to_string(writer) : ""));
    EXPECT_EQ(a.shares(), writer < layer);
  }
  return words;
}

// `share` without a window reads the nearest layer that keeps, not the one that was read last;
// share@N the nearest one with that window.
TEST(AttentionPattern, IsTakenInTurnAndSharesTheKindAndTheWindowOfTheLayerThatItReads) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, Words>>{
           {"mqa@4/2*share/gqa2/share",
            {"mqa@4", "mqa@4 of 0", "mqa@4 of 0", "gqa", "gqa of 3", "mqa@4"}},
           {"mqa@4/gqa2/share@4/share", {"mqa@4", "gqa", "mqa@4 of 0", "gqa of 1"}},
           {"gqa2/delta/share@0", {"gqa", "delta", "gqa of 0"}},
           {"mqa/share", {"mqa", "mqa of 0", "mqa", "mqa of 2", "mqa"}}})
    EXPECT_EQ(layers_of(text, std::ssize(words)), words) << text;
}

TEST(AttentionPattern, TakesFromTheOtherSettingsWhatItsPartsLeaveOpen) {
  const nlohmann::json given = {
      {"heads", 8}, {"kv-heads", 2}, {"window", 32}, {"attention", "gqa/gqa4@16/mqa"}};
  const ModelPlan model = resolve_model(Given(model_settings(), given));
  EXPECT_EQ(model->layer_attention(0).values().at("kv-heads"), 2);
  EXPECT_EQ(model->layer_attention(1).values().at("kv-heads"), 4);
  EXPECT_EQ(model->layer_attention(0).window, 32);
  EXPECT_EQ(model->layer_attention(1).window, 16);
}

TEST(AttentionSpec, ErrorsNameThePartAndSayHowToWriteAKnownOne) {
  for (const auto& [text, message] :
       {std::pair{"gqa2@32x16",
                  "'gqa2@32x16' is no attention; write gqa or gqa2 (`kv-heads` 2), then xN for the "
                  "width of heads, :NAME=VALUE for a setting and @N for a window, in this order"},
        {"", "'' is no attention; a name is missing"},
        {"mha,", "'' is no attention; a name is missing"},
        {"gqa2,mha,gqa:kv-heads=2", "'gqa:kv-heads=2' is in the list twice"},
        {"delta:tie-kv=on", "'delta:tie-kv=on': 'tie-kv' is no setting of delta"},
        {"gqa2:kv-heads=4", "'gqa2:kv-heads=4': `kv-heads` is given twice"},
        {"mha:gate", "'mha:gate': after : there must be NAME=VALUE, such as gate=on, not 'gate'"},
        {"mha:gate=maybe", "'mha:gate=maybe': `gate` must be one of on, off"},
        {"mqa/gqa0", "'gqa0' in 'mqa/gqa0': `kv-heads` must be between 1"},
        {"share@4/mqa", "'share@4' in 'share@4/mqa' comes first, but no earlier layer has a cache"},
        {"mqa/share4", "'share4' in 'mqa/share4': share takes its sizes from the layer"},
        {"0*mqa/mha", "'0*mqa' in '0*mqa/mha' repeats 0 times"},
        {"10001*mqa", "'10001*mqa' repeats 10001 times; a part can be"},
        {"9000*mqa/9000*mha", "'mha' in '9000*mqa/9000*mha' is beyond the 10000 layers"}}) {
    EXPECT_TRUE(refusal(text).starts_with(message)) << text << "\n" << refusal(text);
  }
  for (const std::string word : {"mha2", "gqa-2", "mla48+", "mla+16", "mla1+2+3", "mqa@", "mqax"})
    EXPECT_TRUE(
        refusal(word).starts_with("'" + word + "' is no attention; write " + word.substr(0, 3)))
        << refusal(word);
  EXPECT_EQ(message_of<SettingError>([&] { parse_attention_spec("mha,mqa"); }),
            "'mha,mqa' is no attention; it is a list; name one attention");
}

TEST(AttentionPattern, ThatDoesNotFitTheModelNamesThePart) {
  for (const auto& [text, message] :
       {std::pair{"mqa/gqa3", ": 'gqa3': `kv-heads` 3 does not divide `heads` 4; 2 does"},
        {"latent-bias/share",
         ": 'share': a layer of latent-bias cannot share the cache of another layer"},
        {"mqa/share@4",
         ": 'share@4': no earlier layer keeps rows with a window of 4 tokens; put one before it"},
        {"mqa@4/delta/share@0",
         ": 'share@0': no earlier layer keeps rows without a window; put one before it"},
        {"mqa/share-index", ": 'share-index': no earlier layer picks rows; put one before it"},
        {"dsa/share-pooled", ": 'share-pooled': no earlier layer pools rows; put one before it"},
        {"5*gqa2@64/gqa2",
         " needs 6 layers or more, `layers` is 4; raise it or shorten the pattern"}})
    EXPECT_EQ(message_of<ShapeError>([&, at = text] { applied(at); }),
              "`attention` " + std::string(text) + message);
}

// A setting that every part gives is not the model's: it would change nothing.
TEST(AttentionPattern, HasTheSettingsThatSomePartLeavesOpen) {
  const auto settings = [](const std::string& text) {
    const nlohmann::json given = {{"kv-heads", 2}, {"kv-rank", 9}, {"attention", text}};
    return resolve_model(Given(model_settings(), given))->settings;
  };
  EXPECT_TRUE(settings("gqa/mqa").contains("kv-heads"));
  EXPECT_FALSE(settings("gqa2/mqa").contains("kv-heads"));
  EXPECT_FALSE(settings("mqa/share").contains("kv-rank"));
  EXPECT_TRUE(settings("mqa@4/mha").contains("window"));
  EXPECT_FALSE(settings("mqa@4/mha@5").contains("window"));
}

TEST(WindowsOfAPattern, ThatNameALayerCannotBeLeftOut) {
  EXPECT_EQ(without_windows("5*gqa2@64/gqa2/share"), "6*gqa2/share");
  EXPECT_THROW(without_windows("gqa2@64/gqa2/share@64"), SettingError);
}

TEST(FileNameOfAPattern, HasNoSlashAndNoStar) {
  EXPECT_EQ(file_name_of("5*gqa2@64/gqa2"), "5xgqa2@64_gqa2");
  EXPECT_EQ(file_name_of("mla48+16"), "mla48+16");
  std::string one, other;  // as long as those of large models, longer than a file's name may be
  for (int i = 0; i < 30; ++i) one += "/hca128@128/csa4+2@128";
  other = one + "/mqa";
  EXPECT_LE(file_name_of(one).size(), 100u);
  EXPECT_NE(file_name_of(one), file_name_of(other));
}

}  // namespace
}  // namespace headcount
