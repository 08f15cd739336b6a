#include "train/report/run_report.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "models/cost.h"
#include "train/report/chart_parts.h"
#include "train/report/page.h"

namespace headcount {

namespace {

using Run = const RunCurves&;
using Json = nlohmann::ordered_json;

constexpr std::size_t kCurvePoints = 200;  // of a training curve: the mean over equal stretches
constexpr std::size_t kRunsInTitle = 4;

// Points of one value against the step, each the mean over `stretch` steps.
std::vector<ChartPoint> points_of(Run run, const std::string& key, const std::string& what,
                                  std::size_t stretch, int decimals, double unit = 1) {
  std::vector<ChartPoint> points;
  double sum = 0;
  std::size_t count = 0;
  for (const CurveRow& row : run.rows) {
    const auto value = row.find(key);
    if (value == row.end() || !value->is_number()) continue;
    sum += unit * value->get<double>();
    if (++count < stretch && &row != &run.rows.back()) continue;
    const auto step = row["step"].get<double>();
    const double mean = sum / static_cast<double>(count);
    points.push_back({step, mean,
                      run.name + ", step " + number_text(step) + ": " + what + " " +
                          number_text(mean, decimals)});
    sum = 0;
    count = 0;
  }
  return points;
}

std::vector<ChartPoint> training_points(Run run) {
  const std::size_t stretch = (run.rows.size() + kCurvePoints - 1) / kCurvePoints;
  return points_of(run, "train_loss", "training loss", stretch, 4);
}

// First step that a chart of all runs shows; it leaves a part of each curve.
Index first_step(const std::vector<RunCurves>& runs) {
  std::vector<Index> firsts;
  for (Run run : runs) {
    std::vector<Index> steps;
    for (const ChartPoint& point : training_points(run))
      steps.push_back(static_cast<Index>(point.x));
    firsts.push_back(first_step_shown(steps));
  }
  return std::ranges::min(firsts);
}

std::string loss_caption(const std::vector<RunCurves>& runs) {
  std::string text =
      "Thick lines with marks are losses over the validation text, thin ones of the batches of "
      "training";
  const bool means = std::ranges::any_of(runs, [](Run r) { return r.rows.size() > kCurvePoints; });
  text += means ? ", means over stretches of steps." : ".";
  std::vector<std::string> unevaluated;
  for (Run run : runs)
    if (!run.last("val_loss")) unevaluated.push_back(run.name);
  if (!unevaluated.empty()) {
    text +=
        " Without an evaluation, the training loss is the thick line: " + list_text(unevaluated) +
        ".";
  }
  if (const Index first = first_step(runs); first > 0)
    text += " Steps before " + count_text(first) + " are left out.";
  return text;
}

std::string answers_figure(const std::vector<RunCurves>& runs) {
  Chart chart{.title = "Right answers",
              .kind = ChartKind::line,
              .x = {"step"},
              .y = {"answers right, %", Scale::linear, nullptr, 0, 100}};
  bool any = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<ChartPoint> points =
        points_of(runs[i], "val_answer_accuracy", "right answers, %", 1, 1, 100);
    any = any || points.size() > 1;
    if (!points.empty()) chart.series.push_back({runs[i].name, Index(i), std::move(points)});
  }
  if (!any) return "";
  chart.description = "Share of the answers of the validation text that the model predicts right.";
  return figure(svg_text(chart), chart.description);
}

// Summary of the runs: what to know before two losses are compared.
std::string summary(const std::vector<RunCurves>& runs) {
  std::vector<std::string> unfinished;
  for (Run run : runs) {
    if (run.steps_done() < run.options.steps && !run.rows.back().contains("stopped"))
      unfinished.push_back(run.name + " (" + count_text(run.steps_done()) + " of " +
                           count_text(run.options.steps) + ")");
  }
  const auto best = std::ranges::min_element(
      runs, {}, [](Run run) { return run.last("val_loss").value_or(HUGE_VAL); });
  const bool one_text = std::ranges::all_of(
      runs, [&](Run run) { return run.record.data_sha256 == runs[0].record.data_sha256; });
  const bool one_part = std::ranges::all_of(runs, [&](Run run) {
    const CorpusOptions &own = run.options.corpus, &first = runs[0].options.corpus;
    return own.validation_characters == first.validation_characters &&
           own.validation_fraction == first.validation_fraction;
  });
  const bool one_context = std::ranges::all_of(
      runs, [&](Run run) { return run.options.model->context == runs[0].options.model->context; });
  std::string text;
  if (!one_text) {
    text += "The runs are on different texts, whose losses do not compare.";
  } else if (!one_context) {
    text += "The runs have different contexts, whose losses do not compare.";
  } else if (!one_part) {
    text +=
        "The runs were evaluated on different parts of their text, whose losses do not compare.";
  } else if (const auto loss = best->last("val_loss")) {
    text += (runs.size() > 1 ? best->name + " has the least validation loss, "
                             : std::string("The validation loss is ")) +
            number_text(*loss, 4) + ".";
  } else {
    text += "No validation loss was measured yet.";
  }
  if (!unfinished.empty()) text += " Not all steps are done of " + list_text(unfinished) + ".";
  const bool one_precision = std::ranges::all_of(
      runs, [&](Run run) { return run.options.precision == runs[0].options.precision; });
  if (!one_precision) text += " The runs differ in precision, and their losses by its rounding.";
  return text;
}

std::string setting_value(const nlohmann::ordered_json& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return "–";
  // As many digits as a float has: 3e-3 / 10 is no 0.00030000000000000003.
  if (found->is_number_float()) return formatted("%.7g", found->get<double>());
  return setting_text(*found);
}

// Section with the settings of all runs: settings that differ in a table, the others folded up.
std::string settings_section(const std::vector<RunCurves>& runs) {
  std::vector<nlohmann::ordered_json> all;
  std::vector<std::string> names;
  for (Run run : runs) {
    all.push_back(to_json(run.options));
    for (const auto& [name, value] : all.back().items())
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::vector<TextColumn> differing = {{{"setting"}, true}},
                          alike = {{{"setting"}, true}, {{"value"}, true}};
  for (Run run : runs) differing.push_back({{run.name}, true});
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const auto& settings : all) values.push_back(setting_value(settings, name));
    if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end()) {
      alike[0].cells.push_back(name);
      alike[1].cells.push_back(values[0]);
      continue;
    }
    differing[0].cells.push_back(name);
    for (std::size_t i = 0; i < values.size(); ++i) differing[i + 1].cells.push_back(values[i]);
  }
  const std::string shared = html_table(alike, "Settings that all runs share", "");
  if (runs.size() == 1) return "<h2>Settings</h2>\n" + shared;
  const bool differ = differing[0].cells.size() > 1;
  return "<h2>Settings that differ</h2>\n" +
         (differ ? html_table(differing, "Settings that differ", "")
                 : element("p", "All runs have the same settings.")) +
         "<details>\n" + element("summary", "Settings that all runs share") + shared +
         "</details>\n";
}

std::string origin(const std::vector<RunCurves>& runs) {
  std::string out = "<h2>How to repeat it</h2>\n<dl>\n";
  for (Run run : runs) {
    out += element("dt", run.name);
    for (const RunStart& start : run.record.starts) {
      const std::string from =
          start.from_step > 0 ? " from step " + count_text(start.from_step) : "";
      out += "<dd>" + element("pre", start.command) + xml_escaped(start.version) +
             (start.machine.empty() ? "" : ", on " + xml_escaped(start.machine)) + from + "</dd>\n";
    }
  }
  return out + "</dl>\n";
}

}  // namespace

std::vector<Column<RunCurves>> run_columns(const std::vector<RunCurves>& runs, Reader reader) {
  const bool page = reader == Reader::page;
  std::vector<Column<RunCurves>> columns;
  const auto add = [&](const char* heading, auto value, int decimals = 0, bool words = false) {
    const auto text = [=](Run r) { return cell_text(value(r), decimals, reader); };
    columns.push_back({heading, "", text, nullptr, words});
  };
  const auto newest = [](const char* key, double unit = 1) {
    return [=](Run r) {
      const std::optional<double> value = r.last(key);
      return value ? Json(unit * *value) : Json();
    };
  };
  add(
      "run", [](Run r) { return Json(r.name); }, 0, true);
  add(
      "attention", [](Run r) { return Json(r.options.model->attention); }, 0, true);
  add(page ? "parameters" : "params",
      [](Run r) { return r.parameters ? Json(*r.parameters) : Json(); });
  add(
      page ? "KV cache, bytes a token" : "KV B/token",
      [](Run r) { return json_number(kv_cache_bytes_per_token(r.options.model)); }, 1);
  add("context", [](Run r) { return Json(r.options.model->context); });
  add("seed", [](Run r) { return Json(std::to_string(r.options.seed)); });
  add(page ? "steps done" : "steps", [](Run r) { return Json(r.steps_done()); });
  add(page ? "training loss" : "train loss", newest("train_loss"), 4);
  add(page ? "validation loss" : "val loss", newest("val_loss"), 4);
  if (std::ranges::any_of(runs, [](Run r) { return r.last("val_answer_accuracy").has_value(); }))
    add("answers right, %", newest("val_answer_accuracy", 100), 1);
  return columns;
}

std::string losses_svg(const std::vector<RunCurves>& runs) {
  Chart chart{.title = runs.size() > 1 ? "Losses" : "Losses of " + runs[0].name,
              .description = loss_caption(runs),
              .kind = ChartKind::line,
              .x = {"step"}};
  const Index first = first_step(runs);
  const auto add = [&](std::size_t i, std::vector<ChartPoint> points, bool faint) {
    std::erase_if(points, [&](const ChartPoint& p) { return p.x < static_cast<double>(first); });
    if (!points.empty()) chart.series.push_back({runs[i].name, Index(i), std::move(points), faint});
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<ChartPoint> validation = points_of(runs[i], "val_loss", "validation loss", 1, 4);
    const bool validated = !validation.empty();
    add(i, training_points(runs[i]), validated);
    add(i, std::move(validation), false);
  }
  chart.y = {"loss, nats", loss_scale(chart.series)};
  return svg_text(chart);
}

std::string run_report(const std::vector<RunCurves>& runs) {
  std::vector<std::string> all;
  for (Run run : runs) all.push_back(run.name);
  const std::string names =
      runs.size() <= kRunsInTitle ? list_text(all) : plural(runs.size(), "run");
  const std::string title = (runs.size() == 1 ? "Training run: " : "Training runs: ") + names;
  const std::string note =
      "Losses in nats: of the last batch of training, and of the newest evaluation over the "
      "validation text. The cache is that of float32 at the context.";
  const std::string charts = figure(losses_svg(runs), loss_caption(runs)) + answers_figure(runs);
  return page(title,
              element("h1", title) + "<div class=\"columns\">\n" + charts +
                  element("p", summary(runs)) + "</div>\n<h2>Results</h2>\n" +
                  html_table(cells_of(run_columns(runs, Reader::page), runs), "Results", note) +
                  settings_section(runs) + origin(runs));
}

}  // namespace headcount
