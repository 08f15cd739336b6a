#include "autograd/base/registry.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "autograd/base/error.h"

namespace headcount {
namespace {

struct Item {
  std::string_view name;
};

TEST(Registry, HasWhatIsDeclaredAndThenWhatIsAddedUnlessItsNameIsTaken) {
  const Item declared = {"first"}, added = {"second"}, again = {"first"};
  Registry<Item> registry = {&declared};
  registry.add(added);
  EXPECT_THROW(registry.add(again), ShapeError);
  EXPECT_EQ(std::vector(registry.all().begin(), registry.all().end()),
            (std::vector{&declared, &added}));
  EXPECT_EQ(registry.find("second"), &added);
  EXPECT_EQ(registry.find("third"), nullptr);
}

}  // namespace
}  // namespace headcount
