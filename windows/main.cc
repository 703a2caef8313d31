// The program on Windows: one file that runs models, without the commands that need torch. Its
// words are UTF-8, as everywhere, and what it prints has the same bytes.
#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

extern "C" int tost_run_small_program(int argc, char** argv);

int main() {
  int count = 0;
  wchar_t** given = CommandLineToArgvW(GetCommandLineW(), &count);
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.push_back(std::filesystem::path(given[i]).string());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  SetConsoleOutputCP(CP_UTF8);
  for (FILE* stream : {stdin, stdout, stderr}) _setmode(_fileno(stream), _O_BINARY);
  const int code = tost_run_small_program(count, argv.data());
  if (code >= 0) return code;
  std::fputs("tost: this needs the full program with torch, which is made for Linux alone.\n",
             stderr);
  return 1;
}
