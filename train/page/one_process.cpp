#include "autograd/base/error.h"
#include "train/gradient_exchange.h"

// A page trains in one process: no Reducer makes an exchange between several, whose thread a page
// does not have.
namespace headcount {

struct GradientExchange::Running {};

GradientExchange::GradientExchange(Ranks& ranks, ParameterStore& parameters, Index shards,
                                   std::span<Gradients> more)
    : ranks_(ranks), parameters_(parameters), shards_(shards), more_(more), count_(0) {
  throw Error("a page has no other processes to exchange gradients with");
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::complete(ParameterId) {}

void GradientExchange::finish() {}

}  // namespace headcount
