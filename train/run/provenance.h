#pragma once

#include <string>

namespace headcount {

/// Version of the program, its compiler and its libraries: "headcount 0.1.0, GCC 12.2.0, FMA, AVX2,
/// Eigen 3.4.0, OpenMP 201511, products by Eigen, float".
std::string version_text();

/// The machine that this program runs on: "AMD EPYC, 2 processors, 24 GB, Linux 6.1".
std::string machine_text();

}  // namespace headcount
