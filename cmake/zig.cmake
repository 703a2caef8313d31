# Linux x86-64 with glibc 2.28 and newer, by zig's C++ compiler, which has libc++ in every file: scripts/wheel_glibc.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/../build/zig/c++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/../build/zig/ar)
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/../build/zig/ranlib)
