#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>  // mkdtemp is POSIX, not in <cstdlib>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace headcount {

/// A new empty folder that vanishes with this object. Its name is unique, so that test programs
/// may run side by side.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& parent = testing::TempDir()) {
    std::string name = parent + "/headcount_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Path of a new file in the folder that holds `bytes`; folders in its name are made.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace headcount
