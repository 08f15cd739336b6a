#pragma once

#include <emmintrin.h>  // which has all that Eigen uses
