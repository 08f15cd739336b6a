// Labels beside markers: near, on nothing, and where there is no room said to be so.
#include "train/report/label_places.h"

#include <gtest/gtest.h>

namespace headcount {
namespace {

constexpr Box kPicture = {0, 0, 500, 300};

Labelled marker(double x, double y, double half_bar = 6.5) {
  return {x, y, y - half_bar, y + half_bar, 30};
}

TEST(LabelPlaces, AloneALabelStandsAtTheRight) {
  const LabelPlaces places = place_labels(std::vector{marker(100, 100)}, {}, kPicture, 30);
  EXPECT_TRUE(places.clean);
  EXPECT_EQ(places.labels[0].side, 1);
  EXPECT_FALSE(places.labels[0].leads);
  EXPECT_GT(places.labels[0].box.left, 106.5);
  EXPECT_LT(places.labels[0].box.left, 115);
}

TEST(LabelPlaces, AtTheEdgeItStandsAtTheLeft) {
  const LabelPlaces places = place_labels(std::vector{marker(490, 100)}, {}, kPicture, 30);
  EXPECT_EQ(places.labels[0].side, -1);
  EXPECT_LE(places.labels[0].box.right, 490 - 6.5);
}

TEST(LabelPlaces, KeepOffWhatIsTakenAndOffEachOther) {
  const std::vector<Labelled> markers = {marker(100, 100), marker(114, 100), marker(128, 100)};
  const Box taken = {140, 60, 240, 140};
  const LabelPlaces places = place_labels(markers, {taken}, kPicture, 40);
  EXPECT_TRUE(places.clean);
  for (std::size_t i = 0; i < markers.size(); ++i) {
    EXPECT_EQ(overlap(places.labels[i].box, taken), 0);
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_EQ(overlap(places.labels[i].box, places.labels[j].box), 0);
  }
}

TEST(LabelPlaces, ALineLeadsToALabelThatIsFarOff) {
  const std::vector<Box> sides = {{0, 60, 93, 140}, {107, 60, 300, 140}};
  const LabelPlaces places = place_labels(std::vector{marker(100, 100)}, sides, kPicture, 60);
  EXPECT_TRUE(places.clean);
  const LabelPlace& label = places.labels[0];
  EXPECT_TRUE(label.leads);
  EXPECT_TRUE(label.box.bottom <= 60 || label.box.top >= 140);
  EXPECT_EQ(label.to_x, 100);
}

TEST(LabelPlaces, SayWhereThereIsNoRoom) {
  const Box all = {0, 0, 500, 300};
  EXPECT_FALSE(place_labels(std::vector{marker(100, 100)}, {all}, kPicture, 30).clean);
}

}  // namespace
}  // namespace headcount
