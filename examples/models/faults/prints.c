/*
 * A module that prints through every way C has to standard output. All of it must arrive in the printf buffer, in this
 * order, each line ended by a newline:
 *
 *     1 printf 42
 *     2 puts
 *     3 fputs
 *     4 fprintf 2.50
 *     5 vprintf abc
 *     6 putchar
 *     7 fputs of a literal
 *     8 fputc
 *
 * Line 7 is a literal on purpose: compilers turn it into a call of fwrite. The module gives its first input back.
 */
#include "../include/outboard_tvm_abi.h"

typedef struct outboard_file FILE;
extern FILE *stdout;
int puts(const char *text);
int fputs(const char *text, FILE *stream);
int fprintf(FILE *stream, const char *format, ...);
int vprintf(const char *format, va_list arguments);
int putchar(int character);
int fputc(int character, FILE *stream);

static __attribute__((noinline)) void print_with_list(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  /* Pointers the compiler cannot see through keep the calls as they are written. */
  const char *volatile line_2 = "2 puts";
  const char *volatile line_3 = "3 fputs\n";
  const char *volatile line_6 = "6 putchar\n";
  const char *volatile line_8 = "8 fputc\n";
  (void)constants;
  printf("1 printf %d\n", 42);
  puts(line_2);
  fputs(line_3, stdout);
  fprintf(stdout, "4 fprintf %.2f\n", 2.5);
  print_with_list("5 vprintf %s\n", "abc");
  for (const char *c = line_6; *c != '\0'; c++) {
    putchar(*c);
  }
  fputs("7 fputs of a literal\n", stdout);
  for (const char *c = line_8; *c != '\0'; c++) {
    fputc(*c, stdout);
  }
  *output = num_inputs > 0 ? inputs[0] : (TVMFFIAny){0};
  return OUTBOARD_OK;
}
