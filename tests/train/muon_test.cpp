#include "train/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "models/language_model.h"
#include "train/options.h"
#include "train/run_program.h"

namespace headcount {
namespace {

ModelPlan small_model(const std::string& attention) {
  return resolve_model(Given(model_settings(), {{"attention", attention},
                                                {"layers", 2},
                                                {"dim", 32},
                                                {"positions", "learned"},
                                                {"tie-embeddings", "off"},
                                                {"context", 16}}));
}

TEST(Muon, TrainsTheMatricesOfLayersAndNothingElse) {
  for (const std::string attention : {"mha", "mla", "delta", "kda"}) {
    const LanguageModel model(small_model(attention), 10);
    const ParameterStore& store = model.parameters();
    for (std::size_t i = 0; i < store.size(); ++i) {
      const std::string& name = store.name({i});
      const bool of_layer = name.find(".layers.") != std::string::npos;
      EXPECT_EQ(store.maps_features({i}), of_layer && store.shape({i}).rank() == 2) << name;
    }
  }
}

// Parameters that Muon does not train change as by AdamW alone.
TEST(Muon, LeavesTheOtherParametersToAdamW) {
  LanguageModel by_muon(small_model("mha"), 10), by_adamw(small_model("mha"), 10);
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  Muon muon({}, {}, by_muon.parameters());
  AdamW adamw({}, by_adamw.parameters());
  for (const auto& [model, optimizer] :
       {std::pair<LanguageModel*, Optimizer*>{&by_muon, &muon}, {&by_adamw, &adamw}}) {
    model->initialize(1);
    Tape tape(&model->parameters());
    tape.backward(model->loss(tape, tokens, tokens, 1).cross_entropy);
    optimizer->update(model->parameters(), {.learning_rate = 0.01}, alone());
  }
  const ParameterStore &a = by_muon.parameters(), &b = by_adamw.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::ranges::equal(a.value({i}), b.value({i})), !a.maps_features({i})) << a.name({i});
  }
}

using Numbers = std::vector<double>;

// a [n, k] times b [k, m].
Numbers product(const Numbers& a, const Numbers& b, std::size_t n, std::size_t k) {
  const std::size_t m = b.size() / k;
  Numbers c(n * m);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < m; ++j) c[i * m + j] += a[i * k + l] * b[l * m + j];
  return c;
}

Numbers transposed(const Numbers& a, std::size_t rows) {
  const std::size_t cols = a.size() / rows;
  Numbers t(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) t[i % cols * rows + i / cols] = a[i];
  return t;
}

// Five Newton-Schulz steps as they are written, of x [n, m], n <= m.
Numbers by_definition(Numbers x, std::size_t n) {
  double squares = 0;
  for (const double number : x) squares += number * number;
  for (double& number : x) number /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    const Numbers gram = product(x, transposed(x, n), n, x.size() / n);
    Numbers factor = product(gram, gram, n, n);
    for (std::size_t i = 0; i < n * n; ++i)
      factor[i] = 2.0315 * factor[i] - 4.7750 * gram[i] + (i % (n + 1) == 0 ? 3.4445 : 0);
    x = product(factor, x, n, n);
  }
  return x;
}

// Matrices with rows of very different sizes, as gradients have them; the iteration on the Gram
// matrix squares the differences.
TEST(Orthogonalize, ComputesFiveNewtonSchulzStepsInEveryShape) {
  constexpr std::size_t kShort = 24;
  for (const std::size_t length : {24u, 30u, 40u, 96u}) {
    Numbers wide(kShort * length);
    for (std::size_t i = 0; i < wide.size(); ++i)
      wide[i] = random_normal({3, 1, 0}, i) *
                std::pow(10, -4.0 * static_cast<double>(i / length) / kShort);
    const Numbers expected = by_definition(wide, kShort);
    for (const bool tall : {false, true}) {
      const Numbers stored = tall ? transposed(wide, kShort) : wide;
      const Numbers reference = tall ? transposed(expected, kShort) : expected;
      std::vector<Real> x(stored.begin(), stored.end()), scratch;
      const auto rows = static_cast<Index>(tall ? length : kShort);
      const std::span<const Real> result =
          orthogonalize(x, rows, static_cast<Index>(wide.size()) / rows, scratch);
      for (std::size_t i = 0; i < reference.size(); ++i)
        ASSERT_NEAR(result[i], reference[i], sizeof(Real) == 4 ? 1e-3 : 1e-9) << length << " " << i;
    }
  }
}

TEST(Orthogonalize, LeavesZerosAlone) {
  std::vector<Real> x(12), scratch;
  for (const Real number : orthogonalize(x, 3, 4, scratch)) EXPECT_EQ(number, 0);
}

}  // namespace
}  // namespace headcount
