"""HDFS's own cluster in one process (a namenode and a datanode), for tests of what reads and writes `hdfs:`."""
