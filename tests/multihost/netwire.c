/* A wire with delay, jitter and loss between two network interfaces, for kernels
 * without sch_netem.   usage: netwire IF_A IF_B DELAY_MS JITTER_MS LOSS_PERCENT
 * Frames travel with their virtio-net header, so checksum and segmentation
 * offload survive the trip. Order within a direction is kept. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum { MAX_FRAME = 70000, MAX_QUEUED = 4096 };

struct frame {
    struct frame* next;
    int64_t due;
    size_t size;
    char bytes[];
};
struct direction {
    int in, out, queued;
    struct frame *head, *tail;
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int open_interface(const char* name) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), one = 1, room = 8 << 20;
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
    struct packet_mreq all = {.mr_ifindex = at.sll_ifindex, .mr_type = PACKET_MR_PROMISC};

    if (fd < 0 || at.sll_ifindex == 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) ||
        bind(fd, (struct sockaddr*)&at, sizeof at)) {
        perror(name);
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    return fd;
}

static void take(struct direction* d, double delay_ms, double jitter_ms, double loss) {
    static char buffer[MAX_FRAME];
    ssize_t n;

    while ((n = recv(d->in, buffer, sizeof buffer, 0)) > 0) {
        struct frame* f;
        if (d->queued >= MAX_QUEUED || drand48() * 100 < loss || (f = malloc(sizeof *f + (size_t)n)) == NULL)
            continue;
        double ms = delay_ms + jitter_ms * (2 * drand48() - 1);
        f->due = now_ns() + (int64_t)((ms > 0 ? ms : 0) * 1e6);
        if (d->tail != NULL && f->due < d->tail->due)
            f->due = d->tail->due;
        f->size = (size_t)n;
        f->next = NULL;
        memcpy(f->bytes, buffer, (size_t)n);
        if (d->tail != NULL)
            d->tail->next = f;
        else
            d->head = f;
        d->tail = f;
        d->queued++;
    }
}

static void give(struct direction* d) {
    while (d->head != NULL && d->head->due <= now_ns()) {
        struct frame* f = d->head;
        if (send(d->out, f->bytes, f->size, 0) < 0 && (errno == EAGAIN || errno == ENOBUFS))
            return; /* tried again on the next turn; any other failure drops the frame */
        if ((d->head = f->next) == NULL)
            d->tail = NULL;
        d->queued--;
        free(f);
    }
}

int main(int argc, char** argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s IF_A IF_B DELAY_MS JITTER_MS LOSS_PERCENT\n", argv[0]);
        return 2;
    }
    int a = open_interface(argv[1]), b = open_interface(argv[2]);
    double delay = atof(argv[3]), jitter = atof(argv[4]), loss = atof(argv[5]);
    struct direction d[2] = {{.in = a, .out = b}, {.in = b, .out = a}};

    for (;;) {
        struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        int64_t due = INT64_MAX, left;
        for (int i = 0; i < 2; i++)
            if (d[i].head != NULL && d[i].head->due < due)
                due = d[i].head->due;
        left = due == INT64_MAX ? -1 : due - now_ns();
        if (left >= 0 && left < 50000)
            left = 50000; /* also paces a retry after EAGAIN */
        struct timespec t = {left / 1000000000, left % 1000000000};
        ppoll(p, 2, due == INT64_MAX ? NULL : (left < 0 ? &(struct timespec){0, 50000} : &t), NULL);
        for (int i = 0; i < 2; i++) {
            take(&d[i], delay, jitter, loss);
            give(&d[i]);
        }
    }
}
