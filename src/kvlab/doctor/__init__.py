"""The doctor: a lab's facts in one file, judged by every check, host by host, and told as findings over hosts.

It stands above probes and checks: it collects (or reads) facts, hands them to the checks, and decides nothing itself.
"""
