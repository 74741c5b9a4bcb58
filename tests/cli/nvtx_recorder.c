/* A tool of NVTX for nvtx.test: the library that NVTX_INJECTION64_PATH names. Writes what it is told, a line each, to
 * the file NVTX_RECORDS.PID. It follows NVTX's protocol of injection: nvtxTypes.h and nvtxExtTypes.h have the tables.
 * It reads extended payloads by the schema that it was told, and knows nothing else of them. With NVTX_RECORDS_CORE it
 * is a tool of NVTX's core alone. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <third_party/nvtx/nvToolsExtPayload.h>
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

/* What is registered is copied, for it need not live on. */
enum { PLACES = 8, ENTRIES = 64, LENGTH = 32 };
static struct {
    size_t size, count;
    char words[ENTRIES][LENGTH];
    uint64_t values[ENTRIES];
} enumerations[PLACES];
static struct {
    size_t size, count;
    nvtxPayloadSchemaEntry_t entries[ENTRIES];
    char names[ENTRIES][LENGTH];
} schema;
static unsigned enumerations_told;
static const uint64_t schema_id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START + PLACES;

static void refuse(const char* what) {
    fprintf(stderr, "nvtx_recorder: not as expected: %s\n", what);
    abort();
}

static uint64_t enum_register(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t* attributes) {
    const uint64_t fields = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                            NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
    const unsigned place = enumerations_told++;
    if (domain != (nvtxDomainHandle_t)&domain_name[0] || attributes->fieldMask != fields || place == PLACES ||
        attributes->numEntries > ENTRIES)
        refuse("an enumeration");
    enumerations[place].size = attributes->sizeOfEnum;
    enumerations[place].count = attributes->numEntries;
    fprintf(file, "enum %s of %zu bytes:", attributes->name, attributes->sizeOfEnum);
    for (size_t i = 0; i < attributes->numEntries; i++) {
        const nvtxPayloadEnum_t* entry = &attributes->entries[i];
        if (entry->isFlag)
            refuse("a flag");
        snprintf(enumerations[place].words[i], LENGTH, "%s", entry->name);
        enumerations[place].values[i] = entry->value;
        fprintf(file, " %" PRIu64 "=%s", entry->value, entry->name);
    }
    fprintf(file, "\n");
    return NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START + place;
}

/* The place of an enumeration that an entry has for its type, or PLACES. */
static unsigned enumeration_of(uint64_t type) {
    const uint64_t place = type - NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;
    return place < enumerations_told ? (unsigned)place : PLACES;
}

static size_t size_of(uint64_t type) {
    const unsigned place = enumeration_of(type);
    if (place != PLACES)
        return enumerations[place].size;
    if (type != NVTX_PAYLOAD_ENTRY_TYPE_UINT64)
        refuse("a type");
    return sizeof(uint64_t);
}

static uint64_t schema_register(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t* attributes) {
    const uint64_t fields = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    if (domain != (nvtxDomainHandle_t)&domain_name[0] || attributes->fieldMask != fields ||
        attributes->type != NVTX_PAYLOAD_SCHEMA_TYPE_STATIC || schema.count != 0 || attributes->numEntries > ENTRIES)
        refuse("a schema");
    schema.size = attributes->payloadStaticSize;
    schema.count = attributes->numEntries;
    fprintf(file, "schema %s of %zu bytes:", attributes->name, attributes->payloadStaticSize);
    for (size_t i = 0; i < attributes->numEntries; i++) {
        const nvtxPayloadSchemaEntry_t* entry = &attributes->entries[i];
        if (entry->flags != 0 || entry->arrayOrUnionDetail != 0 || entry->semantics != NULL || entry->reserved != NULL)
            refuse("an entry");
        schema.entries[i] = *entry;
        snprintf(schema.names[i], LENGTH, "%s", entry->name);
        fprintf(file, " %s=%zu@%" PRIu64, entry->name, size_of(entry->type), entry->offset);
    }
    fprintf(file, "\n");
    return schema_id;
}

/* NAME=VALUE for each of the schema's entries, with commas between. */
static void read_payload(char* text, size_t length, const nvtxPayloadData_t* data) {
    if (data->schemaId != schema_id || data->size != schema.size)
        refuse("an extended payload");
    size_t end = 0, at = 0;
    for (size_t i = 0; i < schema.count; i++) {
        const size_t size = size_of(schema.entries[i].type), offset = schema.entries[i].offset;
        const unsigned place = enumeration_of(schema.entries[i].type);
        uint64_t value = 0;
        if (offset < end || offset % size != 0 || offset + size > data->size || size > sizeof value)
            refuse("an offset");
        end = offset + size;
        memcpy(&value, (const char*)data->payload + offset, size); /* x86-64 and AArch64 have the low bytes first */
        at += (size_t)snprintf(text + at, length - at, "%s%s=", i == 0 ? "" : ",", schema.names[i]);
        if (place == PLACES) {
            at += (size_t)snprintf(text + at, length - at, "%" PRIu64, value);
            continue;
        }
        size_t word = 0;
        while (word < enumerations[place].count && enumerations[place].values[word] != value)
            word++;
        if (word == enumerations[place].count)
            refuse("a value that its enumeration lacks");
        at += (size_t)snprintf(text + at, length - at, "%s", enumerations[place].words[word]);
    }
}

static void write_range(const char* what, uint64_t id, const nvtxEventAttributes_t* event) {
    char payload[256];
    if (event->version != NVTX_VERSION || event->size != sizeof *event || event->messageType != NVTX_MESSAGE_TYPE_ASCII)
        refuse("a range");
    if (event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
        snprintf(payload, sizeof payload, "%" PRIu64, event->payload.ullValue);
    else if (event->payloadType == NVTX_PAYLOAD_TYPE_EXT && event->reserved0 == 1)
        read_payload(payload, sizeof payload, (const nvtxPayloadData_t*)(uintptr_t)event->payload.ullValue);
    else
        refuse("a payload");
    fprintf(file, "%s %" PRIu64 " %u %s %s\n", what, id, event->category, payload, event->message.ascii);
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

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    if (file == NULL || getenv("NVTX_RECORDS_CORE") != NULL || module->moduleId != NVTX_EXT_PAYLOAD_MODULEID)
        return 0;
    module->segments->functionSlots[NVTX3EXT_CBID_nvtxPayloadEnumRegister] = (intptr_t)enum_register;
    module->segments->functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = (intptr_t)schema_register;
    return 1;
}
