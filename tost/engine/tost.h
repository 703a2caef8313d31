/* The C interface of the engine: language models that read and write in constant memory, and image
 * classifiers, for programs in any language and for the browser. Files: safetensors as `tost train`
 * writes them, with mixers that the engine has.
 *
 * A function that can fail returns NULL or -1, and tost_error() then says why in one sentence.
 * Calls for texts of one model must not overlap in time. Strings are UTF-8; those returned live
 * until the next call for the same object.
 *
 *   tost_model* model = tost_open("words.safetensors");
 *   tost_text* text = tost_begin(model, NULL);
 *   tost_read(text, "The king", 8);
 *   for (const char* piece; (piece = tost_write(text)) != NULL;) fputs(piece, stdout);
 */
#ifndef TOST_H_
#define TOST_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tost_model tost_model;
typedef struct tost_text tost_text;

/* How tokens are drawn; 0 in top_k and top_p: all. The same seed gives the same text on every
 * machine. */
typedef struct tost_sampling {
  double temperature; /* 0: the most likely token */
  long long top_k;
  double top_p;
  double repetition_penalty; /* 0 or 1: none */
  unsigned long long seed;
  long long most_tokens; /* 0: no limit */
} tost_sampling;

/* Of the last call that failed on this thread. */
const char* tost_error(void);

tost_model* tost_open(const char* path);
/* The bytes of a file, which are copied. */
tost_model* tost_open_bytes(const void* bytes, size_t count);
/* JSON: kind ("language" or "vision"), configuration, precision, classes of pictures. */
const char* tost_about(tost_model* model);
/* Its texts must have ended. */
void tost_close(tost_model* model);

/* A new text; sampling may be NULL for the most likely tokens without limit. */
tost_text* tost_begin(tost_model* model, const tost_sampling* sampling);
/* A second text that goes on from the same place. */
tost_text* tost_copy(const tost_text* text);
void tost_end(tost_text* text);

/* Reads a text after what was read and written. Returns the number of tokens. */
long long tost_read(tost_text* text, const char* utf8, size_t bytes);
/* Draws and reads one token. Returns the text that is final now, perhaps "" within a character;
 * NULL where the text has ended, with tost_error() "", and where it failed. */
const char* tost_write(tost_text* text);

/* Tokens read so far, and bytes of state: these do not grow. */
long long tost_tokens(const tost_text* text);
long long tost_state_bytes(const tost_text* text);
/* Memberships of the last token in the heads of each layer, [layers, heads], each row summing to 1.
 * Writes at most `most` numbers and returns how many there are; 0 before the first token. */
long long tost_memberships(const tost_text* text, float* to, long long most);

/* Probabilities by class of a picture, rows from top to bottom, three bytes a pixel: red, green,
 * blue. Writes at most `most` numbers and returns how many there are; -1 where it fails. */
long long tost_predict(tost_model* model, const unsigned char* rgb, long long width,
                       long long height, float* to, long long most);

#ifdef __cplusplus
}
#endif

#endif
