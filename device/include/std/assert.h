// An assertion that fails ends the operation with a fault that names it.
#include "../outboard/abi.h"
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition)                                                                                   \
  ((condition) ? (void)0                                                                                    \
               : ::outboard::fail(__FILE__ ":" OUTBOARD_TEXT(__LINE__) ": assertion failed: " #condition))
#endif
