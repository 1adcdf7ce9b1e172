"""Which operation a request is. What S3 has and this emulator has not is refused here, never ignored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kvlab.emulator import buckets, copying, lifecycle, listing, multipart, objects
from kvlab.emulator.call import RDMA_HEADERS, Call, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.service import Service

Handler = Callable[[Service, Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """An operation: its name, what serves it, and the query parameters it understands."""

    op: str
    handler: Handler
    query: frozenset[str] = frozenset()


_LIST = ("prefix", "delimiter", "max-keys", "encoding-type", "fetch-owner")


def _route(op: str, handler: Handler, *query: str) -> Route:
    return Route(op, handler, frozenset((*query, "x-id")))


LIST_BUCKETS = _route("ListBuckets", buckets.list_buckets, "max-buckets", "continuation-token", "prefix")
# (method, level, sub-resource); "" is the plain request. Level: "bucket" or "object".
ROUTES: dict[tuple[str, str, str], Route] = {
    ("PUT", "bucket", ""): _route("CreateBucket", buckets.create_bucket),
    ("HEAD", "bucket", ""): _route("HeadBucket", buckets.head_bucket),
    ("DELETE", "bucket", ""): _route("DeleteBucket", buckets.delete_bucket),
    ("GET", "bucket", ""): _route("ListObjects", listing.list_objects, *_LIST, "marker"),
    ("GET", "bucket", "list-type"): _route(
        "ListObjectsV2", listing.list_objects_v2, *_LIST, "list-type", "continuation-token", "start-after"
    ),
    ("GET", "bucket", "versions"): _route(
        "ListObjectVersions", listing.list_versions, *_LIST, "versions", "key-marker", "version-id-marker"
    ),
    ("GET", "bucket", "location"): _route("GetBucketLocation", buckets.bucket_location, "location"),
    ("POST", "bucket", "delete"): _route("DeleteObjects", objects.delete_objects, "delete"),
    ("GET", "bucket", "uploads"): _route(
        "ListMultipartUploads",
        multipart.list_uploads,
        *("uploads", "prefix", "max-uploads", "key-marker", "upload-id-marker", "encoding-type"),
    ),
    ("PUT", "bucket", "lifecycle"): _route("PutBucketLifecycle", lifecycle.put_lifecycle, "lifecycle"),
    ("GET", "bucket", "lifecycle"): _route("GetBucketLifecycle", lifecycle.get_lifecycle, "lifecycle"),
    ("DELETE", "bucket", "lifecycle"): _route(
        "DeleteBucketLifecycle", lifecycle.delete_lifecycle, "lifecycle"
    ),
    ("POST", "object", "uploads"): _route("CreateMultipartUpload", multipart.create, "uploads"),
    ("PUT", "object", "uploadId"): _route("UploadPart", multipart.upload_part, "uploadId", "partNumber"),
    ("GET", "object", "uploadId"): _route(
        "ListParts", multipart.list_parts, "uploadId", "max-parts", "part-number-marker"
    ),
    ("POST", "object", "uploadId"): _route("CompleteMultipartUpload", multipart.complete, "uploadId"),
    ("DELETE", "object", "uploadId"): _route("AbortMultipartUpload", multipart.abort, "uploadId"),
    ("PUT", "object", ""): _route("PutObject", objects.put_object),
    ("GET", "object", ""): _route("GetObject", objects.get_object, *objects.OVERRIDES, "partNumber"),
    ("HEAD", "object", ""): _route("HeadObject", objects.head_object, *objects.OVERRIDES, "partNumber"),
    ("DELETE", "object", ""): _route("DeleteObject", objects.delete_object),
}
COPY = {  # what a PUT becomes when it names a source
    "PutObject": _route("CopyObject", copying.copy_object),
    "UploadPart": _route("UploadPartCopy", multipart.upload_part_copy, "uploadId", "partNumber"),
}
_VERSIONED = ("GetObject", "HeadObject", "DeleteObject")
ONE_SIDED = ("PutObject", "GetObject")
_SUBRESOURCES = {sub for _, _, sub in ROUTES if sub}
_ALLOWED_VALUES = {"x-amz-acl": "private", "x-amz-storage-class": "STANDARD"}
_REFUSED = (
    "x-amz-grant-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
    "x-amz-expected-bucket-owner",
    "x-amz-source-expected-bucket-owner",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-object-ownership",
    "x-amz-request-payer",
)


def find(call: Call) -> Route:
    """The operation of the request; NotImplemented or MethodNotAllowed when there is none."""
    if not call.bucket:
        if call.method != "GET":
            raise S3Error("MethodNotAllowed", "The specified method is not allowed against this resource.")
        return LIST_BUCKETS
    level = "object" if call.key else "bucket"
    sub = next((name for name in call.query if name in _SUBRESOURCES), "") if call.query else ""
    route = ROUTES.get((call.method, level, sub))
    if route is None:
        if sub or call.query or call.method == "POST":
            raise S3Error(
                "NotImplemented", "A header or query you provided implies functionality not implemented."
            )
        raise S3Error("MethodNotAllowed", "The specified method is not allowed against this resource.")
    if call.has("x-amz-copy-source"):
        route = COPY.get(route.op, route)
    return route


def refuse_unknown(call: Call, route: Route, *, rdma: bool) -> None:
    """NotImplemented for any query parameter or header that would change the meaning of the request."""
    unknown = [name for name in call.query if name not in route.query]
    # Without versioning every object has the one version `null`, and naming it is the same as naming none.
    if route.op in _VERSIONED and call.query.get("versionId") == "null":
        unknown.remove("versionId")
    for name, values in call.headers.items():
        if not name.startswith("x-amz-"):
            continue
        if name.startswith(_REFUSED) or (name in _ALLOWED_VALUES and values != [_ALLOWED_VALUES[name]]):
            unknown.append(name)
    if call.rdma_requested and rdma and route.op not in ONE_SIDED:
        unknown += [name for name in RDMA_HEADERS if call.has(name)]
    if unknown:
        raise S3Error(
            "NotImplemented",
            "A header or query you provided implies functionality that is not implemented.",
            Header=",".join(sorted(unknown)),
        )
