"""The emulated array's management API: what ops do on port 4443, with users, keys and buckets that S3 then honours."""
