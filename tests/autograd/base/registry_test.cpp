#include "autograd/base/registry.h"

#include <gtest/gtest.h>

#include <string_view>

#include "autograd/base/error.h"

namespace headcount {
namespace {

struct Item {
  std::string_view name;
};

const Item kFirst = {"first"}, kSecond = {"second"}, kThird = {"third"}, kAgain = {"second"};

TEST(Registry, FindsWhatIsDeclaredAndWhatIsAddedInTheirOrder) {
  Registry<Item> registry = {&kFirst, &kSecond};
  registry.add(kThird);
  EXPECT_EQ(registry.find("second"), &kSecond);
  EXPECT_EQ(registry.find("third"), &kThird);
  EXPECT_EQ(registry.find("fourth"), nullptr);
  ASSERT_EQ(registry.all().size(), 3u);
  EXPECT_EQ(registry.all().front(), &kFirst);
  EXPECT_EQ(registry.all().back(), &kThird);
}

TEST(Registry, RefusesANameThatIsTaken) {
  Registry<Item> registry = {&kFirst, &kSecond};
  EXPECT_THROW(registry.add(kAgain), ShapeError);
  EXPECT_EQ(registry.all().size(), 2u);
}

}  // namespace
}  // namespace headcount
