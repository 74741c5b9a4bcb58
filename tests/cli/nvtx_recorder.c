/* A tool of NVTX for nvtx.test: the library that NVTX_INJECTION64_PATH names. Writes what it is told, a line each, to
 * the file NVTX_RECORDS.PID. It follows NVTX's protocol of injection: nvtxTypes.h has the tables. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <third_party/nvtx/nvToolsExt.h>
#include <unistd.h>

static FILE* file;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char* const domain_name[1] = {"switchyard"};
static nvtxRangeId_t ranges;

static nvtxDomainHandle_t domain_create(const char* name) {
    fprintf(file, "domain %s\n", name);
    return (nvtxDomainHandle_t)&domain_name[0];
}

static void name_category(nvtxDomainHandle_t domain, uint32_t category, const char* name) {
    (void)domain;
    fprintf(file, "category %u %s\n", category, name);
}

static void write_range(const char* what, uint64_t id, const nvtxEventAttributes_t* event) {
    const int as_expected = event->version == NVTX_VERSION && event->size == sizeof *event &&
                            event->messageType == NVTX_MESSAGE_TYPE_ASCII &&
                            event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    fprintf(file, "%s %" PRIu64 " %u %" PRIu64 " %s\n", what, id, event->category,
            as_expected ? event->payload.ullValue : UINT64_MAX, as_expected ? event->message.ascii : "not as expected");
}

static int range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    (void)domain;
    write_range("push", (uint64_t)pthread_self(), event);
    return 0;
}

static int range_pop(nvtxDomainHandle_t domain) {
    (void)domain;
    fprintf(file, "pop %" PRIu64 "\n", (uint64_t)pthread_self());
    return 0;
}

static nvtxRangeId_t range_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    (void)domain;
    pthread_mutex_lock(&mutex);
    const nvtxRangeId_t id = ranges++; /* 0 is an id like any other */
    pthread_mutex_unlock(&mutex);
    write_range("start", id, event);
    return id;
}

static void range_end(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
    (void)domain;
    fprintf(file, "end %" PRIu64 "\n", (uint64_t)id);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks* callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    char path[4096];
    const char* prefix = getenv("NVTX_RECORDS");
    if (callbacks == NULL || prefix == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) || size < NVTX_CBID_CORE2_SIZE)
        return 0;
    snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
    file = fopen(path, "w");
    if (file == NULL)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainNameCategoryA] = (NvtxFunctionPointer)name_category;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)range_start;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)range_end;
    return 1;
}
