// Functions with variable arguments cannot be defined in an operation: clang 22 for Xtensa saves the arguments at other places than
// va_arg reads, and passes a va_list where no library expects it. Calling printf is fine.
#pragma once
#error "the compiler for Xtensa reads the wrong variable arguments: use a template with a parameter pack instead of va_list"
