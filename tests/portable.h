// Included before every file by tests/portable.sh: names that Linux has and macOS has not, or has
// with other arguments. Their use is an error, so that it is found here; autograd/base/system.cpp
// may use them on Linux alone.
#pragma once

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#undef MADV_HUGEPAGE
#undef MAP_HUGETLB
#undef MAP_POPULATE
#undef O_DIRECT
#undef O_PATH
#undef O_TMPFILE
#undef SOCK_CLOEXEC
#undef st_atim
#undef st_ctim
#undef st_mtim
#pragma GCC poison MADV_HUGEPAGE MAP_HUGETLB MAP_POPULATE O_DIRECT O_PATH O_TMPFILE SOCK_CLOEXEC
#pragma GCC poison accept4 clearenv clock_nanosleep copy_file_range dup3 euidaccess fallocate      \
    fdatasync get_current_dir_name canonicalize_file_name getauxval gettid get_nprocs mallinfo2    \
        malloc_trim malloc_usable_size mallopt memfd_create mempcpy mremap openpty forkpty pipe2   \
            posix_fadvise posix_fallocate ppoll prctl program_invocation_name                      \
                program_invocation_short_name rawmemchr renameat2 secure_getenv sem_init           \
                    sem_timedwait sigqueue sigtimedwait sigwaitinfo splice st_atim st_ctim st_mtim \
                        statx strchrnul sync_file_range syncfs sysinfo timer_create
#pragma GCC poison epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd getrandom \
    inotify_add_watch inotify_init inotify_init1 qsort_r sendfile signalfd
#pragma GCC poison pthread_barrier_init pthread_getaffinity_np pthread_getattr_np     \
    pthread_setaffinity_np pthread_setname_np pthread_timedjoin_np pthread_tryjoin_np \
        sched_getaffinity sched_getcpu sched_setaffinity sched_setscheduler
#endif
