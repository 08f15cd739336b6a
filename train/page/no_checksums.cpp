#include "autograd/base/sha256.h"

// A page has no OpenSSL. Its browser makes and checks the checksums of saved files (checksums.js);
// a text that stays in the page needs none.
namespace headcount {

std::string sha256_hex(std::string_view) { return {}; }

}  // namespace headcount
