"""S3 errors: a code, its HTTP status and one sentence, as S3's REST API lists them."""

from __future__ import annotations

_STATUS = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "IncompleteBody": 400,
    "InsufficientStorage": 507,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartNumber": 416,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRDMAToken": 400,
    "InvalidRequest": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedXML": 400,
    "MetadataTooLarge": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchLifecycleConfiguration": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "ObjectUnderRetention": 409,
    "PreconditionFailed": 412,
    "QuotaExceeded": 403,
    "RDMATransferFailed": 500,
    "RequestTimeTooSkewed": 403,
    "RequestTimeout": 400,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "XAmzContentSHA256Mismatch": 400,
}


class S3Error(Exception):
    """What the client is told instead of a result. `extra` adds elements to the error document."""

    def __init__(self, code: str, message: str, **extra: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = _STATUS.get(code, 500)
        self.extra = extra


class NotModifiedError(Exception):
    """A condition of GET or HEAD that ends in 304, which has no error document."""

    def __init__(self, etag: str, modified: float) -> None:
        super().__init__("not modified")
        self.etag = etag
        self.modified = modified


class DisconnectedError(Exception):
    """The client went away, or a fault resets its connection; there is nobody to answer."""
