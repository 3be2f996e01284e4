/* Preloaded into Kroxylicious, whose gateways listen on every address and have no setting for it: sockets are bound to
   the interface lo. (Bound to 127.0.0.1 instead, it does not find its own gateways by their address.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>

int bind(int descriptor, const struct sockaddr *address, socklen_t length) {
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
    if (setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo") != 0)
        return -1;
    return real(descriptor, address, length);
}
