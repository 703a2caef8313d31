# 64-bit Windows by Debian's mingw-w64; programs run under wine. TOST_WINDOWS_ROOT holds the libraries: scripts/setup_windows.sh.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/windows-root ABSOLUTE)
set(TOST_WINDOWS_ROOT ${root} CACHE PATH "Libraries and headers for Windows")
set(CMAKE_FIND_ROOT_PATH ${TOST_WINDOWS_ROOT} /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${TOST_WINDOWS_ROOT}/lib/pkgconfig)
# Libraries are linked into the program, which is one file.
set(ZLIB_LIBRARY_RELEASE /usr/x86_64-w64-mingw32/lib/libz.a CACHE FILEPATH "zlib")
set(OpenMP_gomp_LIBRARY gomp CACHE STRING "OpenMP's runtime")
# The stack of Windows is aligned to 16 bytes, which g++ forgets where it keeps wider vectors there: the assembler writes every
# move of a vector as one that needs no alignment.
set(CMAKE_CXX_FLAGS_INIT "-D_FILE_OFFSET_BITS=64 -D_WIN32_WINNT=0x0a00 -DPCRE2_STATIC -Wa,-muse-unaligned-vector-move")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static")
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/lib/wine/wine64)
