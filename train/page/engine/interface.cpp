#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "autograd/base/json.h"
#include "train/page/engine/replies.h"
#include "train/page/engine/session.h"

// Functions that a page calls, and the one that it gives: `headcount_stop` throws an error in
// JavaScript. Requests and replies are JSON in UTF-8.

namespace {

using headcount::DataError;
using headcount::Index;
using headcount::page::File;
using headcount::page::Json;
using headcount::page::Session;

Session& session() {
  static Session only;
  return only;
}

std::vector<File> files_of(const nlohmann::json& request) {
  std::vector<File> files;
  for (const nlohmann::json& file : request.at("files")) {
    const auto address = file.at("pointer").get<std::uintptr_t>();  // may lie above 2 GiB
    files.push_back({file.at("name").get<std::string>(),
                     {reinterpret_cast<const char*>(address),
                      static_cast<std::size_t>(headcount::whole_number(file, "bytes"))}});
  }
  return files;
}

Json files_json(const std::vector<File>& files) {
  Json list = Json::array();
  for (const File& file : files) {
    list.push_back({{"name", file.name},
                    {"pointer", reinterpret_cast<std::uintptr_t>(file.bytes.data())},
                    {"bytes", file.bytes.size()}});
  }
  return {{"files", list}};
}

Json reply_to(const nlohmann::json& request) {
  const auto what = request.at("do").get<std::string>();
  const auto settings = [&] { return request.value("settings", nlohmann::json::object()); };
  if (what == "plan") return session().plan(settings());
  if (what == "start") return session().start(settings());
  if (what == "step") return session().step(headcount::whole_number(request, "steps"));
  if (what == "evaluate")
    return session().evaluate(
        request.contains("tokens") ? headcount::whole_number(request, "tokens") : 0);
  if (what == "ask") return session().ask(request);
  if (what == "text") return session().text();
  if (what == "save") return files_json(session().save());
  if (what == "kinds") return headcount::page::kinds_json();
  if (what == "judge") return headcount::page::judge(request);
  if (what == "cost") return headcount::page::model_cost_json(request);
  if (what == "open") return session().open(files_of(request), request.value("data", ""));
  throw DataError("'do' is '{}', which is no request", what);
}

Json reply_or_error(std::string_view request) {
  try {
    return reply_to(headcount::parse_json(request));
  } catch (const headcount::NonFiniteError& error) {
    return {{"error", error.what()}, {"diverged", true}};
  } catch (const std::bad_alloc&) {
    return {{"error", "the memory of the page is full; choose a smaller model or text"}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

extern "C" {

[[clang::import_module("env"), clang::import_name("headcount_stop")]] void headcount_stop(
    const char* text, std::size_t length);

[[clang::export_name("headcount_allocate")]] void* headcount_allocate(std::size_t bytes) {
  return std::malloc(bytes);
}

[[clang::export_name("headcount_release")]] void headcount_release(void* memory) {
  std::free(memory);
}

// Returns the length of the reply in 4 bytes, little-endian, and the reply; valid until the next
// call.
[[clang::export_name("headcount_call")]] const char* headcount_call(const char* request,
                                                                    std::size_t bytes) {
  static std::string reply;
  const std::string text = reply_or_error({request, bytes})
                               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto length = static_cast<std::uint32_t>(text.size());
  reply.assign(sizeof length, '\0');
  std::memcpy(reply.data(), &length, sizeof length);
  reply += text;
  return reply.data();
}

}  // extern "C"

// The C++ library calls this where it cannot throw.
void std::__libcpp_verbose_abort(const char* format, ...) {
  char text[512];
  std::va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  headcount_stop(text, std::min(sizeof text - 1, static_cast<std::size_t>(std::max(0, length))));
  __builtin_trap();
}

// The one of libc++abi, which is built without exceptions, would stop the module.
void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
