/* The model of kv.c with caches larger than a fixed slot of the KV region. */
#define LENGTH 60000
#include "kv.c"
