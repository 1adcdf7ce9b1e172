"""Clients of ObjectScale: S3 (boto3) and the management API (httpx)."""
