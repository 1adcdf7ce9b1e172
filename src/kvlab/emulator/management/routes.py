"""Which operation a management request is: method and path, as the vendor's document has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvlab.emulator.management import (
    account,
    bucket_settings,
    buckets,
    iam,
    keys,
    namespaces,
    topology,
    users,
)
from kvlab.emulator.management.ask import Answer, Ask

Handler = Callable[[Ask], Answer]


@dataclass(frozen=True)
class Route:
    """`op` is the name in the log and for faults."""

    op: str
    method: str
    path: str
    handler: Handler


_NAMESPACE = "/object/namespaces/namespace/{namespace}"
_USER = "/object/users/{user}"
_KEYS = "/object/user-secret-keys"
_BUCKET = "/object/bucket/{bucket}"

# Where two paths could be meant, the more literal one stands first.
ROUTES: tuple[Route, ...] = (
    Route("Login", "GET", "/login", account.login),
    Route("Logout", "GET", "/logout", account.logout),
    Route("WhoAmI", "GET", "/user/whoami", account.whoami),
    Route("CountTokens", "GET", "/vdc/users/{user}/tokenCount", account.token_count),
    Route("UnlockAdministrator", "PUT", "/vdc/users/{user}/unlock", account.unlock),
    Route("ListNamespaces", "GET", "/object/namespaces", namespaces.list_all),
    Route("CreateNamespace", "POST", "/object/namespaces/namespace", namespaces.create),
    Route("GetNamespace", "GET", _NAMESPACE, namespaces.read),
    Route("UpdateNamespace", "PUT", _NAMESPACE, namespaces.update),
    Route("DeactivateNamespace", "POST", f"{_NAMESPACE}/deactivate", namespaces.deactivate),
    Route("GetNamespaceQuota", "GET", f"{_NAMESPACE}/quota", namespaces.read_quota),
    Route("UpdateNamespaceQuota", "PUT", f"{_NAMESPACE}/quota", namespaces.update_quota),
    Route("RemoveNamespaceQuota", "DELETE", f"{_NAMESPACE}/quota", namespaces.remove_quota),
    Route("ListRetentionClasses", "GET", f"{_NAMESPACE}/retention", namespaces.list_classes),
    Route("CreateRetentionClass", "POST", f"{_NAMESPACE}/retention", namespaces.create_class),
    Route("GetRetentionClass", "GET", f"{_NAMESPACE}/retention/{{class}}", namespaces.read_class),
    Route("UpdateRetentionClass", "PUT", f"{_NAMESPACE}/retention/{{class}}", namespaces.update_class),
    Route("ListUsers", "GET", "/object/users", users.list_all),
    Route("CreateUser", "POST", "/object/users", users.create),
    Route("DeactivateUser", "POST", "/object/users/deactivate", users.deactivate),
    Route("LockUser", "PUT", "/object/users/lock", users.lock),
    Route("GetUserLock", "GET", "/object/users/lock/{user}", users.read_lock),
    Route("GetUserLock", "GET", "/object/users/lock/{user}/{namespace}", users.read_lock),
    Route("ListUsersOfNamespace", "GET", "/object/users/{namespace}", users.list_of_namespace),
    Route("GetUserInfo", "GET", f"{_USER}/info", users.info),
    Route("GetUserTags", "GET", f"{_USER}/tags", users.read_tags),
    Route("AddUserTags", "POST", f"{_USER}/tags", users.add_tags),
    Route("UpdateUserTags", "PUT", f"{_USER}/tags", users.update_tags),
    Route("RemoveUserTags", "DELETE", f"{_USER}/tags", users.remove_tags),
    Route("SecretKeysExist", "GET", f"{_KEYS}/exist/{{user}}/{{namespace}}", keys.exist),
    Route("DeactivateSecretKey", "POST", f"{_KEYS}/{{user}}/deactivate", keys.deactivate),
    Route("CreateSecretKey", "POST", f"{_KEYS}/{{user}}", keys.create),
    Route("GetSecretKeys", "GET", f"{_KEYS}/{{user}}", keys.read),
    Route("GetSecretKeys", "GET", f"{_KEYS}/{{user}}/{{namespace}}", keys.read),
    Route("GetHideSecretKey", "GET", "/config/secretkey/hidesecretkey", keys.read_hiding),
    Route("UpdateHideSecretKey", "PUT", "/config/secretkey/hidesecretkey", keys.update_hiding),
    Route("ListBuckets", "GET", "/object/bucket", buckets.list_all),
    Route("CreateBucket", "POST", "/object/bucket", buckets.create),
    Route("GetBucketInfo", "GET", f"{_BUCKET}/info", buckets.info),
    Route("DeactivateBucket", "POST", f"{_BUCKET}/deactivate", buckets.deactivate),
    Route("GetEmptyBucketStatus", "GET", f"{_BUCKET}/empty-bucket-status", buckets.empty_status),
    Route("UpdateBucketOwner", "POST", f"{_BUCKET}/owner", bucket_settings.change_owner),
    Route("GetBucketQuota", "GET", f"{_BUCKET}/quota", bucket_settings.read_quota),
    Route("UpdateBucketQuota", "PUT", f"{_BUCKET}/quota", bucket_settings.update_quota),
    Route("RemoveBucketQuota", "DELETE", f"{_BUCKET}/quota", bucket_settings.remove_quota),
    Route("GetBucketRetention", "GET", f"{_BUCKET}/retention", bucket_settings.read_retention),
    Route("UpdateBucketRetention", "PUT", f"{_BUCKET}/retention", bucket_settings.update_retention),
    Route("UpdateBucketAutocommit", "PUT", f"{_BUCKET}/autocommit", bucket_settings.update_autocommit),
    Route("UpdateBucketOutage", "POST", f"{_BUCKET}/isstaleallowed", bucket_settings.update_stale),
    Route(
        "UpdateBucketAuditExpiration",
        "PUT",
        f"{_BUCKET}/auditDeleteExpiration",
        bucket_settings.update_audit_expiration,
    ),
    Route("AddBucketTags", "POST", f"{_BUCKET}/tags", bucket_settings.add_tags),
    Route("UpdateBucketTags", "PUT", f"{_BUCKET}/tags", bucket_settings.update_tags),
    Route("RemoveBucketTags", "DELETE", f"{_BUCKET}/tags", bucket_settings.remove_tags),
    Route("GetBucketLock", "GET", f"{_BUCKET}/lock", bucket_settings.read_lock),
    Route("UpdateBucketLock", "PUT", f"{_BUCKET}/lock/{{locked}}", bucket_settings.update_lock),
    Route("GetBucketPolicy", "GET", f"{_BUCKET}/policy", bucket_settings.read_policy),
    Route("UpdateBucketPolicy", "PUT", f"{_BUCKET}/policy", bucket_settings.update_policy),
    Route("RemoveBucketPolicy", "DELETE", f"{_BUCKET}/policy", bucket_settings.remove_policy),
    Route("GetBucketVersioning", "GET", f"{_BUCKET}/versioning", bucket_settings.read_versioning),
    Route("UpdateBucketVersioning", "PUT", f"{_BUCKET}/versioning", bucket_settings.update_versioning),
    Route("GetBucketAcl", "GET", f"{_BUCKET}/acl", bucket_settings.read_acl),
    Route("ListReplicationGroups", "GET", "/vdc/data-service/vpools", topology.list_groups),
    Route("GetReplicationGroup", "GET", "/vdc/data-service/vpools/{id}", topology.read_group),
    Route("ListNodes", "GET", "/vdc/nodes", topology.nodes),
    Route("GetLocalVdc", "GET", "/object/vdcs/vdc/local", topology.local_vdc),
    Route("ListVdcs", "GET", "/object/vdcs/vdc/list", topology.list_vdcs),
    Route("GetLicence", "GET", "/license", topology.licence),
    Route("GetCapacity", "GET", "/object/capacity", topology.capacity),
    Route("ListBaseUrls", "GET", "/object/baseurl", topology.list_base_urls),
    Route("CreateBaseUrl", "POST", "/object/baseurl", topology.create_base_url),
    Route("GetBaseUrl", "GET", "/object/baseurl/{id}", topology.read_base_url),
    Route("UpdateBaseUrl", "PUT", "/object/baseurl/{id}", topology.update_base_url),
    Route("RemoveBaseUrl", "POST", "/object/baseurl/{id}/deactivate", topology.remove_base_url),
    Route("Iam", "POST", "/iam", iam.serve),
)
OPEN = frozenset({"Login"})
"""Operations that need no token."""
