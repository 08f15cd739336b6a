#pragma once

#include <optional>

#include "models/checkpoint/contents.h"
#include "train/page/engine/session.h"

namespace headcount::page {

struct Opened {
  Checkpoint checkpoint;
  std::optional<Index> step;  ///< of its training, if the files tell
};

/// Opens a checkpoint from the files of its folder. Throws DataError that names the file and what
/// is wrong in it.
Opened open_checkpoint(std::span<const File> files);

}  // namespace headcount::page
