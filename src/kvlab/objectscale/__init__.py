"""Clients of ObjectScale: S3 (boto3) and, later, the management API."""
