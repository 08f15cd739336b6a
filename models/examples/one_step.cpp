// One step of training, and 99 more: text, tokens, a model from the word gqa2, loss and gradient,
// Adam, and the text again from a KV cache. `headcount train` takes the same step; around it are
// flags, batches, evaluation and checkpoints.
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "data/vocabulary.h"
#include "models/sampling.h"

using namespace headcount;

// Adam (2014): each weight moves against the mean of its gradients, divided by the root of their
// mean square. So it moves by about the learning rate, however steep its slope is.
struct Adam {
  ParameterNumbers mean, square;  // for each weight, recent gradients and their squares
  int step = 0;

  void update(ParameterStore& weights, Real learning_rate) {
    const std::span<const Real> g = weights.complete_gradients();
    const std::span<Real> x = weights.all_values(), m = mean.all(), v = square.all();
    ++step;  // both means start at 0; `m_full` and `v_full` undo what that takes from them
    const Real m_full = Real(1 - std::pow(0.9, step)), v_full = Real(1 - std::pow(0.99, step));
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = Real(0.9) * m[i] + Real(0.1) * g[i];
      v[i] = Real(0.99) * v[i] + Real(0.01) * g[i] * g[i];
      x[i] -= learning_rate * (m[i] / m_full) / (std::sqrt(v[i] / v_full) + Real(1e-8));
    }
  }
};

int main() {
  // Text to tokens: a token is the number of a character among those that the text has.
  const std::string text = "two query heads read one key head and one value head of every token.";
  std::vector<std::int32_t> tokens(text.begin(), text.end());
  const Vocabulary vocabulary = Vocabulary::of({tokens});
  vocabulary.encode(tokens);
  const Index length = std::ssize(tokens) - 1;
  // Each token but the last is read; what is to be predicted there is the token after it.
  const auto inputs = std::span(tokens).first(length), targets = std::span(tokens).last(length);

  // A model from a word: 4 query heads share 2 KV heads. Try mha, mqa or mla12+4.
  const Given settings(
      model_settings(),
      {{"attention", "gqa2"}, {"heads", 4}, {"layers", 2}, {"dim", 64}, {"context", length}});
  LanguageModel model(resolve_model(settings), vocabulary.size());
  model.initialize(1);  // small random numbers
  ParameterStore& weights = model.parameters();
  std::printf("%zu tokens of %td characters, %td weights\n", tokens.size(), vocabulary.size(),
              weights.element_count());
  std::printf("a guess:  loss %.1f nats a token\n", std::log(double(vocabulary.size())));

  // A step. The forward pass records its ops on a tape; `backward` goes through them once, from the
  // loss to the weights, and finds for each weight how much the loss grows with it.
  Tape tape(&weights);
  Adam adam{ParameterNumbers(weights), ParameterNumbers(weights)};
  for (int step = 1; step <= 100; ++step) {
    tape.reset();
    weights.clear_gradients();
    const Var loss = model.loss(tape, inputs, targets, 1).cross_entropy;  // mean of -ln p(target)
    tape.backward(loss);
    adam.update(weights, Real(3e-3));
    if (step == 1 || step == 10 || step == 20 || step == 100)
      std::printf("step %3d: loss %.1f nats a token\n", step, double(loss.item()));
  }

  // Decoding. Each token goes through the model once, and leaves its keys and values in the cache.
  Decoder decoder(model, {});
  std::vector<std::int32_t> written = {tokens.front()};
  while (decoder.length() < length) {
    const std::span<const Real> logits = decoder.feed(std::span(written).last(1));
    written.push_back(sample_token(logits, {.temperature = 0}, decoder.length()));
  }
  std::printf("%td bytes cached a token\n", decoder.cache_bytes() / length);
  std::printf("%s\n", vocabulary.decode(written).c_str());
}
