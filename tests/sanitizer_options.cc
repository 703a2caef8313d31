// What the sanitizers are to overlook in every test program: memory that fontconfig, below cairo, keeps to the end.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig\n";
}
