"""An S3 server whose objects are files on disk (versitygw), for tests of what reads and writes `s3a:`."""
