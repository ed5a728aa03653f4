/* What holds the namespaces of a pod. */
#include <unistd.h>
int main(void) { for (;;) pause(); }
