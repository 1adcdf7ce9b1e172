// The part of NVIDIA's cuObject client interface that NIXL's OBJ plugin links against.
//
// Only the names, the argument types and the values below are the interface (facts: nm on libplugin_OBJ.so and
// NVIDIA's public documentation). The class is declared without members on purpose: the caller allocates the object
// with the size that NVIDIA's own header gives it, which is unknown here, so nothing is ever kept in it.
#pragma once

#include <sys/types.h>

#include <cstddef>

struct cufileRDMAInfo_t {
    int version;
    int desc_len;  // bytes of desc_str, the terminating NUL included
    const char *desc_str;
};

enum cuObjErr_enum { CU_OBJ_SUCCESS = 0, CU_OBJ_FAIL = 1 };
enum cuObjProto_enum { CUOBJ_PROTO_RDMA_DC_V1 = 1001 };

struct CUObjIOOps {
    ssize_t (*get)(const void *handle, char *ptr, size_t size, loff_t offset, const cufileRDMAInfo_t *info);
    ssize_t (*put)(const void *handle, const char *ptr, size_t size, loff_t offset, const cufileRDMAInfo_t *info);
};

#define KVLAB_EXPORT __attribute__((visibility("default")))

class cuObjClient {
public:
    KVLAB_EXPORT cuObjClient(CUObjIOOps &ops, cuObjProto_enum proto);
    KVLAB_EXPORT ~cuObjClient();
    cuObjClient(const cuObjClient &) = delete;
    cuObjClient &operator=(const cuObjClient &) = delete;

    // Local readiness: an address of rdma_dev_addr_list is one of this host's. Says nothing about a peer.
    KVLAB_EXPORT bool isConnected();
    // Registers [ptr, ptr + size) for one-sided access.
    KVLAB_EXPORT cuObjErr_enum cuMemObjGetDescriptor(void *ptr, size_t size);
    // Withdraws the registration that starts at ptr; when it returns, no peer reads or writes the memory any more.
    KVLAB_EXPORT cuObjErr_enum cuMemObjPutDescriptor(void *ptr);
    // The ctx of the cuObjGet or cuObjPut that called the callback with this handle.
    KVLAB_EXPORT static void *getCtx(const void *handle);
    // Calls ops.get or ops.put with the descriptor of [ptr, ptr + size) and returns what that returned,
    // or a negative errno where the memory is not registered or the client not connected.
    KVLAB_EXPORT ssize_t cuObjGet(void *ctx, void *ptr, size_t size, loff_t offset = 0, loff_t buf_offset = 0);
    KVLAB_EXPORT ssize_t cuObjPut(void *ctx, void *ptr, size_t size, loff_t offset = 0, loff_t buf_offset = 0);
};
