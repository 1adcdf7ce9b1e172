"""A folder from which a lab without internet is installed: wheels, hashes, and a list of packages.

lock      what a lock file pins
wheels    which wheel serves a pin, and its download by pip
systems   the repositories and packages of a GPU host, from the roles' own variables
manifest  what is in the folder, by sha256
build     all of it, in order
"""
