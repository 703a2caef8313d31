/* Writes a text with a language model, in C, with nothing but the engine's library:
 *   cc examples/c/write.c -IPREFIX/include -LPREFIX/lib -Wl,-rpath,PREFIX/lib -ltost -o write
 *   ./write PREFIX/share/tost/models/words.safetensors "The king" 40
 * The state does not grow, so the program could write for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tost/engine/tost.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tost_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: write MODEL.safetensors PROMPT [TOKENS]\n");
    return 2;
  }
  tost_sampling sampling = {.temperature = 0.8, .top_k = 20, .seed = 1};
  sampling.most_tokens = argc > 3 ? atoll(argv[3]) : 60;

  tost_model* model = tost_open(argv[1]);
  if (model == NULL) return fail(argv[1]);
  tost_text* text = tost_begin(model, &sampling);
  if (text == NULL) return fail("begin");
  if (tost_read(text, argv[2], strlen(argv[2])) < 0) return fail("read");
  const long long before = tost_state_bytes(text);
  fputs(argv[2], stdout);
  for (const char* piece; (piece = tost_write(text)) != NULL; fflush(stdout)) fputs(piece, stdout);
  if (tost_error()[0] != '\0') return fail("write");
  printf("\n%lld tokens read, %lld bytes of state, %lld before the first was written\n",
         tost_tokens(text), tost_state_bytes(text), before);
  tost_end(text);
  tost_close(model);
  return 0;
}
