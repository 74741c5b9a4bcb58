/* exchange_c.c, linked with the library instead of preloading it.
   launch: -n 2 --relinked -- host
   launch: -n 2 --relinked --gpus 2 -- device */
#include "exchange_c.c"
