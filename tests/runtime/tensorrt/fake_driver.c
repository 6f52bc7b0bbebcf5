/* Stands in for NVIDIA's driver: memory of the host, and a count of what is alive. It executes
   nothing; what a test runs on it says nothing of a GPU. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 64, NAME = 48 };
static struct { char name[NAME]; int count; int failure; } calls[CALLS];
static int live_device, live_pinned, streams, contexts;

static int called(const char *name) {
    for (int i = 0; i < CALLS; i++) {
        if (!calls[i].name[0]) strncpy(calls[i].name, name, NAME - 1);
        if (!strcmp(calls[i].name, name)) { calls[i].count++; return calls[i].failure; }
    }
    return 999;
}

int fake_count(const char *name) {
    for (int i = 0; i < CALLS; i++) if (!strcmp(calls[i].name, name)) return calls[i].count;
    return 0;
}
void fake_fail(const char *name, int code) {
    called(name);
    for (int i = 0; i < CALLS; i++)
        if (!strcmp(calls[i].name, name)) { calls[i].failure = code; calls[i].count--; }
}
int fake_live_device(void) { return live_device; }
int fake_live_pinned(void) { return live_pinned; }
int fake_streams(void) { return streams; }
int fake_contexts(void) { return contexts; }

#define CALL(name) int code = called(name); if (code) return code

int cuInit(unsigned flags) { CALL("cuInit"); return 0; }
int cuDriverGetVersion(int *version) { CALL("cuDriverGetVersion"); *version = 13020; return 0; }
int cuDeviceGetCount(int *count) { CALL("cuDeviceGetCount"); *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { CALL("cuDeviceGet"); *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) {
    CALL("cuDeviceGetName"); strncpy(name, "Fake GPU", size); return 0;
}
int cuDeviceTotalMem_v2(size_t *size, int device) {
    CALL("cuDeviceTotalMem_v2"); *size = (size_t)6 << 30; return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) {
    CALL("cuDeviceGetAttribute"); *value = which == 75 ? 8 : which == 76 ? 9 : -1; return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL("cuDevicePrimaryCtxRetain"); contexts++; *context = &contexts; return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    CALL("cuDevicePrimaryCtxRelease_v2"); contexts--; return 0;
}
int cuCtxSetCurrent(void *context) { CALL("cuCtxSetCurrent"); return context ? 0 : 201; }
int cuStreamCreate(void **stream, unsigned flags) {
    CALL("cuStreamCreate"); streams++; *stream = &streams; return 0;
}
int cuStreamDestroy_v2(void *stream) { CALL("cuStreamDestroy_v2"); streams--; return 0; }
int cuStreamSynchronize(void *stream) {
    CALL("cuStreamSynchronize"); return stream == &streams ? 0 : 400;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
    CALL("cuMemAlloc_v2"); live_device++; *address = (uint64_t)malloc(size); return 0;
}
int cuMemFree_v2(uint64_t address) {
    CALL("cuMemFree_v2"); live_device--; free((void *)address); return 0;
}
int cuMemAllocHost_v2(void **address, size_t size) {
    CALL("cuMemAllocHost_v2"); live_pinned++; *address = malloc(size); return 0;
}
int cuMemFreeHost(void *address) {
    CALL("cuMemFreeHost"); live_pinned--; free(address); return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t size, void *stream) {
    CALL("cuMemcpyHtoDAsync_v2"); memcpy((void *)target, source, size);
    return stream == &streams ? 0 : 400;
}
int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t size, void *stream) {
    CALL("cuMemcpyDtoHAsync_v2"); memcpy(target, (void *)source, size);
    return stream == &streams ? 0 : 400;
}
int cuGetErrorName(int code, const char **text) {
    *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
        : code == 100 ? "CUDA_ERROR_NO_DEVICE" : 0;
    return *text ? 0 : 1;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access" : 0;
    return *text ? 0 : 1;
}
