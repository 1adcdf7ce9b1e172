"""The emulated ObjectScale: S3, one-sided transfers, access log, faults."""
