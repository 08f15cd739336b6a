#pragma once

#include <string>

namespace headcount {

/// "headcount 0.1.0, GCC 12.2.0, FMA, AVX2, Eigen 3.4.0, OpenMP 201511, products by Eigen, float"
std::string version_text();

/// "AMD EPYC, 2 processors, 24 GB, Linux 6.1": what this program runs on.
std::string machine_text();

}  // namespace headcount
