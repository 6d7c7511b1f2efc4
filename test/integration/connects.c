/* Appends the target address of each connection and datagram of a process to the file $CONNECTS, one per line. Loaded
 * with LD_PRELOAD. Unix sockets are not logged. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void log_target(const char *call, const struct sockaddr *to) {
  const char *file = getenv("CONNECTS");
  char address[INET6_ADDRSTRLEN], line[128];
  int port;
  if (file == NULL || to == NULL) return;
  if (to->sa_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)to;
    inet_ntop(AF_INET, &in->sin_addr, address, sizeof address);
    port = ntohs(in->sin_port);
  } else if (to->sa_family == AF_INET6) {
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)to;
    inet_ntop(AF_INET6, &in->sin6_addr, address, sizeof address);
    port = ntohs(in->sin6_port);
  } else {
    return;
  }
  int size = snprintf(line, sizeof line, "%s %s %d\n", call, address, port);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (syscall(SYS_write, fd, line, size) != size) abort();
  syscall(SYS_close, fd);
}

#define REAL(name) static __typeof__(&name) real; if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int connect(int fd, const struct sockaddr *to, socklen_t size) {
  REAL(connect);
  log_target("connect", to);
  return real(fd, to, size);
}
ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
  REAL(sendto);
  log_target("sendto", to);
  return real(fd, bytes, length, flags, to, size);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  REAL(sendmsg);
  log_target("sendmsg", message->msg_name);
  return real(fd, message, flags);
}
int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags) {
  REAL(sendmmsg);
  for (unsigned int each = 0; each < count; each += 1) log_target("sendmmsg", messages[each].msg_hdr.msg_name);
  return real(fd, messages, count, flags);
}
