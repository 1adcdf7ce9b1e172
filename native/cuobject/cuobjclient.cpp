// The eight symbols. The real object's size is unknown, so `this` is only a name for the state kept in Runtime.
#include "cuobjclient.h"

#include "runtime.h"

using kvlab::Runtime;

namespace {

uint64_t addressOf(const void *ptr) { return reinterpret_cast<uint64_t>(ptr); }

__attribute__((destructor)) void atExit() { Runtime::get().shutDown(); }

}  // namespace

cuObjClient::cuObjClient(CUObjIOOps &ops, cuObjProto_enum proto) { Runtime::get().connect(this, ops, proto); }

cuObjClient::~cuObjClient() { Runtime::get().disconnect(this); }

bool cuObjClient::isConnected() { return Runtime::get().isConnected(this); }

cuObjErr_enum cuObjClient::cuMemObjGetDescriptor(void *ptr, size_t size) {
    return Runtime::get().registerMemory(this, {addressOf(ptr), size}) ? CU_OBJ_SUCCESS : CU_OBJ_FAIL;
}

cuObjErr_enum cuObjClient::cuMemObjPutDescriptor(void *ptr) {
    return Runtime::get().unregisterMemory(this, addressOf(ptr)) ? CU_OBJ_SUCCESS : CU_OBJ_FAIL;
}

void *cuObjClient::getCtx(const void *handle) { return handle == nullptr ? nullptr : Runtime::contextOf(handle); }

// The object offset is only passed on and the buffer offset ignored, as NVIDIA documents both.
ssize_t cuObjClient::cuObjGet(void *ctx, void *ptr, size_t size, loff_t offset, loff_t) {
    return Runtime::get().operate(this, true, ctx, ptr, size, offset);
}

ssize_t cuObjClient::cuObjPut(void *ctx, void *ptr, size_t size, loff_t offset, loff_t) {
    return Runtime::get().operate(this, false, ctx, ptr, size, offset);
}
