"""Weights by revision and sha256, brought to a host from a folder, a web server or a bucket; never from a hub.

listing   kvlab-model.json: which files a revision consists of
sources   where they are read from, from any offset on
fetch     bringing a folder to what the listing says, going on where an earlier run ended
"""
