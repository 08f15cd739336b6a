#include "train/show/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

// With the greatest of the units, each `base` times the one before, from which the number is 1 or
// more; numbers below `exact` have none.
std::string short_number(double value, double exact, double base,
                         const std::array<const char*, 7>& units) {
  std::size_t unit = 0;
  for (; value >= (unit == 0 ? exact : base) && unit + 1 < units.size(); ++unit) value /= base;
  return unit == 0 ? formatted("%.0f%s", value, units[0])
                   : formatted("%.4g %s", value, units[unit]);
}

}  // namespace

std::string number_text(double value, int decimals) {
  const std::string text = formatted("%.*f", decimals, std::abs(value));
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (std::signbit(value) && !zero ? "-" : "") + text;
}

std::string signed_text(double value, int decimals) {
  const std::string text = number_text(value, decimals);
  return (text.starts_with('-') ? "" : "+") + text;
}

std::string half_width_text(const Estimate& estimate, int decimals, double unit) {
  return estimate.half_width ? " +- " + number_text(unit * *estimate.half_width, decimals) : "";
}

std::string estimate_text(const Estimate& estimate, int decimals, double unit) {
  return number_text(unit * estimate.mean, decimals) + half_width_text(estimate, decimals, unit);
}

std::string list_text(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

std::string decimal_text(double value) {
  return short_number(value, 1e5, 1000, {"", "K", "M", "G", "T", "P", "E"});
}

std::string thousands_text(double value) {
  std::string text = number_text(value, value == std::floor(value) ? 0 : 2);
  for (auto at = std::ssize(text.substr(0, text.find('.'))) - 3; at > (value < 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string binary_text(double bytes) {
  return short_number(bytes, 1024, 1024, {" B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole >= 3600) return formatted("%lldh%02lldm", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return formatted("%lldm%02llds", whole / 60, whole % 60);
  return formatted("%llds", whole);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string tenths_text(double number) {
  const double tenths = std::round(10 * number);
  return number_text(tenths / 10, std::fmod(tenths, 10) == 0 ? 0 : 1);
}

double memory_named(std::string_view text) {
  static const std::map<std::string_view, double> kUnits = {
      {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},    {"tb", 1e12},
      {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  // MiB as nvidia-smi and, for mi300x, rocm-smi report them: a card of "80 GB" has neither 80 GB
  // nor 80 GiB, and error correction takes a sixteenth of a t4, a10, l4 or l40s.
  static constexpr std::pair<std::string_view, int> kCards[] = {
      {"b200", 183359},     {"h200", 143771},     {"h100", 81559},      {"a100", 81920},
      {"a100-80gb", 81920}, {"a100-40gb", 40960}, {"l40s", 46068},      {"l4", 23034},
      {"a10", 23028},       {"t4", 15360},        {"v100", 16384},      {"v100-16gb", 16384},
      {"v100-32gb", 32768}, {"mi300x", 196592},   {"rtx-5090", 32607},  {"rtx-4090", 24564},
      {"rtx-3090", 24576},  {"rtx-4080", 16376},  {"rtx-a6000", 49140}, {"h20", 97871},
      {"l40", 46068},       {"a10g", 23028}};
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string packed = small;  // "rtx4090"
  std::erase(packed, ' ');
  for (const auto& [card, mib] : kCards) {
    const bool is_rtx = card.starts_with("rtx-");
    if (card == small ||
        (is_rtx && (small == card.substr(4) || packed == "rtx" + std::string(card.substr(4)))))
      return mib * 0x1p20;
  }
  const std::size_t end = small.find_first_not_of("0123456789.");
  std::string_view unit = end == small.npos ? "" : std::string_view(small).substr(end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.size() == 1 && kUnits.contains(std::string(unit) + "ib"))
    throw SettingError("`memory` {} may be {}iB or {}B; write one of them", text, text, text);
  double number = 0;
  const auto found = kUnits.find(unit);
  if (parse_number(text.substr(0, end), number) != std::errc() || found == kUnits.end() ||
      !(number > 0))
    throw SettingError(
        "`memory` must be a number of bytes with its unit, such as 24GiB or 80GB, or a card of {}, "
        "is {}",
        joined(kCards, &std::pair<std::string_view, int>::first), quoted(text));
  return number * found->second;
}

}  // namespace headcount
