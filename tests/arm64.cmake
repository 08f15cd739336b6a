# Programs for 64-bit ARM, made on another processor with Debian's packages for both, and run there
# by an emulator.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Headers alone, whose package has its folder among the libraries of one processor.
file(GLOB utf8cpp_DIR /usr/lib/*/cmake/utf8cpp)
set(OPENSSL_CRYPTO_LIBRARY /usr/lib/aarch64-linux-gnu/libcrypto.so CACHE FILEPATH "")
