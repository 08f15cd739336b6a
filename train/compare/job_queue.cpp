#include "train/compare/job_queue.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "autograd/base/json.h"
#include "train/compare/result_files.h"
#include "train/interrupt.h"
#include "train/run/state.h"

namespace headcount {

using nlohmann::json;

LocalQueue::LocalQueue(const std::vector<PlannedRun>& runs, const Needs& needs,
                       std::vector<RunOutcome> outcomes, const std::vector<bool>& elsewhere,
                       std::vector<double> work, RunWatcher& watcher)
    : runs_(runs),
      needs_of_(needs),
      outcomes_(std::move(outcomes)),
      states_(runs.size()),
      work_(std::move(work)),
      watcher_(watcher) {
  for (std::size_t run = 0; run < runs.size(); ++run) {
    states_[run].elsewhere = !elsewhere.empty() && elsewhere[run];
    states_[run].taken = outcomes_[run].ended || states_[run].elsewhere;
  }
  update();
}

// Computes the needs anew and calls the watcher. Call it with the mutex, or before jobs start.
void LocalQueue::update() {
  std::vector<Need> needs = needs_of_(outcomes_);
  for (std::size_t run = 0; run < needs.size(); ++run) {
    states_[run].need = needs[run];
    states_[run].dropped = needs[run] == Need::no;
    if (states_[run].elsewhere && !outcomes_[run].ended) needs[run] = Need::no;  // for the watcher
  }
  watcher_.update(runs_, outcomes_, needs);
}

bool LocalQueue::waiting_for_any() const {
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const RunState& state = states_[run];
    if (state.need == Need::now && !outcomes_[run].ended && !state.elsewhere) return true;
  }
  return false;
}

// Order in which runs are taken. On one rank, seed by seed, so that a machine that slows down for a
// while does so for every variant. Among several ranks, the longest needed runs first, so that no
// rank is still training a long run when all others have ended.
bool LocalQueue::before(std::size_t run, std::size_t other, Need need) const {
  if (need == Need::now && !work_.empty() && work_[run] != work_[other])
    return work_[run] > work_[other];
  return runs_[run].options.seed < runs_[other].options.seed;
}

// A run to train, if there is one at the moment.
std::optional<std::size_t> LocalQueue::take() {
  for (const Need need : {Need::now, Need::maybe}) {
    std::optional<std::size_t> first;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (states_[run].taken || states_[run].need != need) continue;
      if (!first || before(run, *first, need)) first = run;
    }
    if (!first) continue;
    states_[*first].taken = true;
    return first;
  }
  return std::nullopt;
}

std::optional<std::size_t> LocalQueue::next() {
  constexpr auto kPatience = std::chrono::milliseconds(100);  // a signal wakes no job
  std::unique_lock lock(mutex_);
  while (!interrupted() && waiting_for_any()) {
    if (const auto run = take()) return run;
    changed_.wait_for(lock, kPatience);
  }
  return std::nullopt;
}

bool LocalQueue::step(std::size_t run, const StepResult& result) {
  if (states_[run].dropped) return false;
  watcher_.step(run, result);
  return true;
}

void LocalQueue::end(std::size_t run, RunOutcome outcome) {
  const std::lock_guard lock(mutex_);
  outcome.ended = true;
  outcomes_[run] = std::move(outcome);
  update();
  watcher_.finish(run, outcomes_[run]);
  changed_.notify_all();
}

// Messages between ranks as JSON. A question has one key, and in some cases arguments beside it; so
// has its answer:
//     {"next"} -> {"run"}, {"wait"} or {"done"}
//     {"step", "result"} -> {"dropped"}
//     {"end", "outcome"}, {"leave"} -> {}
// Either side adds the signal that stopped it, if any: {"signal"}.
json LocalQueue::reply(const json& question, int& left) {
  if (question.contains("signal")) interrupt(question["signal"]);
  json answer = json::object();
  if (question.contains("next")) {
    const std::lock_guard lock(mutex_);
    if (interrupted() || !waiting_for_any()) {
      answer["done"] = true;
    } else if (const auto run = take()) {
      answer["run"] = *run;
    } else {
      answer["wait"] = true;
    }
  } else if (question.contains("step")) {
    answer["dropped"] = !step(question.at("step"), step_from(question.at("result")));
  } else if (question.contains("end")) {
    end(question.at("end"), outcome_from(question.at("outcome")));
  } else {
    ++left;
  }
  if (interrupted()) answer["signal"] = interrupt_signal();
  return answer;
}

void LocalQueue::serve(Ranks& ranks) {
  for (int left = 0; left < ranks.size() - 1;) {
    const bool asked = ranks.answer(
        [&](const std::string& question) { return reply(parse_json(question), left).dump(); });
    if (!asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

json RemoteQueue::ask(json question) {
  if (interrupted()) question["signal"] = interrupt_signal();
  json answer = parse_json(ranks_.ask(question.dump()));
  if (answer.contains("signal")) interrupt(answer["signal"]);
  return answer;
}

RemoteQueue::~RemoteQueue() { ask({{"leave", true}}); }

std::optional<std::size_t> RemoteQueue::next() {
  constexpr auto kPatience = std::chrono::milliseconds(20);
  while (true) {
    const json answer = ask({{"next", true}});
    if (answer.contains("run")) return answer["run"];
    if (answer.contains("done")) return std::nullopt;
    std::this_thread::sleep_for(kPatience);
  }
}

bool RemoteQueue::step(std::size_t run, const StepResult& result) {
  constexpr auto kEvery = std::chrono::milliseconds(100);
  const auto now = std::chrono::steady_clock::now();
  if (now - told_[run] < kEvery) return true;
  told_[run] = now;
  return !ask({{"step", run}, {"result", to_json(result)}})["dropped"];
}

void RemoteQueue::end(std::size_t run, RunOutcome outcome) {
  ask({{"end", run}, {"outcome", to_json(outcome)}});
}

}  // namespace headcount
