#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bilevel/sister_main.hpp"
#include "meta.hpp"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // The tensors of one step are those of the next: memory that has been given back would have to be cleared
  // again.
  mallopt(M_MMAP_THRESHOLD, 1 << 25);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  static char word[] = "meta";
  return app::run_sister(argc, argv, word, {word, app::add_meta});
}
