// The eight symbols. The real object's size is unknown, so `this` is only a name for the state kept in Runtime.
#include "cuobjclient.h"

#include "runtime.h"

using kvlab::Runtime;

namespace kvlab {
void *contextOf(const void *handle);
}

__attribute__((destructor)) static void atExit() { Runtime::get().shutDown(); }

cuObjClient::cuObjClient(CUObjIOOps &ops, cuObjProto_enum proto) { Runtime::get().connect(this, ops, proto); }

cuObjClient::~cuObjClient() { Runtime::get().disconnect(this); }

bool cuObjClient::isConnected() { return Runtime::get().isConnected(this); }

cuObjErr_enum cuObjClient::cuMemObjGetDescriptor(void *ptr, size_t size) {
    return Runtime::get().registerMemory(this, reinterpret_cast<uint64_t>(ptr), size) ? CU_OBJ_SUCCESS : CU_OBJ_FAIL;
}

cuObjErr_enum cuObjClient::cuMemObjPutDescriptor(void *ptr) {
    return Runtime::get().unregisterMemory(this, reinterpret_cast<uint64_t>(ptr)) ? CU_OBJ_SUCCESS : CU_OBJ_FAIL;
}

void *cuObjClient::getCtx(const void *handle) { return handle == nullptr ? nullptr : kvlab::contextOf(handle); }

ssize_t cuObjClient::cuObjGet(void *ctx, void *ptr, size_t size, loff_t offset, loff_t) {
    return Runtime::get().operate(this, true, ctx, ptr, size, offset);
}

ssize_t cuObjClient::cuObjPut(void *ctx, void *ptr, size_t size, loff_t offset, loff_t) {
    return Runtime::get().operate(this, false, ctx, ptr, size, offset);
}
